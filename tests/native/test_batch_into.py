"""Batches that are decoded into shared memory: the pixels of each crop, and no batch that anyone holds changes."""

from __future__ import annotations

import ctypes
import gc
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from region_jpegs import encode
from test_region import any_box
from test_ring import block_of
from torch.utils.data import DataLoader, Dataset, default_collate

import pipebench
from pipebench import ring
from pipebench.errors import SampleError
from pipebench.native import building, region, resized

SIDE, BATCH = 80, 4  # four images of 80×80 are 77 KB, more than the ring leaves to `default_collate`
FILES = [encode(kind, 255, 239) for kind in ("4:2:0", "4:4:4", "grey")]


def crop(index):
    rng = random.Random(index)
    return pipebench.EncodedCrop(FILES[index % len(FILES)], any_box(rng, 255, 239), index % 2 == 1)


def decoded(index, exact=False):
    one = crop(index)
    return resized.decode_and_resize(one.data, one.box, (SIDE, SIDE), exact=exact, flip=one.flip)


class Crops(Dataset):
    def __len__(self):
        return 8 * BATCH

    def __getitem__(self, index):
        return crop(index), index


@pytest.mark.parametrize("exact", [False, True])
def test_a_batch_holds_each_crop_decoded_and_all_else_collated(exact):
    samples = [{"image": crop(i), "label": i, "more": (torch.full((2,), i), f"name {i}")} for i in range(BATCH)]
    batch = pipebench.BatchInto(SIDE, exact=exact)(samples)
    assert torch.equal(batch["image"], torch.stack([decoded(index, exact) for index in range(BATCH)]))
    assert batch["image"].is_shared() and batch["image"].is_contiguous()
    usual = default_collate([{"label": one["label"], "more": one["more"]} for one in samples])
    assert torch.equal(batch["label"], usual["label"]) and torch.equal(batch["more"][0], usual["more"][0])
    assert batch["more"][1] == usual["more"][1]


@pytest.mark.parametrize("method", [None, "fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_loader_gives_every_crop(method):
    workers = 2 if method else 0
    loader = DataLoader(
        Crops(), BATCH, num_workers=workers, multiprocessing_context=method, collate_fn=pipebench.BatchInto(SIDE)
    )
    images, labels = (list(part) for part in zip(*loader, strict=True))
    assert torch.equal(torch.cat(labels), torch.arange(8 * BATCH))
    assert torch.equal(torch.cat(images), torch.stack([decoded(index) for index in range(8 * BATCH)]))
    assert all(one.is_shared() for one in images) or not workers


def test_memory_is_used_again_only_when_the_last_view_is_gone():
    collate = pipebench.BatchInto(SIDE)
    batch = collate([crop(index) for index in range(BATCH)])
    place, view = block_of(batch), batch[2, :, 5:]
    del batch
    other = collate([crop(index) for index in range(20, 20 + BATCH)])
    assert block_of(other) != place and torch.equal(view, decoded(2)[:, 5:])
    del view
    assert block_of(collate([crop(index) for index in range(BATCH)])) == place


def test_a_slot_is_free_again_after_an_error_that_is_kept():
    """The frames of an error keep what they hold, and so would keep the batch that could not be made."""
    collate, errors = pipebench.BatchInto(SIDE), []
    place = block_of(collate([crop(index) for index in range(BATCH)]))
    bad = pipebench.EncodedCrop(FILES[0][:500], (0, 0, 20, 20))
    for _ in range(6):
        with pytest.raises(SampleError, match=r"sample 3 of the batch: .*end") as caught:
            collate([crop(0), crop(1), crop(2), bad])
        errors.append(caught.value)
    assert len(errors) == 6 and all(error.__traceback__ for error in errors)
    good = collate([crop(index) for index in range(BATCH)])
    assert block_of(good) == place and torch.equal(good[3], decoded(3))


def test_a_worker_hands_on_the_error_and_the_next_epoch_is_whole():
    class Bad(Crops):
        bad = True

        def __getitem__(self, index):
            if index == 9 and Bad.bad:
                return pipebench.EncodedCrop(b"not a picture", (0, 0, 20, 20)), index
            return super().__getitem__(index)

    knobs = {"num_workers": 1, "multiprocessing_context": "fork", "collate_fn": pipebench.BatchInto(SIDE)}
    loader = DataLoader(Bad(), BATCH, **knobs)
    with pytest.raises(Exception, match="sample 1 of the batch: Not a JPEG file"):
        list(loader)
    Bad.bad = False
    assert sum(len(labels) for _, labels in loader) == 8 * BATCH


class Counting:
    """The library, with the calls of `region_batch` counted."""

    def __init__(self, library):
        self.library, self.calls = library, 0

    def region_batch(self, *arguments):
        self.calls += 1
        return self.library.region_batch(*arguments)


def test_a_batch_is_one_call_without_the_gil(monkeypatch):
    library = region._library()
    assert isinstance(library, ctypes.CDLL) and not isinstance(library, ctypes.PyDLL)  # PyDLL is what keeps the GIL
    counting = Counting(library)
    monkeypatch.setattr(region, "_library", lambda: counting)
    pipebench.BatchInto(SIDE)([crop(index) for index in range(BATCH)])
    assert counting.calls == 1


def test_threads_share_one_ring():
    collate, wrong = pipebench.BatchInto(SIDE), []

    def work(seed):
        held = []
        for turn in range(12):
            first = 100 * seed + turn
            held.append((first, collate([crop(first + index) for index in range(BATCH)])))
            held = held[-2:]
            wrong.extend(first for first, batch in held if not torch.equal(batch[1], decoded(first + 1)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert wrong == []


@pytest.mark.parametrize("why", ["small", "strategy", "no block"])
def test_where_no_block_can_be_lent_it_decodes_into_new_memory(monkeypatch, why):
    side = 20 if why == "small" else SIDE
    collate = pipebench.BatchInto(side, prefetch_factor=-2 if why == "no block" else 2)
    if why == "strategy":
        monkeypatch.setattr(torch.multiprocessing, "get_sharing_strategy", lambda: "file_system")
    batch = collate([crop(0)] * BATCH)
    assert not batch.is_shared()
    assert torch.equal(batch[3], resized.decode_and_resize(crop(0).data, crop(0).box, (side, side)))


def test_new_memory_in_a_worker_is_shared(monkeypatch):
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: "a worker")
    batch = pipebench.BatchInto(20)([crop(0)] * BATCH)
    assert batch.is_shared() and batch.shape == (BATCH, 3, 20, 20)


def test_it_pickles_without_its_blocks_and_says_what_it_is():
    collate = pipebench.BatchInto((SIDE, 40), exact=True, prefetch_factor=5)
    place = block_of(collate([crop(0)] * 8))
    copy = pickle.loads(pickle.dumps(collate))
    assert repr(copy) == repr(collate) == "BatchInto(size=(80, 40), exact=True, prefetch_factor=5)"
    assert block_of(copy([crop(0)] * 8)) != place


@pytest.mark.parametrize("size", [0, -1, (1, 2, 3), (5,), 70_000, 2.5, "ab"], ids=str)
def test_a_size_that_is_none_is_said_at_once(size):
    with pytest.raises((ValueError, TypeError)):
        pipebench.BatchInto(size)


def test_without_a_compiler_it_says_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(region, "_library", region._library.__wrapped__)
    with pytest.raises(building.NativeError, match="no-such-compiler") as caught:
        pipebench.BatchInto(SIDE)([crop(0)] * BATCH)
    assert "apt-get install gcc" in caught.value.remedy


def test_blocks_are_those_of_the_ring():
    assert issubclass(pipebench.BatchInto, ring.RingCollate)
    collate = pipebench.BatchInto(SIDE, prefetch_factor=1)
    held = [collate([crop(index)] * BATCH) for index in range(6)]
    assert len({one.data_ptr() for one in held}) == 6 and sum(one.is_shared() for one in held) == 3
    assert all(torch.equal(one[0], decoded(index)) for index, one in enumerate(held))
    del held
    gc.collect()
