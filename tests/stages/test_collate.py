"""The contract of collate: a batch never changes after it was handed out, and the reference is a worker's batch."""

from dataclasses import replace

import pytest
import torch
from torch.utils.data import DataLoader

from pipebench.runner import LocalRunner
from pipebench.stage import find, variants
from pipebench.stages import collate
from pipebench.task import Variant, Workload

WORKLOAD = Workload(data="tiny", batch_size=4, quick=True)


def overwriting(workload):
    """`torch.stack` into one batch that is reused: each batch overwrites the one before."""
    batches = {}

    def call(samples):
        shape = (len(samples), *samples[0].shape)
        out = batches.setdefault(shape, torch.empty(shape, dtype=samples[0].dtype))
        return torch.stack(samples, out=out)

    return call


def blind_to_views(workload):
    """A pool that looks only at the tensors it handed out, and not at their views."""
    import weakref

    pool = []

    def call(samples):
        shape = (len(samples), *samples[0].shape)
        free = next((one for one, lent in pool if one.shape == shape and lent() is None), None)
        memory = free if free is not None else torch.empty(shape, dtype=samples[0].dtype)
        pool[:] = [pair for pair in pool if pair[0] is not memory]
        batch = torch.stack(samples, out=memory).view(shape)
        pool.append((memory, weakref.ref(batch)))
        return batch

    return call


@pytest.mark.parametrize("build", [overwriting, blind_to_views])
@pytest.mark.parametrize("task_id", collate.TASKS)
def test_a_variant_that_overwrites_earlier_batches_fails_the_contract(task_id, build):
    task, _ = find(f"{task_id}/shared")
    wrong = Variant(task_id, "wrong", build)
    runner = LocalRunner(find=lambda identity: (task, wrong))
    runner.prepare(wrong.id, WORKLOAD)
    (one,) = runner.attempt(wrong.id, WORKLOAD, task.groups(WORKLOAD)[0])
    assert (one.kind, one.message) == ("contract", "a batch changes after it was handed out")


@pytest.mark.parametrize("name", ["shared", "ring", "default", "numpy"])
def test_the_batches_of_our_variants_last(name):
    call = next(one for one in variants("collate/float32") if one.name == name).build(WORKLOAD)
    collate._lasts(call, [torch.zeros(3, 224, 224)] * 2)


class Samples:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((3, 64, 64), float(index))


def test_the_reference_is_what_a_worker_does():
    """Shared memory of exactly the batch's size, whose rows are the samples."""
    (theirs,) = DataLoader(Samples(), 4, num_workers=1)
    ours = collate.shared(WORKLOAD)([Samples()[index] for index in range(4)])
    assert torch.equal(ours, theirs)
    for one in (ours, theirs):
        assert one.is_shared() and one.is_contiguous() and one.untyped_storage().nbytes() == one.nbytes


def test_memory_that_another_row_took_is_made_anew_before_a_reading_and_not_in_it():
    made, timed = [], []

    class Clock:
        def elapsed(self, action):
            before = len(made)
            action()
            timed.append(len(made) - before)
            return 1.0

    task, _ = find("collate/float32/shared")
    counted = Variant(task.id, "counted", lambda workload: lambda samples: made.append(1) or torch.zeros(1))
    task = replace(task, inputs=lambda workload, keys: [[torch.zeros(1)]], lasts=None, check=lambda *given: None)
    runner = LocalRunner(Clock(), find=lambda identity: (task, counted))
    runner.prepare(counted.id, WORKLOAD)
    runner.arm(counted.id, WORKLOAD, ("a",))
    before = len(made)
    runner.reading(counted.id, 1)
    assert timed == [1] and len(made) == before + 2


def test_as_in_a_loader_the_last_batches_stay_alive_while_the_next_is_made():
    alive, most = set(), []

    class Batch:
        nbytes = 4

        def __init__(self):
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self):
            alive.discard(id(self))

    task, _ = find("collate/float32/shared")
    counted = Variant(task.id, "counted", lambda workload: lambda samples: Batch())
    task = replace(task, inputs=lambda workload, keys: [[torch.zeros(1)]], lasts=None, check=lambda *given: None)
    runner = LocalRunner(find=lambda identity: (task, counted))
    runner.prepare(counted.id, WORKLOAD)
    runner.arm(counted.id, WORKLOAD, ("a",))
    most.clear()
    runner.reading(counted.id, 9)
    # From the first on: a fresh process can have one reading of one call. One more call is not timed.
    assert most == [collate.ALIVE + 1] * 10
    runner.release()
    assert not alive
