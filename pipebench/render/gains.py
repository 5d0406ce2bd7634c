"""What the variants of a run gain, and on which of the files, where a variant is not made for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.results import usual_pipeline
from pipebench.results.measurement import UNFIT, Measurement, why_unfit
from pipebench.results.report import Report
from pipebench.units import counted, printable


def verdict(report: Report) -> str:
    """The largest gain of a variant; if there is none, how many variants were not run. Their reasons stand below."""
    one = usual_pipeline.gain(report.measurements)
    if one is not None and one.over_reference is not None:
        where = f" on the {fit(one)} files that both do" if one.samples_unfit else ""
        times = f"{one.over_reference.speedup:.2f}× as fast as the reference{where}"
        return f"Largest gain: {printable(one.task)}, where {printable(one.variant)} is {times}."
    if not usual_pipeline.gains(report.measurements):
        return "No comparison is possible: no reference variant was measured on this data."
    if skipped := usual_pipeline.left_out(report.measurements):
        return (
            "No measurable gain among the variants that ran: none that does the same is measurably faster than its "
            f"reference. {counted(len(skipped), 'variant')} did not run."
        )
    return "No measurable gain: no variant that does the same is measurably faster than its reference."


def as_fast(best: Measurement, others: Sequence[Measurement]) -> str:
    """That the fastest variant of a task is not told from some others."""
    names = ", ".join(printable(one.variant) for one in others)
    return f"{printable(best.task)}: no measurable difference between {printable(best.variant)} and {names}"


def fit(one: Measurement) -> str:
    """Of how many samples a variant that is not made for all was timed."""
    return f"{one.samples_common:,} of {one.samples_attempted:,}"


def not_the_fastest(report: Report) -> Iterable[str]:
    """Which variants a summary cannot name although they were timed, because they are not made for all files."""
    names: dict[str, dict[str, None]] = {}
    for one in report.measurements:
        if one.samples_unfit and one.summary:
            names.setdefault(fit(one), {})[printable(one.variant)] = None
    if names:
        without = "; ".join(f"{', '.join(found)} ({where})" for where, found in names.items())
        yield f"Fastest of the variants that do all files, so without {without}."


def on_part(report: Report, found: Sequence[Measurement]) -> Iterable[str]:
    """What the files are that some variants are not made for; those with the same files share a line."""
    names: dict[str, list[str]] = {}
    for one in found:
        if one.samples_unfit and one.summary:
            mine = (bad for bad in report.bad_samples if (bad.task, bad.variant) == (one.task, one.variant))
            why = why_unfit(bad for bad in mine if bad.reference_did and bad.kind in UNFIT)
            names.setdefault(f"{fit(one)} files; of the others, {printable(why)}", []).append(printable(one.variant))
    for where, variants in names.items():
        yield f"{', '.join(variants)}: timed, and compared with the reference, on {where}"
