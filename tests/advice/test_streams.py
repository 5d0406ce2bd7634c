"""Turns of a loader over a stream whose workers end at different times."""

import pytest
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from pipebench.watch.trial import arms

LENGTHS = (40, 5, 9)


class Uneven(IterableDataset):
    def __iter__(self):
        worker = get_worker_info().id
        yield from range(100 * worker, 100 * worker + LENGTHS[worker])


def _turns(arm, turn):
    """All samples, in turns of so many and what is still under way then."""
    found = []
    while True:
        arm.begin()
        try:
            for _ in range(turn):
                found.append(arm.draw())
            arm.hand.open = False
            while not arm.dry:
                found.append(arm.draw())
        except StopIteration:
            if not arm.goes_on:
                return found


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("turn", [1, 2, 3, 5, 7, 11])
def test_all_samples_come_whenever_a_turn_ends(turn, persistent):
    """torch counts what a worker without samples was asked for, and ends all workers with the last batch under way."""
    loader = DataLoader(
        Uneven(), batch_size=None, num_workers=len(LENGTHS), prefetch_factor=3, persistent_workers=persistent
    )
    iterator = iter(loader)
    arm = arms.joined(iterator, type(iterator).__next__)
    found = _turns(arm, turn)
    assert sorted(found) == [100 * one + each for one, length in enumerate(LENGTHS) for each in range(length)]
    iterator._shutdown_workers()
    assert not any(one.is_alive() for one in iterator._workers)
