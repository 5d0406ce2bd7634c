"""A watched run as text: the verdict first, then tables. Pure; everything that comes from data is made inert."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.render import watch_details
from pipebench.results.watched import BoundResult, LoaderResult, StageResult, WatchResult
from pipebench.stats import Speedup
from pipebench.units import Scale, counted, percent, printable, seconds, seconds_scale

_SMALLEST_SHARE = 0.0005


def render(result: WatchResult) -> str:
    """The whole report. Ends with what was not seen."""
    parts = [printable(result.verdict)]
    if result.next_move:
        parts.append(f"Next: {printable(result.next_move)}.")
    parts += bound_lines(result.bound) if result.bound is not None else []
    for one in result.loaders:
        parts += _stages(one, [stage for stage in result.stages if stage.loader == one.loader])
    parts += _loop(result)
    parts += _apart(result)
    parts += _slowest(result)
    parts += [f"Note: {printable(note)}." for note in result.notes]
    return "\n".join(part.rstrip() for part in parts) + "\n"


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 2) -> list[str]:
    """Aligned columns; the first `left` are text, the others numbers."""
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    return ["", title, line(headers), "-" * len(line(["-" * width for width in widths])), *(line(row) for row in rows)]


def _loader_name(one: LoaderResult) -> str:
    how = f"{counted(one.workers, 'worker')}, {one.start_method}" if one.workers else "no workers"
    batch = f", batch {one.batch_size}" if one.batch_size else ""
    return f"loader {one.loader}: {printable(one.dataset)}{batch}, {printable(how)}"


def _stages(loader: LoaderResult, stages: list[StageResult]) -> list[str]:
    shown = [one for one in stages if one.worker_share >= _SMALLEST_SHARE]
    if not shown:
        return []
    scale = seconds_scale([max(one.exclusive_s_per_sample for one in shown)])
    rows = [
        (
            printable(one.name),
            "read + decode" if one.includes_read else one.kind,
            scale.number(one.exclusive_s_per_sample),
            scale.number(one.cpu_s_per_sample) if one.cpu_s_per_sample is not None else "",
            percent(one.worker_share, 1) if one.kind != "serialise" else "apart",
            _spread(one, scale),
        )
        for one in shown
    ]
    headers = ("stage", "kind", f"{scale.unit}/sample", "on CPU", "of worker time", "least–most of a worker")
    title = f"Inside {_loader_name(loader)} ({loader.samples:,} samples, exclusive time)"
    return _table(title, headers, rows) + _samples(loader)


def _spread(one: StageResult, scale: Scale) -> str:
    if one.least_s_per_sample is None or one.most_s_per_sample is None:
        return ""
    return f"{scale.number(one.least_s_per_sample)}–{scale.number(one.most_s_per_sample)}"


def _samples(one: LoaderResult) -> list[str]:
    if one.sample_p50_s is None or one.sample_p95_s is None or one.sample_p99_s is None:
        return []
    scale = seconds_scale([one.sample_p50_s])
    on_cpu = f"; {scale.number(one.sample_cpu_s)} on the CPU on average" if one.sample_cpu_s is not None else ""
    return [
        f"A sample: p50 {scale.number(one.sample_p50_s)}, p95 {scale.number(one.sample_p95_s)}, "
        f"p99 {scale.text(one.sample_p99_s)}{on_cpu}"
    ]


def _loop(result: WatchResult) -> list[str]:
    if not result.loop:
        return []
    whole = sum(one.s_per_iteration for one in result.loop)
    scale = seconds_scale([whole])
    rows = [
        (one.phase, scale.number(one.s_per_iteration), percent(one.share, 1))
        for one in result.loop
        if one.s_per_iteration or one.phase == "wait"
    ]
    rows.append(("all", scale.number(whole), ""))
    which = ", ".join(str(one) for one in result.loaders_in_loop)
    title = f"The loop over loader {which} ({result.iterations:,} iterations)"
    lines = _table(title, ("phase", f"{scale.unit}/iteration", "share"), rows, left=1) + watch_details.iterations(
        result
    )
    if result.device_idle is not None:
        idle = result.device_idle
        lines.append(f"The device was idle {seconds(idle.s_per_iteration)} of each wait ({percent(idle.share, 1)}).")
    return lines


def _apart(result: WatchResult) -> list[str]:
    """Start-up, loaders outside the training loop, workers, hand-off: a line each."""
    lines = [""]
    for one in result.loaders:
        if one.startup_s is not None:
            later = f"; in later passes after {seconds(one.later_startup_s)}" if one.later_startup_s else ""
            ends = f"; a pass ends in {seconds(one.pass_end_s)}" if one.workers and one.pass_end_s else ""
            lines.append(f"Start-up of {_loader_name(one)}: first batch after {seconds(one.startup_s)}{later}{ends}")
        if one.loader not in result.loaders_in_loop and one.s_per_iteration and one.wait_s_per_iteration is not None:
            lines.append(
                f"Outside the training loop, {_loader_name(one)}: {one.iterations:,} iterations of "
                f"{seconds(one.s_per_iteration)}, of which {seconds(one.wait_s_per_iteration)} waiting"
            )
    lines += [watch_details.worker(one) for one in result.workers]
    if result.hand_off is not None:
        lines += watch_details.hand_off(result.hand_off)
    if result.host is not None and result.loaders:
        lines += watch_details.host(result.host, result.usable_cores)
    return lines


def _slowest(result: WatchResult) -> Iterable[str]:
    if not result.slowest:
        return []
    scale = seconds_scale([result.slowest[0].s])
    rows = [(printable(one.name), f"loader {one.loader}", scale.number(one.s)) for one in result.slowest[:5]]
    return _table("Slowest samples", ("sample", "", scale.unit), rows)


def bound_lines(found: BoundResult) -> list[str]:
    """What the report says of it, for the lines under the verdict."""
    notes = [f"Bound: {printable(note)}." for note in found.notes]
    if found.bound_over_live is None or found.live is None or found.bound is None:
        return ["The bound was not measured.", *notes]
    replays = [one for one in (found.bound_over_live, found.busy_over_live) if one]
    best = found.device_over_live or max(replays, key=lambda one: one.speedup)
    lines = [
        f"Removing all data work could buy at most {_times(best)}. {found.live.samples_per_s:,.0f} samples/s live; "
        f"{_rates(found)} ({found.rounds} rounds of {found.window} batches, loader {found.loader})."
    ]
    if not best.told:
        lines.append("That cannot be told from nothing.")
    elif best.speedup < 1:
        lines.append("Replays were slower than live: something else had the machine. Measure again.")
    elif best.confidence < 0.95:
        lines.append(f"With so few rounds the interval has {best.confidence:.0%} confidence.")
    return [*lines, *notes, "The tables are of live iterations; the rows of workers are of the whole run."]


def _rates(found: BoundResult) -> str:
    parts = []
    for rate, gain, what in (
        (found.bound, found.bound_over_live, "with its batches ready"),
        (found.bound_busy, found.busy_over_live, "with workers as busy as live"),
        (found.bound_device, found.device_over_live, "with batches on the device"),
    ):
        if rate is not None and gain is not None:
            parts.append(f"{rate.samples_per_s:,.0f} {what}, {_times(gain)}")
    return "; ".join(parts)


def _times(gain: Speedup) -> str:
    return f"{gain.speedup:.2f}× ({gain.low:.2f}–{gain.high:.2f})"
