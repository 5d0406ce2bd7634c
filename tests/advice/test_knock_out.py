"""A stage that is free: which are offered, and that only this one is served, with results of the right kind."""

from dataclasses import replace

import numpy as np
import pytest
import small_worker
import torch
from made_up_trials import LOADER, seen, worker
from PIL import Image
from torchvision import transforms

from pipebench.remedies import knock_out
from pipebench.results.advice import Finding
from pipebench.results.hand_off import HandOff
from pipebench.results.watched import StageResult, WaitPart
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Refused, Sent, edited, unpacked


class Half:
    def __init__(self):
        self.calls = 0

    def __call__(self, image):
        self.calls += 1
        return image.resize((image.width // 2, image.height // 2))


class Photos:
    def __init__(self, paths, *entries):
        self.paths, self.transform = paths, transforms.Compose(list(entries))

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index])), index


@pytest.fixture
def photos(tmp_path):
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"{number}.jpg")
        Image.new("RGB", (64, 32 + 16 * (number % 2)), (60 * number, 0, 0)).save(paths[-1])
    return paths


def _fetched(dataset, kind, name, batches, collate=list):
    return small_worker.fetched(dataset, knock_out.edit(kind, name), batches, collate)


def test_one_transform_is_served_and_all_others_run(photos):
    half, crop = Half(), transforms.CenterCrop(8)
    entries = half, crop, transforms.ToTensor()
    (first, again) = _fetched(Photos(photos, *entries), "transform", "Half", [[0, 1], [2, 3]])
    assert half.calls == 1
    assert all(torch.equal(image, first[0][0]) for image, _ in [*first, *again])
    assert [index for _, index in [*first, *again]] == [0, 1, 2, 3]
    image, _ = Photos(photos, *entries)[3]
    assert half.calls == 2 and image.shape == first[0][0].shape  # the patches are gone


def test_a_function_in_a_compose_is_served_too(photos):
    calls = []

    def darker(image):
        calls.append(image)
        return image.point(lambda value: value // 2)

    found = _fetched(Photos(photos, darker, transforms.ToTensor()), "transform", "darker", [[0, 1, 2, 3]])
    assert len(calls) == 1 and len(found[0]) == 4


def test_of_two_objects_of_one_class_only_the_one_that_is_meant_is_served(photos):
    both = Half(), Half()
    _fetched(Photos(photos, *both, transforms.ToTensor()), "transform", "Half (2 of 2)", [[0, 1, 2, 3]])
    assert [one.calls for one in both] == [4, 1]


def test_the_decode_that_a_served_transform_would_have_made_is_made(photos, monkeypatch):
    loads = []
    plain = Image.Image.load
    monkeypatch.setattr(Image.Image, "load", lambda self: loads.append(self) or plain(self))
    _fetched(Photos(photos, Half(), transforms.ToTensor()), "transform", "Half", [[0, 1, 2, 3]])
    assert len({id(one) for one in loads if getattr(one, "format", None) == "JPEG"}) == 4


def test_pillows_decode_is_served_with_images_of_the_right_size(photos, monkeypatch):
    from PIL import ImageFile

    decoded = []
    plain = Image._getdecoder
    monkeypatch.setattr(Image, "_getdecoder", lambda *args: decoded.append(args) or plain(*args))
    monkeypatch.setattr(ImageFile.Image, "_getdecoder", Image._getdecoder)
    dataset = Photos(photos, lambda image: (image.size, np.asarray(image.convert("L")).shape, image.readonly))
    ((*found,),) = _fetched(dataset, "decode", "ImageFile.load", [[0, 1, 2, 3, 1]])
    assert [size for (size, _, _), _ in found] == [(64, 32), (64, 48), (64, 32), (64, 48), (64, 48)]
    assert all(shape == size[::-1] and readonly for (size, shape, readonly), _ in found)
    assert len(decoded) == 1


def test_a_library_call_is_served_where_it_is_called(photos, monkeypatch):
    import cv2

    calls = []
    monkeypatch.setattr(cv2, "imread", lambda path: calls.append(path) or np.zeros((4, 5, 3), np.uint8))

    class Read:
        def __getitem__(self, index):
            return cv2.imread(str(index))

    found = _fetched(Read(), "decode", "imread", [[0, 1], [2]])
    assert calls == ["0"] and all(one.shape == (4, 5, 3) for batch in found for one in batch)


class Counted:
    def __init__(self):
        self.asked = []

    def __getitem__(self, index):
        self.asked.append(index)
        return torch.full((2,), float(index)), index


class InBatches(Counted):
    def __getitems__(self, indices):
        self.asked.append(list(indices))
        return [(torch.zeros(2), one) for one in indices]


def test_getitem_whole_is_served():
    dataset = Counted()
    (first, second) = _fetched(dataset, "getitem", "", [[3, 4], [5, 6]])
    assert dataset.asked == [3, 3, 4, 3, 4] and [index for _, index in [*first, *second]] == [3] * 4
    batched = InBatches()
    fetcher = small_worker.fetcher(batched)
    knock_out.edit("getitem", "").in_worker(fetcher, Patches())
    assert len(fetcher.dataset.__getitems__([1, 2])) == len(fetcher.dataset.__getitems__([5, 6])) == 2
    assert len(fetcher.dataset.__getitems__([7])) == 1 and batched.asked == [[1, 2], [7]]


def test_collate_is_served_for_each_length_of_a_batch():
    calls = []
    found = _fetched(Counted(), "collate", "stack", [[1, 2], [3, 4], [5]], lambda one: calls.append(one) or list(one))
    assert len(calls) == 2 and [len(one) for one in found] == [2, 2, 1]


def test_a_batch_that_the_loop_changes_cannot_be_served():
    for kind in ("collate", "hand-off"):
        fetcher = small_worker.fetcher(Counted(), lambda samples: torch.stack([one for one, _ in samples]))
        edits = (knock_out.edit(kind, ""),)
        edited(fetcher, edits, Patches())
        given = [unpacked(fetcher.fetch([1, 2]), edits, lambda note: None)]
        given[0].mul_(3)
        with pytest.raises(Refused, match="changed-in-place"):
            for _ in range(2):
                unpacked(fetcher.fetch([1, 2]), edits, lambda note: None)


def test_the_hand_off_carries_one_batch_of_each_size():
    edits, sent = (knock_out.edit("hand-off", ""),), []
    fetcher = small_worker.fetcher(Counted(), lambda samples: [index for _, index in samples])
    edited(fetcher, edits, Patches())
    for indices in ([1, 2], [3, 4], [5], [6, 7], [8]):
        batch = fetcher.fetch(indices)
        sent.append(type(batch).__name__)
        assert len(unpacked(batch, edits, lambda note: None)) == len(indices)
    assert sent == ["_First", "_Token", "_First", "_Token", "_Token"]


@pytest.mark.parametrize(("kind", "name"), [("transform", "Nothing"), ("decode", "nothing")])
def test_a_stage_that_the_workers_do_not_have_is_refused(kind, name):
    fetcher = small_worker.fetcher(Counted())
    edited(fetcher, (knock_out.edit(kind, name),), Patches())
    found = fetcher.fetch([1])
    assert type(found) is Sent and found.refused == "no-such-stage"


STAGES = tuple(
    StageResult(name, kind, 1, 100, 0.01 * share, share)
    for name, kind, share in [
        ("Resize", "transform", 0.4), ("ImageFile.load", "decode", 0.3), ("Flip", "transform", 0.05),
        ("Photos.__getitem__", "getitem", 0.05), ("default_collate", "collate", 0.2), ("Image.open", "read", 0.0),
        ("queue feeder thread", "serialise", 0.9),
    ]
)  # fmt: skip


def _seen(wait_share=0.6, discards=True, **how):
    found = seen(wait_share, **how)
    hand_off = HandOff(0.06, 0.06, 5e6, 100)
    return replace(found, discards=discards, watched=replace(found.watched, stages=STAGES, hand_off=hand_off))


def _offered(found):
    tried = []
    while (change := knock_out.propose(found, tried)) is not None:
        tried.append(Finding(change, "no-gain"))
    return [one.change for one in tried]


def test_the_costly_stages_are_offered_the_largest_first():
    found = _offered(_seen())
    assert [one.title for one in found] == [
        "Photos.__getitem__", "Resize", "ImageFile.load", "the hand-off", "default_collate",
    ]  # fmt: skip
    assert [round(one.predicted, 2) for one in found] == [5.0, 1.67, 1.43, 1.43, 1.25]
    assert all(one.knock_out and one.discards for one in found)


def test_a_stage_for_nothing_saves_the_waits_and_the_cores_of_workers_and_no_more():
    found = _seen(0.2)
    workers = replace(worker(), cores=0.5), replace(worker(), worker=1, cores=0.3)
    known = replace(found, watched=replace(found.watched, workers=workers))
    # of 10 s, the loop waits for 2 s, and 8 s are training beside 0.8 of two cores: on both, it takes 0.6 of these
    assert _offered(known)[0].predicted == pytest.approx(10 / (8 * 0.6))
    idle = replace(found.watched, workers=tuple(replace(one, cores=0.01) for one in workers))
    parts = (WaitPart("sampler", 0.019, 0.97),)  # the script's own process draws the indices
    assert not _offered(replace(found, watched=replace(idle, wait_parts=parts)))


def test_nothing_is_offered_without_agreement_or_where_nothing_waits():
    assert not _offered(_seen(discards=False)) and not _offered(_seen(num_workers=0))
    assert not _offered(_seen(0.01, num_workers=1, loader=LOADER)) and _offered(_seen(0.01, num_workers=2))
