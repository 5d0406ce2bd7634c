"""Remedies of stages: the samples that they give, the difference that is told, and where they are refused."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from made_up_trials import seen
from PIL import Image
from small_worker import fetched
from torch.utils.data import default_collate
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from pipebench.remedies import bytes_across, draft, lookup
from pipebench.results.watched import StageResult
from pipebench.watch.record.trial_lines import LoaderMade
from pipebench.watch.trial.compared import Comparing, compare_first, difference
from pipebench.watch.trial.edits import Difference, Refused, Sent

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
V1 = v1.ToTensor(), v1.Normalize(MEAN, STD)
V2 = v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)
NORMALISED = pytest.mark.parametrize("entries", [V1, V2, (v2.PILToTensor(), *V2[1:])], ids=["v1", "v2", "pil-v2"])


Picture = tv_tensors.Image


class OnlyFloats(v2.Normalize):
    """Passes everything else by. It has the class name and the module of torchvision's."""

    __module__ = "torchvision.transforms.v2._misc"

    def __init__(self):
        super().__init__(MEAN, STD)

    def forward(self, found):
        return super().forward(found) if found.is_floating_point() else found


OnlyFloats.__name__ = "Normalize"


class Photos:
    def __init__(self, sizes, entries, kind=v1.Compose, folder=None):
        self.sizes, self.transform, self.folder = sizes, kind(list(entries)), folder

    def image(self, index):
        rng = np.random.default_rng(index)
        return Image.fromarray(rng.integers(0, 256, (*self.sizes[index][::-1], 3), dtype=np.uint8))

    def __getitem__(self, index):
        return self.transform(self.image(index)), index


class Files(Photos):
    def image(self, index):
        path = self.folder / f"{index}.jpg"
        if not path.exists():
            small = super().image(index).resize((8, 8))
            small.resize(self.sizes[index], Image.Resampling.BICUBIC).save(path, quality=90)
        return Image.open(path)


@NORMALISED
@pytest.mark.parametrize("flip", [False, True])
def test_bytes_across_give_the_same_batches_bit_for_bit(entries, flip):
    entries = (v1.RandomHorizontalFlip(), *entries) if flip else entries
    dataset, differences = Photos([(9, 7)] * 6, entries), []
    indices = [[0, 1], [2, 3], [4, 5]]
    torch.manual_seed(3)
    plain = [default_collate([dataset[one] for one in batch]) for batch in indices]
    torch.manual_seed(3)
    found = fetched(dataset, bytes_across.edit(), indices, default_collate, differences)
    for one, other in zip(found, plain, strict=True):
        assert type(one) is type(other) and one[0].dtype == torch.float32 and one[0].stride() == other[0].stride()
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    assert [one.largest for one in differences] == [0.0] and differences[0].values == 2 * 9 * 7 * 3
    assert len(dataset.transform.transforms) == len(entries)


@NORMALISED
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_table_gives_the_same_samples_bit_for_bit(entries, mode):
    last = type(entries[-1])(MEAN[: len(mode)], STD[: len(mode)])
    entries = (v1.Grayscale(len(mode)), v1.RandomHorizontalFlip(), *entries[:-1], last)
    dataset, differences = Photos([(9, 7)] * 4, entries), []
    torch.manual_seed(3)
    plain = [[dataset[one] for one in batch] for batch in ([0, 1], [2, 3])]
    torch.manual_seed(3)
    found = fetched(dataset, lookup.edit(), [[0, 1], [2, 3]], told=differences)
    for one, other in zip([*found[0], *found[1]], [*plain[0], *plain[1]], strict=True):
        assert type(one[0]) is type(other[0]) and torch.equal(one[0], other[0]) and one[1] == other[1]
    batches = [default_collate([image for image, _ in found]) for found in (found[0], plain[0])]
    assert batches[0].stride() == batches[1].stride()
    assert [one.largest for one in differences] == [0.0] and len(dataset.transform.transforms) == len(entries)


def test_a_table_is_refused_where_there_is_no_byte():
    for entries, code in (
        ((v1.Lambda(lambda image: image.convert("F")), v1.ToTensor(), v1.Normalize(0.5, 0.5)), "not-bytes"),
        ((v1.ToTensor(), v1.RandomErasing(), V1[1]), "no-such-transforms"),
    ):
        with pytest.raises(Refused, match=code):
            fetched(Photos([(16, 12)] * 4, entries), lookup.edit(), [[0, 1]])


def test_an_image_without_bytes_among_others_goes_the_usual_way():
    table = lookup.ByTable(v1.ToTensor(), v1.Normalize(0.5, 0.5))
    for mode in ("L", "1", "F"):
        image = Image.new(mode, (3, 2), 1)
        assert torch.equal(table(image), v1.Compose(table.steps)(image))
    of_tensors = lookup.ByTable(v1.ConvertImageDtype(torch.float32), v1.Normalize(0.5, 0.5))
    image = torch.arange(6, dtype=torch.uint8).reshape(1, 2, 3)  # channels first: no table of columns
    assert torch.equal(of_tensors(image), v1.Compose(of_tensors.steps)(image)) and not of_tensors.tables


def test_only_a_quarter_of_the_bytes_crosses(monkeypatch):
    sent = []
    plain = default_collate
    monkeypatch.setattr(
        torch.utils.data, "default_collate", lambda samples: sent.append(samples[0][0]) or plain(samples)
    )
    fetched(Photos([(8, 8)] * 4, V1), bytes_across.edit(), [[0, 1], [2, 3]], torch.utils.data.default_collate)
    assert [one.dtype for one in sent] == [torch.uint8] * 2


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ((*V1, v1.RandomErasing()), "no-such-transforms"), ((v1.ToTensor(),), "no-such-transforms"),
        ((v1.ToTensor(), v1.CenterCrop(4), V1[1]), "no-such-transforms"),
        ((v2.ToImage(), v2.ToDtype({Picture: torch.float32, "others": None}, scale=True), OnlyFloats()), "not-bytes"),
        ((v1.Lambda(lambda image: image.convert("F")), v1.ToTensor(), v1.Normalize(0.5, 0.5)), "not-bytes"),
        ((v1.Lambda(lambda image: random.SystemRandom().random() and image.rotate(random.SystemRandom().random() * 90)),
          *V1), "not-repeatable"),
    ],
)  # fmt: skip
def test_bytes_across_are_refused_where_they_would_not_be_the_same(entries, code):
    with pytest.raises(Refused, match=code):
        fetched(Photos([(16, 12)] * 4, entries), bytes_across.edit(), [[0, 1]], default_collate)


def _padded(samples):
    """As torchvision's reference for detection and segmentation collates images of several sizes."""
    images = [one for one, _ in samples]
    batch = images[0].new(len(images), *(max(size) for size in zip(*(one.shape for one in images), strict=True)))
    batch.fill_(0)
    for place, image in zip(batch, images, strict=True):
        place[..., : image.shape[-2], : image.shape[-1]].copy_(image)
    return batch


def test_a_collate_function_that_writes_values_is_refused():
    """A padding of 0 would be normalised, too: it became -2.1, and no sample told."""
    with pytest.raises(Refused, match="own-collate"):
        fetched(Photos([(8, 8), (16, 12)], V1), bytes_across.edit(), [[0, 1]], _padded)


def test_what_comes_besides_is_compared_too():
    class Masked(Photos):
        def __getitem__(self, index):
            return {"image": self.transform(self.image(index)), "mask": torch.ones(3, 4, 4, dtype=torch.uint8)}

    with pytest.raises(Refused, match="samples-differ"):
        fetched(Masked([(8, 8)] * 2, V1), bytes_across.edit(), [[0, 1]], default_collate)


@pytest.mark.parametrize("size", [16, [16, 24]], ids=str)
@pytest.mark.parametrize(("kind", "resize"), [(v1.Compose, v1.Resize), (v2.Compose, v2.Resize)], ids=["v1", "v2"])
def test_draft_gives_smaller_images_to_the_resize_and_tells_the_difference(tmp_path, size, kind, resize):
    sizes = []
    looks = v1.Lambda(lambda image: sizes.append(image.size) or image)
    dataset = Files([(120, 80)] * 4, (resize(size), looks, v1.ToTensor()), kind, tmp_path)
    plain = [dataset[one][0] for one in range(4)]
    differences = []
    opened = Image.open
    ((*found,),) = fetched(dataset, draft.edit(), [[0, 1, 2, 3]], told=differences)
    assert Image.open is opened and len(set(sizes)) == 1
    assert [one.shape for one, _ in found] == [one.shape for one in plain]
    (told,) = differences
    largest = max(float((one - other).abs().max()) for (one, _), other in zip(found, plain, strict=True))
    assert told.largest == pytest.approx(largest) and 0 < told.mean < told.largest <= 1.0


def test_draft_is_refused_where_nothing_becomes_smaller(tmp_path):
    for entries, code in (
        ((v1.Resize(70), v1.ToTensor()), "not-smaller"),
        ((v1.RandomResizedCrop(16), v1.ToTensor()), "no-such-resize"),
        ((v1.CenterCrop(64), v1.Resize(16), v1.ToTensor()), "no-such-resize"),
    ):
        with pytest.raises(Refused, match=code):
            fetched(Files([(120, 80)] * 2, entries, folder=tmp_path), draft.edit(), [[0, 1]])


def test_differences_are_of_values_and_form():
    one = {"x": torch.zeros(2, 3), "id": "a"}
    found = difference([one], [{"x": torch.tensor([[0.0, 0, 0], [0, 0, 0.6]]), "id": "a"}])
    assert (found.largest, found.mean, found.values) == (pytest.approx(0.6), pytest.approx(0.1), 6)
    for other in ({"x": torch.zeros(3, 2), "id": "a"}, {"x": torch.zeros(2, 3), "id": "b"}, {"x": torch.zeros(2, 3)},
                  {"x": torch.zeros(2, 3, dtype=torch.float64), "id": "a"}):  # fmt: skip
        assert difference([one], [other]).largest == float("inf")


def test_what_is_no_number_is_compared_too_and_hides_nothing():
    holes, finite = torch.tensor([torch.nan, 1.0, torch.inf]), torch.tensor([0.0, 1.0, 3.0])
    assert difference([holes], [holes.clone()]) == Difference(0.0, 0.0, 0.0, 3)
    for other in (finite, holes + 1, torch.tensor([torch.nan, 1.0, -torch.inf])):
        assert difference([holes], [other]).largest > 0 and not Comparing(0.0).allows(difference([holes], [other]))
    assert difference([holes], [finite]).largest == float("inf")


def test_arrays_and_images_are_compared_however_they_lie_in_memory():
    """Custom collate functions take what torch does not: reversed channels, other byte orders, texts, locked memory."""
    image = Image.new("RGB", (4, 3), (9, 8, 7))
    image.putpixel((0, 0), (8, 8, 8))
    for one in (np.arange(6)[::-1], np.arange(6.0).astype(">f4"), np.array(["a", "b"]), np.asarray(image)[..., ::-1]):
        assert difference([one], [one.copy()]).largest == 0.0
        assert difference([one], [one[::-1].copy()]).largest > 0
    assert difference([image], [image.point(lambda value: value + 2)]).largest == 2.0


def test_the_entry_that_differs_most_for_its_range_is_what_counts():
    """A number of a million beside the image does not make the range of its values larger."""
    before = [{"image": torch.tensor([0.0, 1.0]), "id": torch.tensor(one)} for one in (7, 1_000_007)]
    after = [{"image": one["image"] + 0.2, "id": one["id"]} for one in before]
    found = difference(before, after)
    assert (found.mean, found.span, found.values) == (pytest.approx(0.2), 1.0, 6)
    assert not Comparing(None, mean_share=0.05).allows(found) and Comparing(None, mean_share=0.25).allows(found)
    moved = difference(before, [{**one, "id": one["id"] + 200_000} for one in before])
    assert (moved.mean, moved.span) == (200_000.0, 1_000_000.0)
    flat = difference([torch.zeros(3)], [torch.ones(3)])
    assert not Comparing(None, mean_share=0.25).allows(flat)


def test_no_reduced_decode_is_told_where_labels_follow_the_size(tmp_path):
    class Boxed(Files):
        def __getitem__(self, index):
            image = self.image(index)
            return self.transform(image), image.size

    dataset = Boxed([(120, 80)] * 2, (v1.Resize(16), v1.ToTensor()), folder=tmp_path)
    with pytest.raises(Refused, match="samples-differ"):
        fetched(dataset, draft.edit(), [[0, 1]])


def test_no_reduced_decode_is_tried_where_a_crop_by_labels_comes_first(tmp_path):
    class Cut(Files):
        def __getitem__(self, index):
            return self.transform(self.image(index).crop((60, 40, 120, 80))), index

    with pytest.raises(Refused, match="samples-differ"):
        fetched(Cut([(120, 80)] * 2, (v1.Resize(16), v1.ToTensor()), folder=tmp_path), draft.edit(), [[0, 1]])


def test_indices_of_a_batch_may_be_an_array():
    """As a sampler of batches gives them that slices a permutation of NumPy."""
    from small_worker import fetcher

    found = fetcher([torch.zeros(2), torch.ones(2), torch.zeros(2)])
    found.auto_collation = True
    compare_first(found, lambda: None, Comparing(0.0))
    assert found.fetch(np.array([2, 1])).notes == [Difference(0.0, 0.0, 1.0, 4)]


def test_comparing_leaves_the_random_numbers_as_they_were():
    class Random:
        def __getitem__(self, index):
            return torch.rand(2), random.random(), float(np.random.rand())

    from small_worker import fetcher

    def drawn(how):
        torch.manual_seed(1), random.seed(1), np.random.seed(1)
        found = fetcher(Random())
        how(found)
        batch = found.fetch([0, 1])
        return str(batch.batch if isinstance(batch, Sent) else batch)

    compared = drawn(lambda found: compare_first(found, lambda: None, Comparing(0.0)))
    assert compared == drawn(lambda found: None)


def _stages(*rows):
    return tuple(StageResult(name, kind, 1, 100, 0.01 * share, share) for name, kind, share in rows)


def _seen(*rows, wait_share=0.6, **more):
    found = seen(wait_share)
    return replace(found, watched=replace(found.watched, stages=_stages(*rows)), **more)


def test_they_are_offered_where_their_stages_are_large(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("a = 1\nlast = transforms.Normalize(mean, std)\nimage = Image.open(path)\n")
    made = LoaderMade(1, str(script), 1, 1, 0, 1, "main", 100)
    rows = ("ToTensor", "transform", 0.1), ("Normalize", "transform", 0.1), ("default_collate", "collate", 0.1)
    change = bytes_across.propose(_seen(*rows, made=made), [])
    assert change.at.line == 2 and not change.discards and change.predicted == pytest.approx(1 / 0.7)
    on_device = bytes_across.propose(
        _seen(*rows, made=made, device=True), []
    )  # where only the device's idle time counts
    assert on_device.of_script and not on_device.edits and on_device.predicted == change.predicted
    assert on_device.title == "normalising on the device" and "after the copy" in on_device.how[-1]
    assert bytes_across.propose(_seen(*rows, wait_share=0.01, made=made, device=True), []) is None
    assert bytes_across.propose(_seen(*rows[:1], made=made), []) is None
    assert bytes_across.propose(_seen(*rows, wait_share=0.01, made=made), []) is None
    table = lookup.propose(_seen(*rows, made=made), [])
    assert table.predicted == pytest.approx(1 / 0.8) and table.group == change.group != ""
    assert not table.rewrites and table.how == lookup.HOW_BY_HAND  # here no list shows the steps
    assert lookup.propose(_seen(rows[0], made=made), []) is None
    rows = ("ImageFile.load", "decode", 0.5), ("Resize (1 of 2)", "transform", 0.1)
    change = draft.propose(_seen(*rows, discards=True, made=made), [])
    assert change.at.line == 3 and change.discards and change.predicted == pytest.approx(2.5)
    assert draft.propose(_seen(*rows, made=made), []) is None
    assert draft.propose(_seen(rows[0], discards=True), []) is None


def test_what_is_written_of_bytes_names_the_steps_that_were_tried():
    """A conversion multiplies by 1/255, which differs from a division by 255 in the last bit of some values."""
    old = ("ToTensor", "transform", 0.1), ("Normalize", "transform", 0.1)
    new = ("ToImage", "transform", 0.1), ("ToDtype", "transform", 0.1), ("Normalize", "transform", 0.1)
    assert bytes_across.propose(_seen(*old), []).how == bytes_across.HOW
    first, second = bytes_across.propose(_seen(*new), []).how
    assert "ToDtype" in first and "normalize(convert(x))" in second and "255" not in first + second
