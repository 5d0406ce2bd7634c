"""A crop before what changes each pixel by itself: what is tried, what is refused, and what is written."""

import subprocess
from dataclasses import replace

import pytest
import torch
from jpeg_files import Files, seen_with
from made_up_script import MADE, Planted
from small_worker import fetched
from torchvision import transforms as v1
from torchvision.transforms import v2

from pipebench.advise.conductor import Conductor
from pipebench.advise.snippet import written
from pipebench.remedies import crop_first
from pipebench.watch.trial.edits import Refused

NORMALISE = ([0.5] * 3, [0.2] * 3)
ROWS = [("ColorJitter", "transform", 0.4), ("ToTensor", "transform", 0.1), ("RandomCrop", "transform", 0.01)]
ROWS += [("RandomHorizontalFlip", "transform", 0.01), ("Normalize", "transform", 0.1)]
TRAIN = """train = T.Compose([
    T.RandomHorizontalFlip(),
    T.ColorJitter(0.3, 0.3),  # as much as the eye allows
    T.RandomCrop(96),
    T.ToTensor(),
    T.Normalize(mean, std),
])
loader = DataLoader(data)
"""


def _made(entries, kind, folder, numbers=(0, 1, 2, 3)):
    dataset = Files(folder, ())
    dataset.transform = kind(list(entries))
    torch.manual_seed(5)
    return dataset, [dataset[one][0] for one in numbers]


@pytest.mark.parametrize(
    "entries",
    [
        (v1.ToTensor(), v1.Normalize(*NORMALISE), v1.RandomCrop(32)),
        (v1.RandomHorizontalFlip(), v1.RandomInvert(), v1.RandomCrop((40, 24)), v1.ToTensor()),
        (v2.ToImage(), v2.RandomVerticalFlip(), v2.ToDtype(torch.float32, True), v2.CenterCrop(32)),
        (v1.RandomPosterize(3), v1.CenterCrop(32), v1.ToTensor()),
        (v1.ToTensor(), v1.Normalize(*NORMALISE, inplace=True), v1.CenterCrop(32)),
    ],
    ids=["tensors", "flips", "v2", "jumps", "in-place"],
)
def test_a_crop_of_pixels_gives_the_same_from_the_same_random_numbers(entries, tmp_path):
    differences = []
    kind = v2.Compose if type(entries[0]).__module__.startswith("torchvision.transforms.v2") else v1.Compose
    dataset, before = _made(entries, kind, tmp_path)
    torch.manual_seed(5)
    (found,) = fetched(dataset, crop_first.edit(), [[0, 1, 2, 3]], told=differences)
    assert [one.shape for one, _ in found] == [one.shape for one in before]
    assert [type(one) for one in dataset.transform.transforms] == [type(one) for one in entries]
    assert differences[0].largest < 1e-5


@pytest.mark.parametrize(
    "entries",
    [
        (v1.ColorJitter(0.3, 0.3, 0.3, 0.05), v1.RandomCrop(48), v1.ToTensor()),
        (v1.GaussianBlur(5), v1.RandomHorizontalFlip(), v1.RandomCrop(48), v1.ToTensor()),
        (v1.ToTensor(), v1.ColorJitter(0.2), v1.Normalize(*NORMALISE), v1.RandomResizedCrop(32)),
    ],
    ids=["contrast", "blur", "resized"],
)
def test_a_small_difference_is_told(entries, tmp_path):
    differences = []
    dataset, _ = _made(entries, v1.Compose, tmp_path)
    fetched(dataset, crop_first.edit(), [[0, 1, 2, 3]], told=differences)
    (told,) = differences
    assert 0 < told.mean <= crop_first.TOLERANCE * told.span


def test_what_comes_before_the_crop_gets_its_pixels_only(tmp_path, monkeypatch):
    seen, plain = [], v1.ColorJitter.forward
    monkeypatch.setattr(v1.ColorJitter, "forward", lambda self, image: seen.append(image.size) or plain(self, image))
    dataset, _ = _made((v1.ColorJitter(0.2), v1.RandomCrop(20), v1.ToTensor()), v1.Compose, tmp_path)
    seen.clear()
    fetched(dataset, crop_first.edit(), [[0], [1], [2]])
    assert seen[-3:] == [(20, 20)] * 3 and (20, 20) not in seen[:2]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ((v1.RandomCrop(20), v1.ColorJitter(0.2)), "no-such-transforms"),
        ((v1.RandomRotation(9), v1.RandomCrop(20)), "no-such-transforms"),
        ((v1.ColorJitter(0.2), v1.RandomCrop(20, padding=4)), "pads"),
        ((v1.ColorJitter(0.2), v1.RandomCrop(20, pad_if_needed=True)), "pads"),
        ((v1.ColorJitter(0.2), v1.CenterCrop(400)), "pads"),
        ((v1.ColorJitter(0.2), v1.RandomCrop(40), v1.CenterCrop(20)), "no-such-transforms"),
        ((v1.GaussianBlur(3), v1.RandomResizedCrop(20)), "no-such-transforms"),
        ((v1.ColorJitter(0.2), v1.Resize(64), v1.RandomCrop(20)), "no-such-transforms"),
    ],
    ids=["first", "turns", "pads", "pads-if-needed", "small-image", "twice", "blur-resized", "resize"],
)
def test_it_is_refused_where_the_order_matters(entries, why, tmp_path):
    with pytest.raises(Refused, match=why):
        fetched(Files(tmp_path, (*entries, v1.PILToTensor())), crop_first.edit(), [[0, 1, 2, 3]])


def test_it_is_offered_where_what_comes_before_the_crop_is_large(tmp_path):
    figures = seen_with(tmp_path / "train.py", TRAIN, *ROWS, discards=True)
    change = crop_first.propose(figures, [])
    assert change.discards and not change.gives_up and change.predicted == pytest.approx(1 / 0.59)
    assert change.at.line == 4 and change.how == ("Move T.RandomCrop(96) in front of RandomHorizontalFlip.",)
    assert crop_first.propose(replace(figures, discards=False), []) is None
    assert crop_first.propose(replace(figures, settings={"num_workers": 0}), []) is None
    small = seen_with(tmp_path / "train.py", TRAIN, ("ColorJitter", "transform", 0.1), *ROWS[1:], discards=True)
    assert crop_first.propose(small, []) is None


def test_it_is_not_offered_where_no_list_shows_the_order(tmp_path):
    figures = seen_with(tmp_path / "train.py", "loader = DataLoader(data)\n", *ROWS, discards=True)
    assert crop_first.propose(figures, []) is None


@pytest.mark.parametrize("crop", ["RandomCrop(96, padding=8)", "RandomCrop(96, pad_if_needed=True)"])
def test_a_crop_that_pads_is_not_offered(crop, tmp_path):
    text = TRAIN.replace("RandomCrop(96)", crop)
    assert crop_first.propose(seen_with(tmp_path / "train.py", text, *ROWS, discards=True), []) is None


def test_a_crop_that_resizes_floats_is_counted_with_them(tmp_path):
    text = "steps = [ToTensor(), RandomResizedCrop(96)]\nloader = DataLoader(data)\n"
    rows = ("ToTensor", "transform", 0.2), ("RandomResizedCrop", "transform", 0.3)
    assert crop_first.propose(seen_with(tmp_path / "train.py", text, *rows, discards=True), []).predicted == 2.0


def test_the_patch_moves_the_line_of_the_crop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figures = seen_with(tmp_path / "train.py", TRAIN, *ROWS, discards=True)
    (tmp_path / "fix.diff").write_text(written(figures.made, crop_first.propose(figures, [])).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    crop, first = "    T.RandomCrop(96),\n", "    T.RandomHorizontalFlip(),\n"
    assert (tmp_path / "train.py").read_text() == TRAIN.replace(crop, "").replace(first, crop + first)


def test_it_is_advised_if_it_gains(tmp_path):
    figures = seen_with(tmp_path / "train.py", TRAIN, *ROWS, discards=True)
    run = Planted(lambda order: 2.0 if order.edits else 1.0, figures, made=MADE)
    conductor = Conductor(run, {"crop_first": crop_first.propose}, 400)
    conductor.conduct()
    assert conductor.advice().chosen.change.title == "Crop first"
