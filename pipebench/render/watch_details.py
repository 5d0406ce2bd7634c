"""Renders what only the full report of a watched run shows. Pure.

These are start-up, workers, hand-off, memory, and the slowest samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from pipebench.render.cells import Table
from pipebench.render.layout import Part, Section
from pipebench.results.batches import SlowSample
from pipebench.results.hand_off import HandOff, QueuePoint
from pipebench.results.host_use import HostUse, ThreadPool
from pipebench.results.watched import LoaderResult, WatchResult, WorkerResult
from pipebench.units import bytes_scale, code_place, counted, percent, printable, seconds, seconds_scale, size

_WIDEST, _SHORTEST_S = 200, 1e-6  # of a line of levels: more columns, or shorter parts, than any run gives
_LEVELS = "▁▂▃▄▅▆▇█"
_WORKER_TABLE = (
    "busy: making batches, while the loop over its loader runs. CPU: of that, on a core. all CPU: of the whole "
    "process, with start-up and all threads. RAM: shared pages are divided among their processes."
)


def sections(result: WatchResult) -> list[Section]:
    """All parts that the short report leaves out. Parts that it only shortens are in `watch.py`."""
    return [
        ("distribution", [f"  {line}" for line in iterations(result)]),
        ("workers", _workers(result)),
        ("resources", _resources(result)),
        ("distribution", [slowest(result.slowest)] if result.slowest else []),
    ]


def _workers(result: WatchResult) -> list[Part]:
    made: list[Part] = []
    if starts := [line for one in result.loaders for line in start_up(one, result.loaders_in_loop)]:
        made += ["", "Start-up and the end of a pass (not included above)", *(f"  {line}" for line in starts)]
    made += [workers(one, list(found)) for one, found in groupby(result.workers, key=lambda worker: worker.loader)]
    return [*made, *([f"  {_WORKER_TABLE}"] if result.workers else [])]


def _resources(result: WatchResult) -> list[Part]:
    made: list[Part] = []
    if result.hand_off is not None:
        made += ["", "Hand-off from workers to the script", *(f"  {line}" for line in hand_off(result.hand_off))]
    if result.host is not None and result.loaders and (used := list(host(result.host, result.usable_cores))):
        made += ["", "Memory and threads (the highest seen)", *(f"  {line}" for line in used)]
    return made


def iterations(result: WatchResult) -> list[str]:
    """The percentiles of an iteration and of its wait, one line each; an empty list if any is unknown."""
    spread = (result.iteration_p50_s, result.iteration_p95_s, result.iteration_p99_s)
    waits = (result.wait_p50_s, result.wait_p95_s, result.wait_p99_s)
    if None in (*spread, *waits):
        return []
    return [f"An iteration: {_percentiles(spread)}", f"Its wait: {_percentiles(waits)}"]


def _percentiles(found: Sequence[float | None]) -> str:
    values = [one or 0.0 for one in found]
    scale = seconds_scale([values[1] or values[2]])
    return f"p50 {scale.number(values[0])}, p95 {scale.number(values[1])}, p99 {scale.text(values[2])}"


def loader_name(one: LoaderResult) -> str:
    how = f"{counted(one.workers, 'worker')} ({printable(one.start_method)})" if one.workers else "no workers"
    batch = f", batch {one.batch_size}" if one.batch_size else ""
    made = f"; made at {code_place(one.file, one.line)}" if one.file else ""
    again = f", anew {counted(one.again, 'time')}" if one.again else ""
    return f"loader {one.loader}: {printable(one.dataset)}{batch}, {how}{made}{again}"


def start_up(one: LoaderResult, in_loop: Sequence[int]) -> Iterable[str]:
    if not one.loader:
        return  # a loop without a loader
    name = f"L{loader_name(one)[1:]}"
    if one.startup_s is not None:
        later = f"; in later passes after {seconds(one.later_startup_s)}" if one.later_startup_s else ""
        ends = f"; a pass ends in {seconds(one.pass_end_s)}" if one.workers and one.pass_end_s else ""
        yield f"{name}; first batch after {seconds(one.startup_s)}{later}{ends}"
    if one.loader not in in_loop and one.s_per_iteration and one.wait_s_per_iteration is not None:
        yield (
            f"Loader {one.loader} is outside the training loop: {counted(one.iterations, 'iteration')} of "
            f"{seconds(one.s_per_iteration)}, of which {seconds(one.wait_s_per_iteration)} are waiting"
        )


def workers(loader: int, found: Sequence[WorkerResult]) -> Table:
    """A row for each worker of one loader."""
    busy = seconds_scale([max(one.busy_s for one in found)])
    pause = seconds_scale([max(one.gc_s for one in found)])
    memory = bytes_scale([max(one.pss_bytes or 0 for one in found)])
    rows = tuple(
        (
            str(one.worker),
            f"{one.batches:,}",
            percent(one.busy_share),
            busy.number(one.busy_s),
            busy.number(one.cpu_s),
            busy.number(one.process_cpu_s) if one.process_cpu_s is not None else "",
            memory.number(one.pss_bytes) if one.pss_bytes is not None else "",
            f"{pause.number(one.gc_s)} ({one.gc_collections:,})",
        )
        for one in found
    )
    unit = busy.unit
    headers = ("worker", "batches", "busy", f"busy {unit}", f"CPU {unit}", f"all CPU {unit}", f"RAM {memory.unit}")
    empty = tuple(index for index in range(len(headers)) if not any(row[index] for row in rows))
    table = Table(
        f"Workers of loader {loader}",
        (*headers, f"GC {pause.unit} (runs)"),
        rows,
        frozenset(range(len(headers) + 1)),
        spare=empty,
    )
    return table.narrowest()


def hand_off(one: HandOff) -> Iterable[str]:
    """The cost of bringing a batch from its worker to the loop: a line for each part that was measured."""
    yield (
        f"Pickling takes the worker's feeder thread {seconds(one.serialise_s_per_batch)} a batch "
        f"({seconds(one.serialise_cpu_s_per_batch)} of CPU time); "
        f"{size(one.pipe_bytes_per_batch)} go through the pipe."
    )
    if one.tensors_per_batch is not None:
        yield _crossing(one)
    if one.latency_s is not None:
        yield f"A batch that the loop waits for arrives {seconds(one.latency_s)} after its worker has finished it."
    if one.pin_s is not None:
        yield f"Pinning a batch takes {seconds(one.pin_s)}."
    if one.ready is not None:
        yield f"When the loop asks for a batch, {one.ready:.1f} of at most {one.most_ready} batches are ready."
    if one.out_of_order:
        yield (
            f"Head-of-line blocking: in {percent(one.out_of_order)} of waits a later batch arrives first. This costs "
            f"{seconds(one.out_of_order_s_per_batch or 0.0)} a batch."
        )
    if len(one.ready_over_time) > 1 and one.most_ready:
        line = sparkline(one.ready_over_time, one.most_ready)
        yield f"Batches ready over the run, from 0 ({_LEVELS[0]}) to {one.most_ready} ({_LEVELS[-1]}):"
        yield line


def _crossing(one: HandOff) -> str:
    tensors, arrays = _several(one.tensors_per_batch, "tensor"), _several(one.arrays_per_batch, "NumPy array")
    shared = size(one.shared_bytes_per_batch or 0.0)
    text = f"A batch holds {tensors} in {shared} of shared memory"
    if one.views:
        text = f"A batch holds {tensors} of {size(one.held_bytes_per_batch)}. They are views of {shared}, which crosses"
    if one.arrays_per_batch:
        text += f", and {arrays} of {size(one.array_bytes_per_batch or 0.0)}, copied through the pipe"
    return f"{text}."


def _several(mean: float | None, what: str) -> str:
    number = f"{mean or 0.0:.1f}".removesuffix(".0")
    return f"{number} {what}" if number == "1" else f"{number} {what}s"


def sparkline(points: Sequence[QueuePoint], most: float) -> str:
    """One character for each part of the run. A blank stands for a part in which no batch was followed."""
    width = max(min(later.at_s - one.at_s for one, later in pairwise(points)), _SHORTEST_S)
    line: dict[int, str] = {}
    for one in points:
        level = round(min(1.0, one.ready / most) * (len(_LEVELS) - 1))
        line[min(_WIDEST, round((one.at_s - points[0].at_s) / width))] = _LEVELS[level]
    return "".join(line.get(column, " ") for column in range(max(line) + 1))


def host(used: HostUse, usable_cores: float) -> Iterable[str]:
    """Memory, shared memory, descriptors and threads: a line for each that is known."""
    if used.pss_bytes is not None and used.script_pss_bytes is not None:
        yield (
            f"Memory: {size(used.pss_bytes)} in all processes, shared pages counted once; "
            f"{size(used.script_pss_bytes)} in the script's own process."
        )
    elif used.script_pss_bytes is not None:
        own = size(used.script_pss_bytes)
        yield f"Memory: {own} in the script's own process. Its workers ended before they were measured."
    if used.shared_memory_bytes is not None and used.shared_memory_size_bytes:
        yield (
            f"/dev/shm: {size(used.shared_memory_bytes)} of {size(used.shared_memory_size_bytes)} in use; "
            f"{size(used.shared_memory_before_bytes or 0)} before the run."
        )
    if used.script_descriptors is not None and used.descriptor_limit is not None:
        how = f" Tensors are shared by {printable(used.sharing_strategy)}." if used.sharing_strategy else ""
        yield f"File descriptors of the script: {used.script_descriptors:,} of {used.descriptor_limit:,} open.{how}"
    pools = [_pools(where, [one for one in used.pools if one.where == where]) for where in ("script", "workers")]
    if any(pools):
        allowed = "; ".join(part for part in pools if part)
        yield f"Threads that libraries may use, on {usable_cores:g} usable cores: {allowed}."


def _pools(where: str, pools: Sequence[ThreadPool]) -> str:
    several = [f"{printable(one.name)} {one.threads} ({printable(one.set_with)})" for one in pools if one.threads > 1]
    return f"{where} {', '.join(several) or 'one'}" if pools else ""


def slowest(found: Sequence[SlowSample]) -> Table:
    scale = seconds_scale([found[0].s])
    rows = tuple(
        (printable(one.name), str(one.loader), "" if one.worker is None else str(one.worker), scale.number(one.s))
        for one in found
    )
    return Table("Slowest samples", ("sample", "loader", "worker", scale.unit), rows, frozenset({1, 2, 3}))
