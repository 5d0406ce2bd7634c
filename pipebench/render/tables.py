"""Turns a report into a verdict and tables of strings, before layout. Numbers are scaled, and text is inert."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.errors import BadSample
from pipebench.host.known_bad import known_bad
from pipebench.render import check, consumers, feeding, gains, stage_sum
from pipebench.render.cells import Table, gain, spread
from pipebench.results import usual_pipeline
from pipebench.results.measurement import EXCEEDED, NOISE, USUAL_PROCESSES, Ceiling, Measurement, Warning
from pipebench.results.report import Report
from pipebench.results.usual_pipeline import PIPELINE, per_sample_s
from pipebench.stats import width_of
from pipebench.task import OPEN_FILES
from pipebench.units import count_scale, of_images, percent, printable, rate_scale, seconds_scale

LOADERS_COLLATE = "default"  # the variant that a loader without workers uses


def timed(report: Report, task_id: str) -> list[Measurement]:
    return usual_pipeline.timed(report.measurements, task_id)


def task_ids(report: Report) -> list[str]:
    return list(dict.fromkeys(one.task for one in report.measurements))


def verdict(report: Report, full: bool = True) -> str:
    """How much the pipeline feeds, whether training waits if the user named its consumer, and what the stages say.

    `full` adds how the sum of the stages stands beside the loader.
    """
    fed = consumers.headline(report)
    lines = [fed] if fed else []
    if report.training and (report.training.given or report.training.simulated):
        lines.append(feeding.waiting(report.training))
    return "\n".join([*lines, _of_stages(report, full)])


def _of_stages(report: Report, full: bool) -> str:
    """The throughput of one core through the usual pipeline, its costliest task, and that of the fastest variants."""
    core = usual_pipeline.one_core(report.measurements)
    if core is None:
        return gains.verdict(report)
    if not full:
        stages = ", ".join(task_id.partition("/")[0] for task_id in PIPELINE)
        return (
            f"One core: {1 / core.usual_s:,.0f} samples/s through {stages}, written in the usual way ({core.costliest} "
            f"takes {percent(core.share)}); {1 / core.fastest_s:,.0f} with the fastest variants (stages in isolation, "
            "added up)."
        )
    said = (
        f"One core: {1 / core.usual_s:,.0f} samples/s through {', '.join(PIPELINE)}, written in the usual way; "
        f"{core.costliest} takes {percent(core.share)} of that time. "
        f"With the fastest variant of each task that gives nothing up: {1 / core.fastest_s:,.0f} samples/s "
        "(the sum of stages that were measured in isolation)."
    )
    usual = [one for task_id in PIPELINE for one in usual_pipeline.reference(report.measurements, task_id)]
    alone = [one for one in timed(report, PIPELINE[-1]) if one.variant == LOADERS_COLLATE]
    beside = stage_sum.gap([*usual[:-1], *alone], report.loader or ()) if alone else ""
    return f"{said} {beside}".rstrip()


def ceilings(report: Report) -> Table:
    found = [one for one in report.ceilings if one.bytes_per_s and (one.bounds or not one.way)]
    scale = rate_scale([one.bytes_per_s for one in found if one.bytes_per_s])
    rows = [
        (printable(one.resource), printable(one.task), scale.number(one.bytes_per_s or 0), _per_second(one))
        for one in found
    ]
    missing = [
        f"{printable(one.resource)} ({printable(one.task)}): {printable(_why_not(one))}"
        for one in report.ceilings
        if not one.bytes_per_s
    ]
    ways = [note for one in found for note in _ways(report, one)]
    return Table(
        "Ceilings of this machine",
        ("resource", "task", scale.unit, "samples/s"),
        tuple(rows),
        frozenset({2, 3}),
        tuple(dict.fromkeys([*ways, *missing])),
    )


def _ways(report: Report, chosen: Ceiling) -> Iterable[str]:
    """Which way to reach its resource was the fastest, and whether a variant exceeds it."""
    alike, name = (chosen.resource, chosen.task), f"{printable(chosen.resource)} ({printable(chosen.task)})"
    others = [one for one in report.ceilings if (one.resource, one.task) == alike and one is not chosen]
    slower = [f"{printable(one.way)}: {gain(one.over_bound)}" for one in others if one.way and one.over_bound]
    if chosen.way and slower:
        yield f"{name}: {printable(chosen.way)}, the fastest way here; {', '.join(slower)}"
    for warning in chosen.warnings:
        if warning.code == EXCEEDED:
            yield f"{name}: {printable(warning.problem)}; {printable(warning.remedy)}"


def _why_not(one: Ceiling) -> str:
    if one.skipped:
        return one.skipped.reason
    cold = next(
        (f"{warning.problem}; {warning.remedy}" for warning in one.warnings if warning.code == "not-cold"), None
    )
    return one.failed or cold or "there was no data to measure it on"


def _per_second(one: Ceiling) -> str:
    return f"{one.samples_per_s:,.0f}" if one.samples_per_s and one.work and one.work.samples else ""


def of_task(report: Report, task_id: str) -> Table:
    """One row for each variant of a task that was tried, and a note for each that was skipped or needs one."""
    found = [one for one in report.measurements if one.task == task_id]
    costs = [per_sample_s(one) for one in found if one.summary]
    seconds = seconds_scale(costs)
    rates = count_scale([1 / cost for cost in costs])
    rows = []
    for one in found:
        name = printable(one.variant)
        if one.skipped:
            continue
        if one.summary is None or one.work is None:
            rows.append((name, _status(one), "", "", "", "", "", _failed(one)))
            continue
        rows.append(
            (
                name,
                seconds.number(per_sample_s(one)),
                spread(one.summary),
                rates.number(1 / per_sample_s(one)),
                gain(one.over_reference),
                _share(one),
                gains.fit(one) if one.samples_unfit else "",
                _failed(one),
            )
        )
    headers = (
        "variant",
        f"{seconds.unit}/sample",
        "",
        f"{rates.unit} samples/s".strip(),
        "× reference",
        "of ceiling",
        "files",
        "bad",
    )
    notes = (*_notes(found), *gains.on_part(report, found))
    return Table(_title(found[0]), headers, tuple(rows), frozenset({1, 2, 3, 4, 5, 6, 7}), notes, (3, 2, 5))


def _share(one: Measurement) -> str:
    """The share of the ceiling; `~100 %` if the row is faster, but not measurably."""
    if one.fraction_of_ceiling is None:
        return ""
    return percent(one.fraction_of_ceiling) if one.fraction_of_ceiling <= 1 else "~100 %"


def _title(one: Measurement) -> str:
    batch = "" if one.stage in ("read", "decode", "crop", "video") else f", batch {one.workload.batch_size}"
    side = f" of {one.workload.crop_size}×{one.workload.crop_size}" if one.workload.crop_size else ""
    cache = f", {one.workload.cache} cache" if one.stage in OPEN_FILES else ""
    return f"{printable(one.task)}{batch}{side}{cache}"


def _status(one: Measurement) -> str:
    return "failed" if one.failed else "not run"


def _failed(one: Measurement) -> str:
    bad = _kept(one)
    return f"{bad}/{one.samples_attempted}" if bad else ""


def _kept(one: Measurement) -> int:
    """The samples that a variant could not do, and that are kept from the others because of it."""
    return one.samples_failed - one.samples_unfit


def _few(found: Sequence[Measurement]) -> Iterable[str]:
    """A note if less than half of the samples can be processed by every variant, so that all were timed on few."""
    tried = max((one.samples_attempted for one in found), default=0)
    common = max((one.samples_common for one in found), default=0)
    if 0 < common < tried / 2:
        limits = max(found, key=lambda one: (one.samples_failed < one.samples_attempted, _kept(one)))
        yield (
            f"timed on {common} of {tried} samples, those that every variant can process; {printable(limits.variant)} "
            f"failed on {_kept(limits)}: leave it out with --variant to time the others"
        )


def _notes(found: Sequence[Measurement]) -> Iterable[str]:
    """The notes of a task's table. Rows with the same note share a line. Each kind of warning shows its worst case."""
    yield from _few(found)
    said: dict[str, list[str]] = {}
    warned: dict[str, list[tuple[Warning, str]]] = {}
    for one in found:
        for note in _said(one):
            said.setdefault(note, []).append(printable(one.variant))
        for warning in one.warnings:
            if warning.code not in NOISE:  # that is said once for the whole report
                warned.setdefault(warning.code, []).append((warning, printable(one.variant)))
    for note, names in said.items():
        yield f"{', '.join(names)}: {note}"
    for rows in warned.values():
        worst, name = max(rows, key=lambda row: row[0].severity)
        others = len(rows) - 1
        where = "all rows" if len({row[0].problem for row in rows}) == 1 < len(rows) else name
        rest = f" (and {others} more rows)" if others and where == name else ""
        yield f"{where}: {printable(worst.problem)}{rest}; {printable(worst.remedy)}"


def _said(one: Measurement) -> Iterable[str]:
    if one.library:
        yield printable(one.library)
    if one.gives_up:
        yield f"gives up {printable(one.gives_up)}"
    if one.samples_unlike > one.samples_unfit and one.summary:
        few = f"{one.samples_unlike - one.samples_unfit} of {one.samples_attempted} samples"
        yield f"does not do {few} as the reference does, so it is not called the fastest; timed on others"
    if one.skipped:
        yield f"skipped ({printable(one.skipped.code)}): {printable(one.skipped.reason)}"
    if one.failed:
        yield f"failed: {printable(one.failed)}"


def summary(report: Report, full: bool = True) -> Table:
    """One row for each task, with the fastest variant that gives nothing up.

    Where others are not measurably slower, a note has them if `full`, else the name has a mark (`*`).

    The row has the variant's speed-up over the reference, and its speed as a share of the ceiling.
    """
    best = usual_pipeline.best(report.measurements)
    seconds = seconds_scale([per_sample_s(one) for one in best])
    ties = {one.task: usual_pipeline.ties(report.measurements, one) for one in best}
    rows = [
        (
            printable(one.task),
            printable(one.variant) + ("" if full or not ties[one.task] else " *"),
            seconds.number(per_sample_s(one)),
            gain(one.over_reference),
            _share(one),
        )
        for one in best
    ]
    headers = ("task", "fastest variant", f"{seconds.unit}/sample", "× reference", "of ceiling")
    notes = [gains.as_fast(one, ties[one.task]) for one in best if full and ties[one.task]]
    notes += gains.not_the_fastest(report) if full else []
    return Table("Summary", headers, tuple(rows), frozenset({2, 3, 4}), tuple(notes), (4, 2))


def heading(report: Report) -> list[str]:
    """A few lines: the machine, the data, and what the intervals mean."""
    data, lines = report.data, _host(report)
    if data is not None:
        lines.append(
            f"{printable(data.name)}: {data.images:,} images, "
            + of_images(data.mean_bytes, data.bits_per_pixel, data.bits_per_pixel_sd)
        )
        tried = max((one.samples_attempted for one in report.measurements if one.stage == "decode"), default=0)
        lines += check.in_a_line(data.noticed)
        if 0 < tried < data.images and not (report.workload and report.workload.quick):
            lines.append(f"Tried on {tried:,} of them, spread over all. `pipebench check` looks at each.")
    return [*lines, *intervals(report)]


def partial(report: Report) -> list[str]:
    """A line if the run did not reach its end."""
    cause = f": {printable(report.failure)}" if report.failure else "."
    return [f"This report is partial: the run did not finish{cause}"] if report.partial else []


def intervals(report: Report) -> list[str]:
    """What the intervals of the tables mean, and what --quick costs; an empty list without any interval."""
    counts = [max(1, len(one.readings_per_process)) for one in report.measurements if one.summary]
    if not counts:
        return []
    least, most = min(counts), max(counts)
    if most == 1:
        return ["± and (low–high): 95 % intervals for one process. Another run can lie outside of them."]
    number = f"{least} to {most}" if least < most else f"{most}"
    runs = f" and {report.between_runs.runs} runs here" if report.between_runs else ""
    lines = [f"± and (low–high): 95 % intervals for the figure of another run, from {number} processes a row{runs}."]
    if any(spread(one.summary).startswith("×") for one in report.measurements if one.summary):
        lines.append("×÷4 is from a quarter of the figure to four times it.")
    if report.loader or report.training:
        lines.append("Those of the loader and of training are for this run: another can lie outside of them.")
    if not runs and not report.partial:
        lines.append("How much runs differ here is not known yet, and not in them: the first run with these settings.")
    if report.workload is not None and report.workload.quick and 1 < most < USUAL_PROCESSES:
        lines += _of_quick(report, most)
    return lines


def _of_quick(report: Report, processes: int) -> Iterable[str]:
    if report.between_runs is None:
        times = width_of(processes) / width_of(USUAL_PROCESSES)
        yield (
            f"Without --quick, up to {USUAL_PROCESSES} processes would give intervals up to {times:.1f} times as "
            "narrow. Slow tasks get fewer."
        )
    if report.loader and report.training is None and not report.partial:
        yield "--quick leaves out thp, training beside its bound, and loaders of uint8, packed and webdataset."


def _host(report: Report) -> list[str]:
    """The machine and its libraries; an empty list if the report does not name them."""
    if (machine := report.machine) is None:
        return []
    versions = ", ".join(f"{printable(name)} {printable(version)}" for name, version in machine.libraries.items())
    return [
        f"{printable(machine.cpu)}, {machine.usable_cores:g} usable cores, {printable(machine.system)}",
        f"Python {printable(machine.python)}, {versions}",
        *(
            f"Known not to work: {one.what}. {one.remedy[:1].upper()}{one.remedy[1:]} ({one.source})."
            for one in known_bad(machine.libraries)
            if one.fails
        ),
    ]


def bad_samples(report: Report, most: int = 12) -> list[str]:
    """Each bad sample once, with the first reason that was given and the number of rows that it affected.

    Samples that the reference did are good: see `unlike_samples`.
    """
    return _with_reasons([(one, _reason(one)) for one in report.bad_samples if not one.reference_did], most)


def unlike_samples(report: Report) -> list[str]:
    """Each sample that the reference did, and some variant did not or did otherwise: the variant, and why."""
    broken = {one.sample for one in report.bad_samples if not one.reference_did}
    found = [one for one in report.bad_samples if one.sample not in broken]
    return _with_reasons([(one, f"{one.variant}: {_reason(one)}") for one in found], 6)


def _reason(one: BadSample) -> str:
    return one.message if one.message.lower().startswith(one.kind.replace("-", " ")) else f"{one.kind}: {one.message}"


def _with_reasons(found: Sequence[tuple[BadSample, str]], most: int) -> list[str]:
    """Each sample once, with the first of its reasons and the number of rows that it affected; `most` of them."""
    reasons: dict[str, list[str]] = {}
    for one, reason in found:
        reasons.setdefault(one.sample, []).append(reason)
    lines = [
        f"{printable(sample)}: {printable(said[0])}" + (f" ({len(said)} rows)" if len(said) > 1 else "")
        for sample, said in reasons.items()
    ]
    more = [f"and {len(lines) - most} more, all in the JSON"] if len(lines) > most else []
    return lines[:most] + more


def all_tables(report: Report) -> Sequence[Table]:
    """The tables in order: ceilings, every task, their summary, the loader, its consumers, and training."""
    every = [of_task(report, task_id) for task_id in task_ids(report)]
    found = [one for one in every if one.rows]
    first = [ceilings(report)] if report.ceilings else []
    return [*first, *found, summary(report), *fed(report)]


def fed(report: Report) -> list[Table]:
    """The tables of the loader, its consumers, and training."""
    made = [feeding.loader(report)] if report.loader else []
    made += [feeders] if (feeders := consumers.table(report)) else []
    return [*made, *([feeding.training(report.training)] if report.training else [])]
