"""Watches a fetcher: in a worker process, or in the script's own process if the loader has no workers."""

from __future__ import annotations

import functools
import multiprocessing.util
import sys
import types
import weakref
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any

from pipebench.watch.record.exclusive_time import local, stages, timed
from pipebench.watch.record.kernel_counts import children_cpu_ns
from pipebench.watch.record.last_sample import PresentSample
from pipebench.watch.record.lines import Moment
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.stages import finding_transforms, labels
from pipebench.watch.worker import inits, pickling, standins
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace, collections
from pipebench.watch.worker.draws import CHECKED, drew_since, random_state
from pipebench.watch.worker.fingerprints import fingerprint


def is_own(fetcher: Any) -> bool:
    """Whether this fetcher belongs to the worker itself, not to a loader that the script iterates inside it."""
    info = sys.modules["torch.utils.data._utils.worker"]._worker_info
    return info is not None and info.dataset is fetcher.dataset


def held_weakly(fetcher: Any) -> Callable[[], tuple[Any, Callable[..., Any]]]:
    """Gives a fetcher and its present `fetch`, for a function that replaces it.

    If that function held the fetcher, the dataset would stay until a garbage collection, and an iterable's iterator
    would be closed only then.
    """
    held, method, replaced = weakref.ref(fetcher), type(fetcher).fetch, vars(fetcher).get("fetch")

    def fetcher_and_fetch() -> tuple[Any, Callable[..., Any]]:
        fetcher = held()
        return fetcher, types.MethodType(method, fetcher) if replaced is None else replaced

    return fetcher_and_fetch


def watch_fetcher(fetcher: Any, sums: Sums, took_ns: int = 0) -> Any:
    """Times `fetch` and `collate_fn` of `fetcher`, and puts a proxy of the dataset into it while it fetches.

    `fetcher` is an internal object of torch, which scripts do not see. It was created in `took_ns`: that of an iterable
    dataset begins the stream.
    """
    name, stand_in_for = standins.stand_in_for(fetcher, sums)
    fetcher.collate_fn = _collate(fetcher.collate_fn)
    held = held_weakly(fetcher)
    sums.round += 1
    sums.number = 0
    sums.created_ns = took_ns
    sums.may_be_alike = not sums.round and hasattr(fetcher, "dataset_iter") and sums.place.worker is not None

    @unseen
    def fetch(*index: Any) -> Any:
        fetcher, plain = held()
        if not sums.recording.on or local.timer is not None or sums.timer.busy:
            return plain(*index)  # inside another fetch, and part of its rows; or two threads use one loader
        timer = local.timer = sums.timer
        own = getattr(fetcher, name)
        stand_in = stand_in_for(own)
        setattr(fetcher, name, stand_in)
        collate = fetcher.collate_fn
        fetcher.collate_fn = sums.line_counts.counted(collate)
        present, modules, split = sums.present, sums.modules, sums.split
        if present is not None:
            present.begin()
        if sums.held_open is not None:
            sums.recording.guarded("looking at open files", sums.held_open.begin)
        states = random_state() if sums.fetched < CHECKED else None
        waited, cpu = sums.waited.now(), _cpu_ns()  # system calls: outside the rows, once a batch
        failed, ended, found = True, False, None
        split.begins(sums.fetched)
        began = timer.begin()
        try:
            modules.begin()
            found = plain(*index)
            failed = False
            return found
        except (StopIteration, KeyboardInterrupt):  # the stream's end, or the user's: no batch failed
            failed, ended = False, True
            raise
        finally:
            local.timer = None
            timer.end()
            modules.end()
            if getattr(fetcher, name) is stand_in:
                setattr(fetcher, name, own)
            fetcher.collate_fn = collate
            cpu, waited = min(_cpu_ns() - cpu, timer.last - began), sums.waited.now() - waited
            split.ends(timer.last - began, waited)
            if present is not None:
                present.end()
            _note(sums, began, (cpu, waited), (failed, ended), found, states)

    fetcher.fetch = fetch
    return fetcher


def _cpu_ns() -> int:
    """The CPU time of this thread and of the programs that its process waited for; these may use several cores."""
    return thread_time_ns() + children_cpu_ns()


def _note(sums: Sums, began: int, counts: tuple[int, int], outcome: tuple[bool, bool], found: Any, states: Any) -> None:
    """Adds one fetch to the sums. A fault in this ends the recording, never the script."""
    try:
        sums.drew = states is not None and drew_since(states)
        sums.holds = fingerprint(found) if states is not None and sums.may_be_alike else 0
        if sums.held_open is not None:
            sums.held_open.end(sums.recording)
            sums.held_open = None if sums.held_open.over else sums.held_open
        if found is not None:
            sums.look_into(found)
        sums.batch(began, sums.timer.last, *counts, *outcome)
        if found is not None and sums.place.worker is not None:
            created_ns = sums.created_ns if sums.number == 0 else 0
            pickling.meter.made(found, sums.round, sums.number, began, sums.timer.last, created_ns)
        sums.number += 1
    except Exception as error:
        sums.recording.fault("adding up a batch", error)
        sums.recording.on = False


def _collate(function: Any) -> Any:
    return timed(function, stages.number("collate", getattr(function, "__name__", type(function).__name__)))


def recording_of(settings: Settings, place: WorkerPlace, start_method: str) -> Recording:
    """The recording of one worker process, with a file of its own."""
    return Recording(
        settings, "worker", place.first_pass, loader=place.loader, worker=place.worker, start_method=start_method
    )


class WatchedWorker:
    """The watching of one worker process: its sums, and the patches that only a worker needs."""

    def __init__(self, recording: Recording, place: WorkerPlace) -> None:
        local.timer = None
        self.recording = recording
        self.sums = Sums(recording, place)
        self.sums.present = PresentSample(recording.file.path)
        multiprocessing.util.Finalize(
            None, self.finish, exitpriority=-10
        )  # after the queue has joined its feeder thread

    def prepare(self, dataset: Any) -> None:
        """Sets the patches that only a worker needs. They stay until the process ends."""
        patches = self.recording.patches
        steps: tuple[Callable[[], object], ...] = (
            functools.partial(collections.install, patches),
            functools.partial(pickling.watch_queue, patches),
            functools.partial(labels.watch_record_function, patches),
            functools.partial(labels.watch_functions, patches, self.recording.settings.functions),
            lambda: finding_transforms.watch_tree(dataset, patches, may_change=True),
            functools.partial(inits.clean_errors, patches),
        )
        for step in steps:
            self.recording.guarded("preparing a worker", step)
        place = self.sums.place
        self.recording.guarded("timing worker_init_fn", inits.tell, self.recording, place.loader, place.worker)

    def finish(self) -> None:
        self.recording.guarded("ending a worker", lambda: self.sums.write(last=True))
        self.recording.write(Moment("end", perf_counter_ns()))
        if self.sums.present is not None:
            self.sums.present.remove()
