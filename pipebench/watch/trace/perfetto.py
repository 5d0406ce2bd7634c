"""Writes the batches that were followed and the spans that were kept in full as a Chrome trace on one clock.

There is a track for the loop, each worker, its queue's feeder thread, the pin-memory thread and the device. An arrow
leads from the worker that made a batch to the iteration that used it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipebench.host import redaction
from pipebench.host.whole_files import write_whole
from pipebench.units import printable
from pipebench.watch.read.gather import Process, loaders_found
from pipebench.watch.read.hand_off import FollowedBatch, matched
from pipebench.watch.record.lines import BatchInFull, IterationInFull
from pipebench.watch.record.record_file import PHASES, WAIT
from pipebench.watch.trace.device_timeline import device_groups
from pipebench.watch.trace.tracks import DEVICE, Group, Point, Slice, TraceWriter, group, lay


def write_trace(processes: list[Process], path: Path) -> None:
    """Writes a file that Perfetto and chrome://tracing open."""
    text = json.dumps({"traceEvents": list(trace_events(processes)), "displayTimeUnit": "ms"})
    if redaction.may_hold(text):
        text = json.dumps(redaction.redacted_in(json.loads(text)))
    write_whole(path, text.encode())


def trace_events(processes: list[Process]) -> Iterator[dict[str, Any]]:
    """The names of the tracks, then the slices of each track in the order of their begin, then the arrows."""
    script = next((one.pid for one in processes if one.role == "script"), 0)
    batches = [one for loader in sorted(loaders_found(processes)) for one in matched(processes, loader)[0]]
    groups = _Groups(script)
    for process in processes:
        groups.add_in_full(process)
        groups.others += device_groups(process)
    for batch in batches:
        groups.add_followed(batch)
    everything = groups.all()
    further = lay(everything)
    writer = TraceWriter(min((one.begin for one in everything), default=0))
    yield from _names(writer, processes, everything, further, groups.threads)
    for one in sorted(everything, key=lambda one: (one.pid, one.track, one.begin, -one.end)):
        yield from writer.slices(one)
    for batch in batches:
        yield from writer.flow(groups.way(batch))


class _Groups:
    """The slices of a run, one group for each batch or iteration, even if it was both kept in full and followed."""

    def __init__(self, script: int) -> None:
        self.script = script
        self.made: dict[tuple[int, int], Group] = {}
        self.used: dict[tuple[int, int], Group] = {}
        self.others: list[Group] = []
        self.threads: dict[tuple[int, int], str] = {}

    def all(self) -> list[Group]:
        found = [*self.made.values(), *self.used.values(), *self.others]
        return [one for one in found if one.end > one.begin]

    def add_in_full(self, process: Process) -> None:
        for batch in process.of(BatchInFull):
            self.made[process.pid, batch.begin] = _batch(process, batch)
        for iteration in process.of(IterationInFull):
            self.used[iteration.thread, iteration.begin] = _iteration(process, iteration)

    def add_followed(self, batch: FollowedBatch) -> None:
        made, got = batch.made, batch.got
        about = {"loader": batch.loader, "pass": batch.number_of_pass, "task": batch.task}
        whole = group(batch.pid, batch.pid, Slice("batch", made.began, made.done, about))
        self.made.setdefault((batch.pid, made.began), whole)
        inner = [Slice(PHASES[WAIT], got.asked, got.taken), Slice("step", got.taken, got.left)]
        whole = group(self.script, got.thread, Slice("iteration", got.asked, got.left, about), inner)
        self.used.setdefault((got.thread, got.asked), whole)
        size = {**about, "pipe_bytes": made.pipe_bytes, "shared_bytes": made.shared_bytes}
        self.others.append(group(batch.pid, made.feeder, Slice("pickle", made.pickling, made.sent, size)))
        self.threads[batch.pid, made.feeder] = "queue feeder"
        if got.pinned:
            self.others.append(group(self.script, got.pin_thread, Slice("pin", got.received, got.pinned, about)))
            self.threads[self.script, got.pin_thread] = "pin memory"

    def way(self, batch: FollowedBatch) -> list[Point]:
        """The points of an arrow, from the end of the fetch to the first use of the batch. Each lies within its slice.

        Each slice begins after the one before it, because Perfetto reverses an arrow that leads to an older slice.
        """
        made, got = batch.made, batch.got
        used = self.used[got.thread, got.asked]
        points = [Point(batch.pid, batch.pid, max(made.began, made.done - 1))]
        points.append(Point(batch.pid, made.feeder, made.pickling))
        if got.pinned:
            points.append(Point(self.script, got.pin_thread, got.received))
        step = next((one.begin for one in used.slices[1:] if one.begin >= got.taken), max(got.asked, got.taken - 1))
        points.append(Point(self.script, used.track, step))
        return points


def _batch(process: Process, batch: BatchInFull) -> Group:
    """One batch and, inside it, its stages one after the other (exclusive, so they do not nest)."""
    about = {"loader": batch.loader, "pass": batch.number_of_pass, "batch": batch.batch}
    log = batch.stages
    inner = []
    for begin, stage, end in zip(log[::2], log[1::2], [*log[2::2], batch.end], strict=True):
        if stage:
            name = process.stage(stage)
            inner.append(Slice(printable(name.name), begin, end, {"kind": name.kind}))
    return group(process.pid, process.pid, Slice("batch", batch.begin, batch.end, about), inner)


def _iteration(process: Process, iteration: IterationInFull) -> Group:
    about = {"loader": iteration.loader, "pass": iteration.number_of_pass, "turn": iteration.turn}
    log = iteration.phases
    inner = [
        Slice(PHASES[phase], begin, end)
        for begin, end, phase in zip(log[::3], log[1::3], log[2::3], strict=True)
        if begin >= iteration.begin
    ]
    whole = Slice("iteration", iteration.begin, iteration.end, about)
    return group(process.pid, iteration.thread, whole, inner)


def _names(
    writer: TraceWriter,
    processes: list[Process],
    groups: list[Group],
    further: dict[tuple[int, int], int],
    threads: dict[tuple[int, int], str],
) -> Iterator[dict[str, Any]]:
    for place, process in enumerate(processes):
        script = process.role == "script"
        who = "script" if script else f"process {process.pid}"
        if process.worker is not None:
            who = f"loader {process.loader} worker {process.worker}"
        yield writer.named("process_name", process.pid, process.pid, name=who)
        yield writer.named("process_sort_index", process.pid, process.pid, sort_index=place)
    for pid, track in sorted({(one.pid, one.track) for one in groups}):
        name = threads.get((pid, track), "main" if track == pid else "thread")
        if track == DEVICE:
            name = "device"
        elif (pid, track) in further:
            name = "further iterations"
        yield writer.named("thread_name", pid, track, name=name)
