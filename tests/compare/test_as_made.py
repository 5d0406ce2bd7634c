"""The user's loader with another number of workers: everything else is as it was made."""

import multiprocessing

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from pipebench.compare import as_made
from pipebench.task import Unavailable


class Numbers(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((2,), float(index))


class Stream(IterableDataset):
    def __init__(self):
        self.starts = 0

    def __iter__(self):
        self.starts += 1
        return iter(torch.arange(20.0))


class Odd:
    """A batch sampler of the user's own: batches of 3, 2, 1 and 4."""

    def __iter__(self):
        return iter([[8, 6, 4], [2, 0], [1], [3, 5, 7, 9]])

    def __len__(self):
        return 4


class Named(DataLoader):
    """A subclass whose constructor has other parameters than torch's."""

    def __init__(self, title, count):
        super().__init__(Numbers(), batch_size=count)
        self.title = title


class Delegating(DataLoader):
    """Iterates a loader of its own, whose workers it does not let anybody change."""

    def __iter__(self):
        return iter(DataLoader(self.dataset, batch_size=self.batch_size))


class Started(DataLoader):
    """Starts its iterator when it is made, as some loaders do to keep workers."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.running = super().__iter__()


def prepare(worker):
    """Stands for a `worker_init_fn`."""


def test_only_the_number_of_workers_changes():
    sampler, generator = WeightedRandomSampler([1.0] * 40, 12), torch.Generator()
    made = DataLoader(
        Numbers(), 4, sampler=sampler, num_workers=6, prefetch_factor=5, pin_memory=True, timeout=7, drop_last=True,
        worker_init_fn=prepare, multiprocessing_context="forkserver", generator=generator, persistent_workers=True,
    )  # fmt: skip
    before = dict(vars(made))
    changed = as_made.with_workers(made, 2, keep=True)
    assert vars(made) == before
    assert {**vars(changed), "num_workers": 6} == before
    assert changed.multiprocessing_context.get_start_method() == "forkserver"


def test_a_loader_made_without_workers_gets_them_and_one_made_with_them_loses_them():
    more = as_made.with_workers(DataLoader(Numbers(), 4), 2, keep=True)
    assert (more.num_workers, more.prefetch_factor, more.persistent_workers) == (2, 2, True)
    none = DataLoader(Numbers(), 4, num_workers=2, timeout=5, prefetch_factor=3, persistent_workers=True)
    assert len(list(as_made.with_workers(none, 0, keep=True))) == 10


def test_a_subclass_stays_one_and_is_not_constructed_again():
    changed = as_made.with_workers(Named("mine", 5), 3, keep=True)
    assert (type(changed), changed.title, changed.num_workers) == (Named, "mine", 3)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_takes_the_users_batches_and_ends_with_the_samples_wanted(workers):
    call = as_made.passing(DataLoader(Numbers(), batch_sampler=Odd()), workers, 6, False)
    assert [one[:, 0].tolist() for one in call.outputs()] == [[8, 6, 4], [2, 0], [1]]
    assert call(None) == 6
    assert call(None) == 6


def test_workers_are_kept_from_pass_to_pass_and_nothing_is_prefetched_between():
    loader = DataLoader(Numbers(), 4, num_workers=2)  # made without persistent workers
    call = as_made.passing(loader, 1, 8, False)
    before = len(multiprocessing.active_children())
    assert [call(None), call(None)] == [8, 8]
    assert len(multiprocessing.active_children()) == before + 1
    del call
    assert len(multiprocessing.active_children()) == before


def test_a_start_ends_its_workers():
    before = len(multiprocessing.active_children())
    call = as_made.starting(DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True), 2, False)
    assert call(None) == 1
    assert [len(one) for one in call.outputs()] == [2]  # one batch for each worker
    assert len(multiprocessing.active_children()) == before


def test_ragged_batches_are_counted_by_the_sampler():
    loader = DataLoader(Numbers(), batch_size=8, collate_fn=lambda samples: object())
    assert as_made.passing(loader, 0, 20, False)(None) == 24


def test_a_stream_without_workers_goes_on_and_one_with_workers_is_read_from_its_start():
    stream = Stream()
    call = as_made.passing(DataLoader(stream, batch_size=4), 0, 8, False)
    assert [call(None) for _ in range(5)] == [8] * 5
    assert stream.starts == 2
    assert as_made.passing(DataLoader(Stream(), batch_size=4), 1, 8, False)(None) == 8


@pytest.mark.parametrize(
    ("loader", "workers", "said"),
    [
        (lambda: Delegating(Numbers(), 4), 2, "runs 0 workers where 2 were asked for: let make_loader take"),
        (lambda: Started(Numbers(), 4), 2, "Started starts its workers when it is made"),
        (lambda: [1, 2, 3], 2, "not a DataLoader of torch: let make_loader take `num_workers`"),
    ],
)
def test_where_only_the_users_code_can_change_the_number_it_is_not_measured(loader, workers, said):
    with pytest.raises(Unavailable, match=said):
        as_made.passing(loader(), workers, 8, False)


def test_any_iterable_that_was_made_for_the_number_is_measured():
    assert as_made.passing([torch.zeros(4, 2)] * 9, 2, 8, True)(None) == 8
    assert as_made.passing([torch.zeros(4, 2)] * 9, 0, 8, False)(None) == 8
