"""Resize before what gives about the same on small images: what is tried, what is refused, and what is written."""

import subprocess
from dataclasses import replace

import pytest
import torch
from jpeg_files import Files, seen_with
from made_up_script import MADE, Planted
from small_worker import fetched
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from pipebench.advise.conductor import Conductor
from pipebench.advise.snippet import written
from pipebench.remedies import draft, resize_first
from pipebench.watch.trial.edits import Refused

BILINEAR, TO_FLOATS = v1.InterpolationMode.BILINEAR, v2.ToDtype(torch.float32, True)
ROWS = [("ColorJitter", "transform", 0.4), ("RandomRotation", "transform", 0.1), ("Resize", "transform", 0.1)]
ROWS += [("RandomHorizontalFlip", "transform", 0.0), ("ToTensor", "transform", 0.1)]
TRAIN = """train = T.Compose([
    T.RandomHorizontalFlip(),
    T.RandomRotation(15),  # more was worse
    # only a little
    T.ColorJitter(
        0.3, 0.3,
    ),
    T.Resize(112),  # of the short side
    T.RandomCrop(96),
])
valid = T.Compose([T.Resize(112), T.CenterCrop(96)])
loader = DataLoader(data)
"""
MOVED = """train = T.Compose([
    T.Resize(112),  # of the short side
    T.RandomHorizontalFlip(),
    T.RandomRotation(15),  # more was worse
    # only a little
    T.ColorJitter(
        0.3, 0.3,
    ),
    T.RandomCrop(96),
])
"""


@pytest.mark.parametrize(
    ("kind", "entries"),
    [
        (v1.Compose, (v1.RandomHorizontalFlip(), v1.RandomRotation(15), v1.ColorJitter(0.3, 0.3, 0.3, 0.05))),
        (v2.Compose, (v2.RandomVerticalFlip(), v2.RandomPhotometricDistort(), v2.RandomAffine(9, (0.1, 0.1)))),
        (v2.Compose, (v2.ToImage(), v2.RandomRotation(15, BILINEAR), v2.RandomGrayscale(), TO_FLOATS)),
        (v2.Compose, (v2.ToImage(), TO_FLOATS)),
    ],
    ids=["v1", "v2", "tensors", "floats"],
)  # fmt: skip
def test_the_rest_gets_small_images_and_the_difference_is_told(kind, entries, tmp_path):
    def dataset():
        found = Files(tmp_path, ())
        after = [v1.RandomCrop(24), v1.ToTensor()] if kind is v1.Compose else [v2.RandomCrop(24)]
        found.transform = kind([*entries, (v1 if kind is v1.Compose else v2).Resize(32), *after])
        return found

    differences, plain = [], dataset()
    torch.manual_seed(3)
    before = [plain[one][0] for one in range(4)]
    torch.manual_seed(3)
    changed = dataset()
    order = list(changed.transform.transforms)
    (found,) = fetched(changed, resize_first.edit(), [[0, 1, 2, 3]], told=differences)
    assert changed.transform.transforms == order
    assert [_size(one) for one, _ in found] == [_size(one) for one in before]
    (told,) = differences
    assert 0 < told.mean <= resize_first.TOLERANCE * told.span


def _size(image):
    return image.shape if torch.is_tensor(image) else image.size


def test_what_comes_before_the_resize_gets_images_of_its_size(tmp_path, monkeypatch):
    seen, plain = [], v1.ColorJitter.forward
    monkeypatch.setattr(v1.ColorJitter, "forward", lambda self, image: seen.append(image.size) or plain(self, image))
    entries = v1.RandomCrop(60), v1.ColorJitter(0.2), v1.Resize(20), v1.ToTensor()
    fetched(Files(tmp_path, entries), resize_first.edit(), [[0], [1, 2]])
    assert set(seen[:4]) == {(60, 60), (20, 20)} and set(seen[-3:]) == {(20, 20)}


@pytest.mark.parametrize(
    "entries",
    [
        (v1.Resize(20), v1.ColorJitter(0.2)),
        (v1.RandomCrop(60), v1.Resize(20)),
        (v1.GaussianBlur(3), v1.Resize(20)),
        (v1.RandomSolarize(128), v1.Resize(20)),
        (v1.ConvertImageDtype(torch.float32), v1.Resize(20)),
        (v1.ColorJitter(0.2), v1.Resize(40), v1.Resize(20)),
        (v1.RandomRotation(9, expand=True), v1.Resize(20)),
        (v1.RandomRotation(9, center=(0, 0)), v1.Resize(20)),
        (v1.RandomRotation(9), v1.Resize((20, 20))),
    ],
    ids=["first", "crop", "blur", "jumps", "conversion", "twice", "expands", "corner", "distorts"],
)
def test_it_is_refused_where_the_order_matters(entries, tmp_path):
    with pytest.raises(Refused, match="no-such-transforms"):
        fetched(Files(tmp_path, (*entries, v1.PILToTensor())), resize_first.edit(), [[0, 1, 2, 3]])


def test_a_resize_to_the_shape_of_the_image_may_come_before_a_rotation(tmp_path):
    entries = v1.RandomRotation(9, BILINEAR), v1.Resize((30, 40)), v1.ToTensor()
    assert len(fetched(Files(tmp_path, entries), resize_first.edit(), [[0]])[0]) == 1  # of 160 × 120 pixels


def test_values_that_are_too_far_apart_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(resize_first, "TOLERANCE", 0.0001)
    with pytest.raises(Refused, match="samples-differ"):
        entries = v1.RandomRotation(9), v1.Resize(20), v1.ToTensor()
        fetched(Files(tmp_path, entries), resize_first.edit(), [[0, 1]])


def test_images_with_masks_stay_as_they_are(tmp_path):
    class Masked(Files):
        def __getitem__(self, index):
            return self.transform(tv_tensors.Image(torch.zeros(3, 40, 40)), tv_tensors.Mask(torch.zeros(1, 40, 40)))

    dataset = Masked(tmp_path, ())
    dataset.transform = v2.Compose([v2.RandomHorizontalFlip(), v2.Resize(20)])
    with pytest.raises(Refused, match="no-such-transforms"):
        fetched(dataset, resize_first.edit(), [[0, 1]])


def test_it_is_offered_where_what_comes_before_the_resize_is_large(tmp_path):
    figures = seen_with(tmp_path / "train.py", TRAIN, *ROWS, discards=True)
    change = resize_first.propose(figures, [])
    assert change.discards and not change.gives_up and change.predicted == pytest.approx(2.0)
    assert change.at.line == 8 and change.how == ("Move T.Resize(112) in front of RandomHorizontalFlip.",)
    assert resize_first.propose(replace(figures, discards=False), []) is None
    assert resize_first.propose(replace(figures, settings={"num_workers": 0}), []) is None
    small = seen_with(tmp_path / "train.py", TRAIN, ("ColorJitter", "transform", 0.1), *ROWS[1:3], discards=True)
    assert resize_first.propose(small, []) is None
    first = f"{MOVED}loader = DataLoader(data)\n"
    assert resize_first.propose(seen_with(tmp_path / "train.py", first, *ROWS, discards=True), []) is None


@pytest.mark.parametrize("text", ["loader = DataLoader(data)\n", TRAIN + TRAIN.split("valid")[0]], ids=["none", "two"])
def test_it_is_told_in_words_where_no_one_list_shows_it(text, tmp_path):
    figures = seen_with(tmp_path / "train.py", text, *ROWS, discards=True)
    change = resize_first.propose(figures, [])
    assert change.how == (resize_first.HOW,) and change.at is None and not change.rewrites
    assert change.predicted == pytest.approx(2.0)


def _after(folder, monkeypatch, text):
    """The file with this text after the patch."""
    monkeypatch.chdir(folder)
    figures = seen_with(folder / "train.py", text, *ROWS, discards=True)
    found = written(figures.made, resize_first.propose(figures, []))
    (folder / "fix.diff").write_bytes(found.diff.encode())
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    return (folder / "train.py").read_bytes().decode(), found.snippet


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_the_line_of_the_resize_is_moved_with_its_comment(end, tmp_path, monkeypatch):
    after, snippet = _after(tmp_path, monkeypatch, TRAIN.replace("\n", end))
    assert after == (MOVED + TRAIN[TRAIN.index("valid") :]).replace("\n", end)
    assert (snippet.line, len(snippet.before)) == (2, 7)
    assert snippet.after[0] == "    T.Resize(112),  # of the short side"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[T.CenterCrop(9), T.ColorJitter(), T.Resize(112)]", "[T.CenterCrop(9), T.Resize(112), T.ColorJitter()]"),
        ("[RandomRotation(9), ColorJitter(),\n Resize(5)]", "[Resize(5), RandomRotation(9),\n ColorJitter()]"),
        ("[T.ToTensor(),\n T.ColorJitter(),\n T.Resize(5)\n]", "[T.Resize(5),\n T.ToTensor(),\n T.ColorJitter()\n]"),
    ],
    ids=["one-line", "two-lines", "no-comma"],
)  # fmt: skip
def test_entries_without_lines_of_their_own_change_places(text, wanted, tmp_path, monkeypatch):
    rows = f"steps = {text}\nloader = DataLoader(data)\n"
    assert _after(tmp_path, monkeypatch, rows)[0] == rows.replace(text, wanted)


@pytest.mark.parametrize(
    "text", ["[T.ColorJitter(0.3), # much\n T.Resize(112)]", "[(T.ColorJitter(0.3)), T.Resize(112)]"]
)
def test_nothing_is_written_where_comments_or_parentheses_would_move_apart(text, tmp_path):
    text = f"steps = {text}\nloader = DataLoader(data)\n"
    change = resize_first.propose(seen_with(tmp_path / "train.py", text, *ROWS, discards=True), [])
    assert change.at.line in (1, 2) and not change.rewrites


def test_it_is_advised_if_it_gains(tmp_path):
    figures = seen_with(tmp_path / "train.py", TRAIN, *ROWS, discards=True)
    run = Planted(lambda order: 2.0 if order.edits else 1.0, figures, made=MADE)
    conductor = Conductor(run, {"resize_first": resize_first.propose}, 400)
    conductor.conduct()
    assert conductor.advice().chosen.change.title == "Resize first"


def test_a_reduced_decode_may_come_before_flips_and_colours(tmp_path):
    differences = []
    entries = v1.RandomRotation(9, BILINEAR), v1.ColorJitter(0.2), v1.Resize(16), v1.ToTensor()
    fetched(Files(tmp_path, entries), draft.edit(), [[0, 1]], told=differences)
    assert differences[0].mean > 0
    rows = ("ImageFile.load", "decode", 0.2), *ROWS
    figures = seen_with(tmp_path / "train.py", TRAIN, *rows, discards=True)
    assert draft.propose(figures, []).predicted == pytest.approx(5.0)
