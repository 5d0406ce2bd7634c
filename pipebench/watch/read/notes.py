"""The notes of a watched run on what failed, what is missing, and what stood still. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipebench.host.children import named
from pipebench.results.watched import LoaderResult, Note, StageResult
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.standstill import Standstill
from pipebench.watch.read.described import single
from pipebench.watch.read.gather import Process, Run, loaders_found
from pipebench.watch.read.loop_causes import tools_on
from pipebench.watch.read.untrained import keeps_graphs
from pipebench.watch.record.lines import Fault, FetchSums, LoopSums, SpanNotFound
from pipebench.watch.record.program_lines import LoadsInFork
from pipebench.watch.record.record_file import WITHOUT_GRADIENTS
from pipebench.watch.record.worker_lines import WorkerGone

Values = dict[str, str | int | float]
_NS = 1e-9
_MOSTLY = 0.5  # of the time in which samples are made
_LEAST_DOUBLES = 1_000_000  # bytes of a batch


def loader_notes(run: Run, loaders: tuple[LoaderResult, ...]) -> Iterator[Note]:
    for one in loaders:
        if one.undivided and one.workers > 1:
            yield Note("undivided", {"loader": one.loader, "dataset": one.dataset, "workers": one.workers})
        if not one.watched:
            how = one.start_method
            yield Note("workers-not-watched", {"loader": one.loader, "workers": one.workers, "start_method": how})
        if one.failed_batches:
            yield Note("failed-batches", {"loader": one.loader, "batches": one.failed_batches})
        yield from _hidden(run, one.loader)
        yield from _unsplit(run, one.loader)
        yield from _doubles(run, one.loader)
        if keeps_graphs(run, one) and single(run, one.loader) != "left":  # its batches are of the steps
            yield Note("unused-graphs", {"loader": one.loader, "dataset": one.dataset})
        turns = run.turns(one.loader)
        if own := sum(record.after_loader_ns for record in turns):
            yield Note("stages-after-loader", {"loader": one.loader, "s": own * _NS / _count(turns)})


def _unsplit(run: Run, loader: int) -> Iterator[Note]:
    """Notes the batches whose samples were not split into rows, as they have their rows from the others."""
    sums = [one for _, one in run.sums(loader)]
    if unsplit := sum(one.unsplit for one in sums):
        batches = sum(one.batches for one in sums)
        yield Note("unsplit-batches", {"loader": loader, "split": max(0, batches - unsplit), "batches": batches})


def _doubles(run: Run, loader: int) -> Iterator[Note]:
    """Notes batches that are float64 for the most part: NumPy makes it of what is not asked for otherwise."""
    handed = [one for _, sums in run.sums(loader) for one in sums.handed]
    held = sum(one.shared_bytes - one.viewed_bytes + one.array_bytes for one in handed)
    doubles = sum(one.double_bytes for one in handed)
    if handed and doubles >= _LEAST_DOUBLES * len(handed) and 2 * doubles >= held:
        yield Note("float64", {"loader": loader, "bytes": doubles / len(handed)})


def nested_notes(run: Run, stages: Sequence[StageResult]) -> Iterator[Note]:
    """Notes the column of a dataset of Hugging Face with most dimensions, where that library's functions take longest.

    Its datasets hold no code of the user, so all rows of functions are the library's.
    """
    for loader, found in loaders_found(run.processes).items():
        share = sum(one.worker_share for one in stages if one.loader == loader and one.kind in ("function", "getitem"))
        if found.nested and share >= _MOSTLY:
            column = max(found.nested, key=lambda name: found.nested[name])
            values: Values = {"column": column, "dimensions": found.nested[column], "share": share}
            yield Note("nested-lists", {"loader": loader, **values})


def _hidden(run: Run, loader: int) -> Iterator[Note]:
    """Notes the errors that a handler hid, the warm-up included: what failed is missing from the batches."""
    lines = [line for process in run.processes for line in process.of(FetchSums) if line.loader == loader]
    found = [(line.begin, line.hidden) for line in lines if line.hidden.errors]
    if found:
        first = min(found)[1]
        values: Values = {"errors": sum(one.errors for _, one in found), "problem": first.text}
        spent = sum(one.spent_ns for _, one in found) * _NS
        yield Note(
            "hidden-errors", {"loader": loader, **values, "s": spent, **({"sample": first.name} if first.name else {})}
        )


def _count(turns: Iterable[LoopSums]) -> int:
    return sum(one.turns for one in turns)


def span_notes(run: Run, functions: Sequence[str], stages: Sequence[StageResult]) -> Iterator[Note]:
    """A note for each function of `--span` without a row: it was not found, or it did not run in a loop or a worker."""
    script = run.of_script()
    lacks = {one.text: one.lacks for process in script for one in process.of(SpanNotFound)}
    seen = {one.name for one in stages if one.kind == "label"}
    names = {name for process in script for one in process.of(LoopSums) for name in one.spans_ns}
    seen |= {name.removesuffix(WITHOUT_GRADIENTS) for name in names}
    of_libraries = {one.name for one in stages if one.kind in ("read", "decode", "transform")}  # these have rows anyway
    for text in dict.fromkeys(functions):
        module, _, path = text.partition(":")
        if path in seen or of_libraries & {path, f"{module}.{path}"}:
            continue
        if text in lacks:
            yield Note("span-not-found", {"span": text, "lacks": lacks[text]})
        else:
            yield Note("span-not-run", {"span": text})


def lost(run: Run) -> dict[int, int]:
    """The workers that ended before their loader told them to: the status of each by its process."""
    gone = {one.pid: one.status for process in run.of_script() for one in process.of(WorkerGone)}
    for process in run.processes:
        if process.moment("end") is not None or process.stopped:
            gone.pop(process.pid, None)  # it ended as it should, or what it wrote of that is lost
    return gone


def process_notes(run: Run, status: int, footprint: Footprint) -> Iterator[Note]:
    yield from _in_forks(run)
    ended_well = status == 0 and all(one.moment("end") is not None for one in run.of_script())
    gone = lost(run)
    for process in run.processes:
        who = _who(process)
        if process.stopped:
            yield Note("recording-stopped", who)
        elif process.pid in gone:
            yield Note("worker-lost", {**who, **_how(gone[process.pid], footprint), **_where(process)})
        elif process.role == "worker" and process.moment("end") is None and not ended_well:
            yield Note("worker-lost", {**who, **_where(process)})
        if process.unread:
            yield Note("lines-unread", {**who, "lines": process.unread})
        for fault in process.of(Fault):
            yield Note("fault", {**who, "fault": f"{fault.where}: {fault.text}"})


def _in_forks(run: Run) -> Iterator[Note]:
    """Notes the processes that the script forked, and that iterated loaders of their own."""
    found = [(process.pid, one.dataset) for process in run.processes for one in process.of(LoadsInFork)]
    for pid, dataset in found[:1]:
        yield Note("loads-in-fork", {"pid": pid, "dataset": dataset, "processes": len(found)})


def script_killed(signal: int | None, footprint: Footprint, lived: tuple[int, int] | None) -> Iterator[Note]:
    """Notes the signal that ended the script, which `lived` from when to when."""
    if signal is not None:
        at = {} if lived is None else {"at_s": (lived[1] - lived[0]) * _NS}
        yield Note("script-killed", {**_how(-signal, footprint), **at})


def tools_left_on(run: Run) -> Iterator[Note]:
    """Notes the tools of torch that were left on, for a report in which they are no cause."""
    if tools := tools_on(run):
        yield Note("tools-left-on", {"tools": tools})


def _who(process: Process) -> Values:
    if process.role in ("fork", "unknown"):
        return {"pid": process.pid, "forked" if process.role == "fork" else "unknown": 1}
    if process.role == "script":
        return {"pid": process.pid}
    return {"pid": process.pid, "worker": process.worker or 0, "loader": process.loader or 0}


def _how(status: int, footprint: Footprint) -> Values:
    """How a process ended. Of SIGKILL, also what the kernel counted of processes that it killed for lack of memory."""
    if status >= 0:
        return {"status": status}
    name = named(-status)
    killed = {None: "unknown", 0: "enough"}.get(footprint.memory_kills, "ran-out")
    return {"signal": name, **({"memory": killed} if name == "SIGKILL" else {})}


def _where(process: Process) -> Values:
    if process.last is None:
        return {}
    return {"sample": process.last.name, **({} if process.last.inside else {"between": 1})}


def unseen(run: Run, footprint: Footprint) -> Iterator[Note]:
    if not run.of_script():
        yield Note("script-not-watched")
    if footprint.fault is not None:
        yield Note("fault-outside", {"what": "looking at memory and descriptors", "fault": footprint.fault})


def standstill_notes(found: Standstill, lived: tuple[int, int] | None) -> Iterator[Note]:
    """Notes what stood still: the machine, or what was run, which `lived` from when to when."""
    if found.suspended_s:
        yield Note("suspended", {"s": found.suspended_s})
    if found.stops:
        first = min(one.began for one in found.stops)
        at = {} if lived is None else {"at_s": (first - lived[0]) * _NS}
        total_s = sum(one.ended - one.began for one in found.stops) * _NS
        yield Note("stopped", {"s": total_s, "times": len(found.stops), **at})


def stopped_workers(run: Run, footprint: Footprint) -> Iterator[Note]:
    """Notes the workers that were seen stopped in some looks."""
    for process in run.processes:
        if process.role == "worker":
            yield from seen_stopped(process.pid, footprint, _who(process))


def seen_stopped(pid: int, footprint: Footprint, who: Values) -> Iterator[Note]:
    """Notes a process that was seen stopped in some looks."""
    held = footprint.processes.get(pid)
    if held is not None and held.over_time.stopped:
        yield Note("worker-stopped", {**who, "stopped": held.over_time.stopped, "looks": held.over_time.looks})
