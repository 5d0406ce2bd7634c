"""Renders a run under another engine: who feeds the loop faster, and the engine's own statistics beside ours. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.errors import BadSample
from pipebench.render.cells import Table, spoken
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.results.engine import Arm, EngineRun, Source, start_of
from pipebench.stats import LEAST_TOLD, Speedup
from pipebench.units import counted, percent, printable, seconds, seconds_scale, size

_OURS = "MapBatches(reference_pipeline)"  # in the name of the operator in which our function runs
_NAMED = 3
_CLOSE = 0.05
_APART = 0.1  # of the loop's own work beside Ray and with ready batches


def parts(found: EngineRun, bad: Sequence[BadSample] = ()) -> Iterator[Sparing]:
    """The verdict, the three sources, the statistics of the engine beside ours, and what was checked."""
    yield from (Line(line, "bold") for line in verdict(found))
    if found.lost:
        were = "was" if found.lost == 1 else "were"
        yield Line(f"{found.lost} of {counted(len(found.nodes), 'node')} {were} lost on the way.", "bold")
    if found.warnings:
        noise = "; ".join(f"{printable(one.problem)} ({printable(one.remedy)})" for one in found.warnings)
        yield Line(f"Noise: {noise}.", hanging="  ")
    yield _sources(found)
    yield Spare((*_statistics(found), *_stages(found)))
    yield ""
    yield from (Line(line, hanging="  ") for line in _said(found))
    yield from (Line(f"bad: {printable(one.sample)}: {printable(one.message)}", "red") for one in bad[:_NAMED])


def verdict(found: EngineRun) -> list[str]:
    """How fast the loop is with the engine and with the DataLoader, and what ready batches would bring."""
    ours, theirs, over, bound = found.arm("ray"), found.arm("torch"), found.over_torch, found.bound
    if ours is None or theirs is None:
        return [f"{printable(found.library)} was not measured."]
    if over is None or bound is None:
        few = f"{printable(found.library)} fed {ours.throughput.samples_per_s:,.0f} images/s, the DataLoader"
        enough = f"Let it run to its end, with --steps {LEAST_TOLD} or more."
        return [f"Too few windows to compare: {few} {theirs.throughput.samples_per_s:,.0f}. {enough}"]
    loader = f"a DataLoader with {counted(found.workers, 'worker')}"
    said = f"{printable(found.library)} feeds {_rate(ours)} images/s to the training loop, {loader} {_rate(theirs)}"
    apart = f": {spoken(over)}" if over.told else f"; no difference can be told ({spoken(over)})"
    where = "" if found.local else f" The DataLoader has this machine alone, the engine {found.cores:g} cores."
    waits = (
        f"It waits for data {percent(ours.wait_share)} of the time, with the DataLoader {percent(theirs.wait_share)}."
    )
    return [f"{said}{apart}.{where}", f"{waits} {_most(bound)}", *_beyond_waits(found, ours, bound)]


def _beyond_waits(found: EngineRun, ours: Arm, bound: Speedup) -> Iterator[str]:
    """Why the bound is not what the share of waits would make of it, if it is not."""
    ready = found.arm("ready")
    if ready is None or not bound.told or not (ready.own_s > 0 < ours.own_s):
        return
    if abs(ours.own_s / ready.own_s - 1) < _APART:
        return
    scale = seconds_scale([ours.own_s, ready.own_s])
    yield (
        f"The waits alone account for {1 / (1 - ours.wait_share):.3g}× of it: the loop's own work takes "
        f"{scale.text(ours.own_s)} an image beside Ray, and {scale.text(ready.own_s)} with batches that are ready."
    )


def _most(bound: Speedup) -> str:
    if not bound.told:
        return "With batches that are ready it is not measurably faster."
    return f"With batches that are ready it is {spoken(bound)} as fast, the most that faster loading could bring."


def _rate(one: Arm) -> str:
    rate = one.throughput
    return f"{rate.samples_per_s:,.0f} ({rate.low:,.0f}–{rate.high:,.0f})"


def _sources(found: EngineRun) -> Table:
    names: dict[Source, str] = {
        "ready": "batches that are ready",
        "torch": f"DataLoader, {counted(found.workers, 'worker')}",
        "ray": f"{printable(found.library)}, {_cores(found.cores)}",
    }
    costs = [one.core_s for one in found.arms]
    scale = seconds_scale([max((one for one in costs if one is not None), default=0.0)])
    rows = tuple(
        (
            names[one.source],
            f"{one.throughput.samples_per_s:,.0f}",
            f"{one.throughput.low:,.0f}–{one.throughput.high:,.0f}" if len(one.costs_s) >= LEAST_TOLD else "",
            percent(one.wait_share),
            scale.number(cost) if cost is not None else "",
            seconds(start) if (start := start_of(one)) is not None else "",
        )
        for one, cost in zip(found.arms, costs, strict=True)
    )
    headers = ("batches from", "images/s", "95 %", "waits", f"CPU {scale.unit}", "start of a pass")
    windows = len(found.arms[0].wait_shares) if found.arms else 0
    notes = (
        f"{windows} windows of each, in turns, batches of {found.batch_size}; consumer: {printable(found.consumer)}",
        *(("CPU: of all processes here, an image, the loop's own work included",) if any(costs) else ()),
    )
    return Table("One training loop, three sources", headers, rows, frozenset(range(1, 6)), notes, spare=(5,))


def _statistics(found: EngineRun) -> Iterator[Table]:
    """Seconds an image by the engine's own count, and by our clock where it has the same thing."""
    times = [(one, one.wall_s / one.rows, one.cpu_s) for one in found.operators if one.wall_s is not None and one.rows]
    waits = found.blocked if found.blocked is not None and found.operators and found.operators[-1].rows else None
    if not times:
        return
    images = times[-1][0].rows
    compared = [wall for _, wall, _ in times] + ([waits.ours_s / images] if waits else [])
    scale = seconds_scale([max(compared)])
    rows = []
    for one, wall, cpu in times:
        ours = found.whole_s if _OURS in one.name else None
        spent = scale.number(cpu / one.rows) if cpu is not None else ""
        rows.append(
            (printable(one.name), f"{one.rows:,}", scale.number(wall), spent, *_beside(wall, ours, scale.number))
        )
    if waits is not None:
        engine_s, ours_s = waits.engine_s / images, waits.ours_s / images
        rows.append(
            ("the loop's wait", f"{images:,}", scale.number(engine_s), "", *_beside(engine_s, ours_s, scale.number))
        )
    headers = ("operator", "images", f"{scale.unit}", "of it CPU", "ours", "Ray's / ours")
    title = "Ray's own statistics of the timed passes, an image, beside our clock"
    yield Table(title, headers, tuple(rows), frozenset(range(1, 6)))


def _beside(engine_s: float, ours_s: float | None, number: object) -> tuple[str, str]:
    if not ours_s:
        return "", ""
    assert callable(number)
    return number(ours_s), f"{engine_s / ours_s:.2f}×"


def _stages(found: EngineRun) -> Iterator[Part]:
    """Our clock inside the workers, in one line."""
    if not found.stages or found.whole_s is None:
        return
    scale = seconds_scale([found.whole_s])
    rest = max(0.0, found.whole_s - sum(one.s for one in found.stages))
    said = [f"{printable(one.name)} {scale.number(one.s)}" for one in found.stages]
    share = f", the rest of the function {scale.number(rest)}" if rest > _CLOSE * found.whole_s else ""
    yield Line(f"  Ours, inside the function, {scale.unit} an image: {', '.join(said)}{share}.")


def _said(found: EngineRun) -> Iterator[str]:
    """What was checked, where it ran, how it started, and what is odd."""
    if (outputs := found.outputs) is not None:
        yield (
            f"Checked: each of {counted(outputs.samples, 'sample')} of {counted(outputs.passes, 'pass', 'passes')} "
            f"came once; {counted(outputs.compared, 'sample')} made again here {_alike(outputs.different)}. "
            f"Order: {outputs.order}."
        )
    if found.lost:
        yield "Ray made again what was lost with it. The windows of the engine hold the time that this took."
    yield f"{_nodes(found)} Ray took {seconds(found.init_s)} to start, and {seconds(found.first_s)} to its first batch."
    if found.spilled_bytes:
        yield f"Ray wrote {size(found.spilled_bytes)} of its objects to disk: they did not fit its memory."
    if found.samples_failed:
        yield f"{counted(found.samples_failed, 'bad sample')}: left out of the batches, as by the DataLoader."
    yield from map(printable, found.notes)


def _alike(different: float) -> str:
    return "are the same to the bit" if not different else f"differ by up to {different:.2g} (normalised floats)"


def _cores(number: float) -> str:
    return "1 core" if number == 1 else f"{number:g} cores"


def _nodes(found: EngineRun) -> str:
    if found.local:
        return f"A cluster of its own on this machine, {_cores(found.cores)}."
    there = [one for one in found.nodes if not one.lost]
    sizes = ", ".join(f"{one.cores:g}{' (the trainer)' if one.trainer else ''}" for one in there)
    return f"{counted(len(there), 'node')} with cores: {sizes}."
