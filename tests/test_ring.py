"""The ring never changes a batch that any process holds, and uses its memory again when nobody holds it."""

import os
import pickle
import signal

import pytest
import torch
from torch.utils.data import DataLoader, default_collate, get_worker_info

import pipebench
from pipebench import ring

SAMPLES, BATCH = 96, 4
SIDE = 80  # four samples of 80×80 float32 are 100 KiB


class Numbered:
    """Sample i is full of i."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.full((SIDE, SIDE), float(index)), index


def numbered(first):
    return [torch.full((SIDE, SIDE), float(first + index)) for index in range(BATCH)]


def block_of(batch):
    """The file in whose memory a batch lies."""
    return os.fstat(batch.untyped_storage()._share_fd_cpu_()[0]).st_ino


def loader(workers=2, method="fork", **knobs):
    context = method if workers else None
    return DataLoader(
        Numbered(), BATCH, num_workers=workers, multiprocessing_context=context,
        collate_fn=pipebench.RingCollate(), **knobs,
    )  # fmt: skip


def unchanged(kept):
    """Whether each first sample of a batch still has its value: batch k begins with sample k·BATCH."""
    return [float(one.min()) for one in kept] == [float(one.max()) for one in kept] == list(range(0, SAMPLES, BATCH))


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(one, marks=pytest.mark.slow) for one in ("forkserver", "spawn"))]
)
def test_a_list_of_all_batches_keeps_every_value(method):
    batches = list(loader(method=method))
    assert unchanged([images[0] for images, _ in batches])
    assert torch.equal(torch.cat([labels for _, labels in batches]), torch.arange(SAMPLES))
    assert all(images.is_shared() and images.shape == (BATCH, SIDE, SIDE) for images, _ in batches)


def test_a_view_alone_keeps_its_batch():
    assert unchanged([images[0, 7:9, 3] for images, _ in loader()])


def test_an_array_alone_keeps_its_batch():
    assert unchanged([images.numpy()[0] for images, _ in loader()])


@pytest.mark.parametrize("persistent", [True, False])
def test_batches_of_the_epoch_before_keep_their_values(persistent):
    batches = loader(persistent_workers=persistent)
    before = [images for images, _ in batches]
    again = [images for images, _ in batches]
    assert unchanged([one[0] for one in before]) and unchanged([one[0] for one in again])


def test_a_loop_that_drops_its_batches_gets_their_memory_again():
    places = [block_of(images) for images, _ in loader(workers=1)]
    assert len(set(places)) < len(places) == SAMPLES // BATCH


def test_without_workers_the_same_holds():
    assert unchanged([images[0] for images, _ in list(loader(workers=0))])
    places = [block_of(images) for images, _ in loader(workers=0)]
    assert len(set(places)) == 2  # the loop holds one batch while the next is made


def test_with_no_block_free_a_batch_gets_new_memory():
    collate = pipebench.RingCollate(prefetch_factor=1)
    held = [collate(numbered(10 * index)) for index in range(6)]
    assert len({one.data_ptr() for one in held}) == 6
    assert [float(one[0, 0, 0]) for one in held] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    assert sum(one.is_shared() for one in held) == 3  # the main process gets ordinary memory beyond its blocks


def test_a_block_is_used_again_when_its_last_view_is_gone():
    collate = pipebench.RingCollate()
    batch = collate(numbered(1))
    place, view = block_of(batch), batch[2, 5:]
    del batch
    other = collate(numbered(50))
    assert block_of(other) != place and float(view.mean()) == 3.0
    del view
    assert block_of(collate(numbered(70))) == place


def _in_a_fork(work):
    """Runs `work` in a forked process; returns its pid, and a pipe that ends when `work` has begun."""
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(told)
            work(lambda: os.close(tell))
        finally:
            os._exit(0)
    os.close(tell)
    os.read(told, 1)
    os.close(told)
    return pid


def test_a_batch_that_a_forked_process_inherited_keeps_its_values_until_that_process_is_gone():
    collate = pipebench.RingCollate()
    batch = collate(numbered(1))
    place = block_of(batch)

    def wait(begun):
        begun()
        signal.pause()

    pid = _in_a_fork(wait)
    try:
        del batch
        used = block_of(collate(numbered(50)))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert used != place
    assert block_of(collate(numbered(70))) == place


def test_a_batch_that_was_sent_to_another_process_keeps_its_values_there():
    context = torch.multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    other = context.Process(target=_holds, args=(theirs,), daemon=True)
    other.start()
    collate = pipebench.RingCollate()
    batch = collate(numbered(1))
    place = block_of(batch)
    ours.send(batch)
    assert ours.recv() == "held"
    del batch
    assert block_of(collate(numbered(50))) != place
    ours.send("look")
    assert ours.recv() == [1.0, 4.0]
    other.join()
    assert block_of(collate(numbered(70))) == place


def _holds(pipe):
    batch = pipe.recv()
    pipe.send("held")
    pipe.recv()
    pipe.send([float(batch.min()), float(batch.max())])


def test_a_forked_process_does_not_lend_the_blocks_of_its_parent():
    collate = pipebench.RingCollate()
    place = block_of(collate(numbered(1)))
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(tell, str(block_of(collate(numbered(2)))).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert int(os.read(told, 64)) != place
    os.close(told), os.close(tell)


def test_a_copy_has_blocks_of_its_own():
    collate = pipebench.RingCollate(prefetch_factor=5)
    place = block_of(collate(numbered(1)))
    copy = pickle.loads(pickle.dumps(collate))
    assert copy.prefetch_factor == 5
    assert block_of(copy(numbered(1))) != place


def test_a_smaller_batch_takes_the_same_block_and_a_larger_one_replaces_it():
    collate = pipebench.RingCollate(prefetch_factor=-1)  # one block
    place = block_of(collate(numbered(0)))
    few = collate(numbered(5)[:3])
    assert (block_of(few), few.untyped_storage().nbytes()) == (place, few.nbytes)
    del few
    large = collate([torch.zeros(2 * SIDE, SIDE)] * BATCH)
    assert large.is_shared() and block_of(large) != place


def test_a_batch_is_that_of_default_collate():
    def sample(index):
        return {
            "image": torch.full((3, SIDE, SIDE), index, dtype=torch.uint8),
            "pair": (torch.full((SIDE, SIDE), index / 3, dtype=torch.float64), f"name {index}"),
            "array": torch.full((SIDE, SIDE), index).numpy(),
            "label": index,
            "point": torch.tensor([0.5, index]),
        }

    samples = [sample(index) for index in range(BATCH)]
    ours, theirs = pipebench.RingCollate()(samples), default_collate(samples)
    assert ours["pair"][1] == theirs["pair"][1]
    for pick in (lambda b: b["image"], lambda b: b["pair"][0], lambda b: b["array"], lambda b: b["label"]):
        assert torch.equal(pick(ours), pick(theirs)) and pick(ours).dtype == pick(theirs).dtype
        assert pick(ours).stride() == pick(theirs).stride()
    assert ours["image"].is_shared() and ours["pair"][0].is_shared() and ours["array"].is_shared()
    assert not ours["point"].is_shared()  # small


def test_samples_of_different_shapes_are_refused_as_default_collate_refuses_them():
    samples = [torch.zeros(SIDE, 2 * SIDE), torch.zeros(SIDE, SIDE)]
    with pytest.raises(RuntimeError, match="equal size"):
        pipebench.RingCollate()(samples * BATCH)


@pytest.mark.parametrize("missing", ["proc", "strategy"])
def test_where_blocks_cannot_be_lent_batches_are_those_of_default_collate(monkeypatch, missing):
    def absent(*arguments):
        raise FileNotFoundError(2, "No such file or directory")

    if missing == "proc":
        monkeypatch.setattr(ring.os, "open", absent)
    else:
        monkeypatch.setattr(torch.multiprocessing, "get_sharing_strategy", lambda: "file_system")
    batch = pipebench.RingCollate()(numbered(3))
    assert torch.equal(batch, default_collate(numbered(3))) and not batch.is_shared()


def test_a_batch_that_needs_a_gradient_is_left_to_default_collate():
    samples = [one.requires_grad_() for one in numbered(0)]
    assert pipebench.RingCollate()(samples).requires_grad


class Where(Numbered):
    def __getitem__(self, index):
        return torch.full((SIDE, SIDE), float(get_worker_info().id)), index


def test_a_worker_that_was_killed_leaves_its_batches_whole():
    batches = iter(DataLoader(Where(), BATCH, num_workers=1, collate_fn=pipebench.RingCollate()))
    images, _ = next(batches)
    os.kill(batches._workers[0].pid, signal.SIGKILL)
    batches._workers[0].join()
    batches._shutdown = True  # torch would wait for ever for a lock that the worker may have held when it was killed
    assert float(images.abs().sum()) == 0.0
