"""Workers, hand-off, memory and threads of a watched run as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pipebench.results.watched import HandOff, HostUse, QueuePoint, ThreadPool, WatchResult, WorkerResult
from pipebench.units import counted, percent, printable, seconds, seconds_scale, size

_LEVELS = "▁▂▃▄▅▆▇█"


def iterations(result: WatchResult) -> list[str]:
    """How iterations scatter, and the waits in them."""
    spread = (result.iteration_p50_s, result.iteration_p95_s, result.iteration_p99_s)
    waits = (result.wait_p50_s, result.wait_p95_s, result.wait_p99_s)
    parts = [f"{name}: {_percentiles(found)}" for name, found in (("An iteration", spread), ("its wait", waits))]
    return ["; ".join(parts)] if None not in (*spread, *waits) else []


def _percentiles(found: Sequence[float | None]) -> str:
    values = [one or 0.0 for one in found]
    scale = seconds_scale([values[1] or values[2]])
    return f"p50 {scale.number(values[0])}, p95 {scale.number(values[1])}, p99 {scale.text(values[2])}"


def worker(one: WorkerResult) -> str:
    parts = [
        f"Worker {one.worker} of loader {one.loader}: {counted(one.batches, 'batch', 'batches')}, busy "
        f"{percent(one.busy_share)}, {seconds(one.cpu_s)} on the CPU of {seconds(one.busy_s)} busy",
        f"{counted(one.gc_collections, 'garbage collection')}, {seconds(one.gc_s)}",
    ]
    if one.process_cpu_s is not None:
        parts.append(f"{seconds(one.process_cpu_s)} on the CPU with start-up and all threads")
    if one.pss_bytes is not None:
        parts.append(f"{size(one.pss_bytes)} of memory")
    return ", ".join(parts)


def hand_off(one: HandOff) -> Iterable[str]:
    parts = [
        f"Hand-off: pickling takes a worker's feeder thread {seconds(one.serialise_s_per_batch)} and "
        f"{size(one.pipe_bytes_per_batch)} of pipe a batch"
    ]
    if one.tensors_per_batch is not None:
        parts.append(_crossing(one))
    if one.latency_s is not None:
        parts.append(f"a batch that is waited for arrives {seconds(one.latency_s)} after its worker is done")
    if one.pin_s is not None:
        parts.append(f"pinning it takes {seconds(one.pin_s)}")
    if one.ready is not None:
        parts.append(f"{one.ready:.1f} of at most {one.most_ready} batches lie ready when one is asked for")
    if one.out_of_order:
        parts.append(
            f"in {percent(one.out_of_order)} of waits another batch comes first "
            f"({seconds(one.out_of_order_s_per_batch or 0.0)} a batch)"
        )
    yield "; ".join(parts)
    if len(one.ready_over_time) > 1 and one.most_ready:
        line = sparkline(one.ready_over_time, one.most_ready)
        yield f"Batches ready over the run, from 0 ({_LEVELS[0]}) to {one.most_ready} ({_LEVELS[-1]}): {line}"


def _crossing(one: HandOff) -> str:
    tensors, arrays = _several(one.tensors_per_batch, "tensor"), _several(one.arrays_per_batch, "NumPy array")
    text = f"{tensors} in {size(one.shared_bytes_per_batch or 0.0)} of shared memory"
    return (
        f"{text} and {arrays} of {size(one.array_bytes_per_batch or 0.0)} in the pipe" if one.arrays_per_batch else text
    )


def _several(mean: float | None, what: str) -> str:
    number = f"{mean or 0.0:.1f}".removesuffix(".0")
    return f"{number} {what}" if number == "1" else f"{number} {what}s"


def sparkline(points: Sequence[QueuePoint], most: float) -> str:
    """One character for each part of the run, blank where nothing was followed."""
    width = min(later.at_s - one.at_s for one, later in pairwise(points))
    line: dict[int, str] = {}
    for one in points:
        level = round(min(1.0, one.ready / most) * (len(_LEVELS) - 1))
        line[round((one.at_s - points[0].at_s) / width)] = _LEVELS[level]
    return "".join(line.get(column, " ") for column in range(max(line) + 1))


def host(used: HostUse, usable_cores: float) -> Iterable[str]:
    """Memory, descriptors and threads: a line each, of what is known."""
    parts = []
    if used.pss_bytes is not None and used.script_pss_bytes is not None:
        parts.append(
            f"at most {size(used.pss_bytes)} in all processes together, shared pages counted once "
            f"({size(used.script_pss_bytes)} in the script's own)"
        )
    if used.shared_memory_bytes is not None and used.shared_memory_size_bytes:
        parts.append(
            f"at most {size(used.shared_memory_bytes)} of {size(used.shared_memory_size_bytes)} of /dev/shm in use "
            f"({size(used.shared_memory_before_bytes or 0)} before)"
        )
    if used.script_descriptors is not None and used.descriptor_limit is not None:
        how = f", tensors are shared by {printable(used.sharing_strategy)}" if used.sharing_strategy else ""
        parts.append(f"at most {used.script_descriptors} of {used.descriptor_limit:,} descriptors open{how}")
    if parts:
        yield "Memory: " + "; ".join(parts)
    pools = [_pools(where, [one for one in used.pools if one.where == where]) for where in ("script", "workers")]
    if any(pools):
        yield f"Threads allowed, on {usable_cores:g} usable cores: " + "; ".join(part for part in pools if part)


def _pools(where: str, pools: Sequence[ThreadPool]) -> str:
    several = [f"{printable(one.name)} {one.threads} ({printable(one.set_with)})" for one in pools if one.threads > 1]
    return f"{where} {', '.join(several) or 'one'}" if pools else ""
