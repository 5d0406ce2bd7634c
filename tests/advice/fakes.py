"""Loaders without processes or time: a fake clock, planted costs, and a note of who made which batch."""

import copy
import types

import torch.utils.data  # noqa: F401 - as in a script that has a loader

from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.trial_lines import TrialFailed, TrialWindow
from pipebench.watch.trial import arms, passes
from pipebench.watch.trial.session import Trial
from pipebench.watch.trial.stretches import Clock


class World:
    """The clock, and every batch in the order in which it was made: (name of its maker, index list)."""

    def __init__(self):
        self.now = 0.0
        self.made = []


class Iterator:
    """torch's iterator, as far as a trial uses it. A batch costs `loader.cost_s` when it is taken."""

    def __init__(self, loader):
        self.loader = loader
        self._index_sampler = loader._index_sampler
        self._num_workers, self._prefetch_factor = loader.num_workers, loader.prefetch_factor
        self._task_info, self._send_idx, self._rcvd_idx = {}, 0, 0
        self.ended = False
        self._worker_result_queue = self._data_queue = types.SimpleNamespace(qsize=lambda: 0)
        self.again()

    def again(self):
        self._task_info, self._send_idx, self._rcvd_idx = {}, 0, 0
        self._sampler_iter = iter(self._index_sampler)
        for _ in range(self._num_workers * self._prefetch_factor):
            self._try_put_index()

    def _try_put_index(self):
        assert not self.ended
        try:
            self._task_info[self._send_idx] = next(self._sampler_iter)
        except StopIteration:
            return
        self._send_idx += 1

    def _shutdown_workers(self):
        self.ended = True


def plain(iterator):
    """torch's own `next`."""
    loader, world = iterator.loader, iterator.loader.world
    if not iterator._num_workers:
        found = next(iterator._sampler_iter)
    else:
        if not iterator._task_info:
            raise StopIteration
        found = iterator._task_info.pop(iterator._rcvd_idx)
        iterator._rcvd_idx += 1
        iterator._try_put_index()
    loader.left -= 1
    if loader.left < 0:
        raise OSError("a worker is gone")
    world.now += loader.cost_s
    world.made.append((loader.name, found))
    return found


def plain_iter(loader):
    """`iter(loader)`, with workers that persist if they should."""
    if not loader.persistent_workers or not loader.num_workers:
        return Iterator(loader)
    if loader._iterator is None:
        loader._iterator = Iterator(loader)
    else:
        loader._iterator.again()
    return loader._iterator


class Loader:
    """A loader over `sampler`. After `left` batches it fails."""

    def __init__(self, world, sampler, workers=2, prefetch=2, cost_s=1.0):
        self.world, self.batch_sampler, self.sampler = world, sampler, None
        self.num_workers, self.prefetch_factor = workers, prefetch
        self.persistent_workers, self._iterator, self.timeout = False, None, 0
        self.name, self.cost_s, self.left = "own", cost_s, 10**9

    @property
    def _index_sampler(self):
        return self.batch_sampler


class Script:
    """A script that iterates one loader, pass after pass, with a trial between it and its batches."""

    def __init__(self, folder, monkeypatch, loader, cost_s=0.5, left=10**9):
        self.loader, self.world, self.lines, self.folder = loader, loader.world, [], folder
        recording = types.SimpleNamespace(
            settings=types.SimpleNamespace(folder=str(folder)), write=self.lines.append, fault=self._fault
        )
        clock = Clock(lambda: self.world.now, lambda: None)
        self.trial = Trial(recording, lambda loader, number: True, lambda: None, clock)
        self.opened = []

        def changed(loader, settings, one_thread, edits=()):
            found = copy.copy(loader)
            found.__dict__.update({"persistent_workers": False, "_iterator": None, **settings})
            found.timeout = arms.PATIENCE_S
            found.name = "changed" if settings else "instead"
            found.cost_s, found.left = (cost_s, left) if settings else (loader.cost_s, 10**9)
            self.opened.append(found)
            return found

        monkeypatch.setattr(arms, "changed", changed)
        monkeypatch.setattr(arms, "is_of_torch", lambda iterator: isinstance(iterator, Iterator))
        monkeypatch.setattr(passes, "_draw_as_a_new_iterator", lambda loader: None)

    def _fault(self, where, error):
        raise AssertionError(where) from error

    def order(self, number, settings, **more):
        give(str(self.folder), Order(number, 1, settings, **more))

    def iterate(self):
        """What the script gets from `iter(loader)`: each time from this one place."""
        return self.trial.iterate(self.loader, plain_iter, plain)

    def one_pass(self, most=10**9, then=lambda number: None):
        """The batches of one pass; `then` is called before each."""
        loader, trial = self.loader, self.trial
        iterator = plain_iter(loader) if trial.elsewhere else self.iterate()
        had = []
        while len(had) < most:
            then(len(had))
            try:
                given = plain(iterator) if self.trial.elsewhere else self.trial.batch(iterator, plain, plain_iter)
                had.append(given)
            except StopIteration:
                break
        return had

    @property
    def windows(self):
        return [one for one in self.lines if isinstance(one, TrialWindow)]

    @property
    def failures(self):
        return [one for one in self.lines if isinstance(one, TrialFailed)]

    def makers(self):
        return {name for name, _ in self.world.made}


def script_of(tmp_path, monkeypatch, length, workers=2, **how):
    """A script whose loader gives so many batches of one sample each."""
    world = World()
    return Script(tmp_path, monkeypatch, Loader(world, [[one] for one in range(length)], workers), **how)
