"""A few steps of the settled part of a run, for a picture: what the loop, the workers and the device did. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from pipebench.results.over_time import Timeline, TimelineSpan
from pipebench.watch.read.gather import NO_LOADER, Process, loaders_found
from pipebench.watch.read.hand_off import FollowedBatch, matched, under_way
from pipebench.watch.record.device_lines import DeviceWait
from pipebench.watch.record.lines import IterationInFull, LoopSums
from pipebench.watch.record.record_file import PHASES, WAIT
from pipebench.watch.trace.device_timeline import chains, placed

_STEPS = 8
_SPANS = 300
_TRACKS = 12  # workers
_ALIKE = 0.1  # of the median length: such stretches stand for the run
_NS = 1e-9
_LOOP, _PIN, _DEVICE = "loop", "pin memory", "device"
Found = tuple[str, str, int, int, int]
"""Track, name, begin, end (in nanoseconds), and the number of the batch."""


def timeline(processes: Sequence[Process], in_loop: Sequence[int]) -> Timeline | None:
    """Neighbouring steps that take about as long as most. None if no batches were followed."""
    loader = next((one for one in in_loop if one != NO_LOADER), None)
    if loader is None:
        return None
    batches, _ = matched(processes, loader)
    steps = _settled(batches, under_way(processes, loader), _in_full(processes, loader))
    if len(steps) < 2:
        return None
    begin, end = steps[0].got.asked, steps[-1].got.left
    found = [*_loop(steps, _in_full(processes, loader)), *_pinned(batches, begin, end)]
    found += _device(processes, loader, steps[0].number_of_pass, begin, end)
    found += _made(processes, batches, begin, end)
    workers = loaders_found(processes)[loader].workers
    return _laid(found[:_SPANS], len(steps), workers, begin, end)


def _in_full(processes: Iterable[Process], loader: int) -> dict[int, IterationInFull]:
    """The iterations that were kept in every detail, by their begin."""
    return {one.begin: one for process in processes for one in process.of(IterationInFull) if one.loader == loader}


def _settled(
    batches: Sequence[FollowedBatch], ahead: int, known: dict[int, IterationInFull]
) -> Sequence[FollowedBatch]:
    """Steps that follow each other, after start-up. Of those as long as the median, the one that is known best."""
    taken = sorted((one for one in batches if one.got.left), key=lambda one: one.got.asked)
    stretches = [taken[place : place + _STEPS] for place in range(max(1, len(taken) - _STEPS + 1))]
    whole = [one for one in stretches if _whole(one, ahead)] or [one for one in stretches if _whole(one, 0)]
    if not whole:
        return ()
    lengths = [one[-1].got.left - one[0].got.asked for one in whole]
    usual = median(lengths)
    alike = [one for one, length in zip(whole, lengths, strict=True) if abs(length - usual) <= _ALIKE * usual]
    return max(alike or whole, key=lambda one: sum(step.got.asked in known for step in one))


def _whole(steps: Sequence[FollowedBatch], ahead: int) -> bool:
    """Whether each step begins where the one before ends, in one pass, without the first ones of the pass."""
    touch = all(
        one.got.left == after.got.asked and one.number_of_pass == after.number_of_pass
        for one, after in itertools.pairwise(steps)
    )
    return bool(steps) and touch and min(one.task for one in steps) >= ahead


def _loop(steps: Sequence[FollowedBatch], known: dict[int, IterationInFull]) -> Iterator[Found]:
    """Each step as a wait and what follows it, and inside that the phases, where they were kept."""
    for one in steps:
        got = one.got
        yield _LOOP, PHASES[WAIT], got.asked, got.taken, one.task
        yield _LOOP, "step", got.taken, got.left, one.task
        log = known[got.asked].phases if got.asked in known else []
        for begin, end, phase in zip(log[::3], log[1::3], log[2::3], strict=True):
            if phase != WAIT and begin >= got.asked:
                yield _LOOP, PHASES[phase], begin, end, one.task


def _pinned(batches: Iterable[FollowedBatch], begin: int, end: int) -> Iterator[Found]:
    for one in batches:
        if one.got.pinned > begin and one.got.received < end and one.got.pinned:
            yield _PIN, "pin", one.got.received, one.got.pinned, one.task


def _device(processes: Iterable[Process], loader: int, number: int, begin: int, end: int) -> Iterator[Found]:
    waits: list[DeviceWait] = []
    for process in processes:
        lines = (one for one in process.of(LoopSums) if one.loader == loader and one.number_of_pass == number)
        waits += [wait for one in lines for wait in one.device]
    for chain in chains(waits):
        for turn, worked, idled, began in placed(chain):
            yield from ((_DEVICE, "work", began, worked, turn - 1), (_DEVICE, "idle", worked, idled, turn))


def _made(processes: Iterable[Process], batches: Iterable[FollowedBatch], begin: int, end: int) -> Iterator[Found]:
    """The batches that were made in this time, of the workers that made any."""
    numbers = {process.pid: process.worker for process in processes}
    own = [one for one in batches if one.made.sent > begin and one.made.began < end]
    shown = sorted({number for one in own if (number := numbers.get(one.pid)) is not None})[:_TRACKS]
    for one in own:
        if numbers.get(one.pid) in shown:
            track = f"worker {numbers[one.pid]}"
            yield track, "batch", one.made.began, one.made.done, one.task
            yield track, "pickle", one.made.pickling, one.made.sent, one.task


def _laid(found: Iterable[Found], steps: int, workers: int, begin: int, end: int) -> Timeline:
    """The spans as far as they lie between `begin` and `end`, on numbered tracks."""
    inside = [(track, name, max(first, begin), min(last, end), task) for track, name, first, last, task in found]
    inside = [one for one in inside if one[3] > one[2]]
    tracks = sorted({one[0] for one in inside}, key=_place)
    spans = tuple(
        TimelineSpan(tracks.index(track), name, (first - begin) * _NS, (last - begin) * _NS, task)
        for track, name, first, last, task in inside
    )
    return Timeline(steps, workers, tuple(tracks), spans)


def _place(track: str) -> tuple[int, int]:
    """The order of tracks: as a batch goes."""
    if track.startswith("worker "):
        return 0, int(track.removeprefix("worker "))
    return (_PIN, _LOOP, _DEVICE).index(track) + 1, 0
