"""Renders the images per second that the pipeline feeds, and the cores that a consumer needs: a sentence, a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.render.cells import Table
from pipebench.results.consumers import Consumer, Fed, Need, needed, points
from pipebench.results.report import Report
from pipebench.units import printable, width


def headline(report: Report) -> str | None:
    """The images per second that loading feeds, by cores, and what a consumer needs. None if no loader was measured."""
    fed = _points(report)
    if not fed:
        return None
    return " ".join([_feeds(fed, _cores(report)), *_held_up(fed[-1]), *_example(report, fed)])


def table(report: Report) -> Table | None:
    """A row for each consumer: its rate, and how many cores feed it. None if there is nothing to compare."""
    fed = _points(report)
    if not fed or not report.consumers:
        return None
    found = [(one, needed(fed, one, _cores(report))) for one in report.consumers]
    rows = tuple((_who(one), f"{one.images_per_s:,.0f}", _number(need), _basis(need)) for one, need in found)
    notes = (*_basis_notes(report, fed, [need for _, need in found]), *_over_hand_off(report), *_sources(report))
    return Table("Cores that feed a consumer", ("consumer", "images/s", "cores", ""), rows, frozenset({1, 2}), notes)


def _points(report: Report) -> tuple[Fed, ...]:
    return points(report.loader or (), report.training.loading.stream if report.training else False)


def _cores(report: Report) -> float | None:
    return report.machine.usable_cores if report.machine else None


def _feeds(fed: Sequence[Fed], cores: float | None) -> str:
    """The first two points and the last one."""
    first, *others = dict.fromkeys([*fed[:2], fed[-1]])
    said = [f"{_images(first)} images/s with {_of_cores(first.cores)}"]
    said += [f"{_images(one)} with {one.cores}" for one in others]
    every = cores is not None and fed[-1].cores == max(1, int(cores))
    return f"Loading feeds {_listed(said)}{', all that this machine has' if every else ''}."


def _images(one: Fed) -> str:
    return f"{one.rate.median:,.0f} ({width(one.rate.median, one.rate.low, one.rate.high)})"


def _of_cores(number: int) -> str:
    return f"{number} core" if number == 1 else f"{number} cores"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _held_up(last: Fed) -> Iterable[str]:
    """If others had part of the cores: why the rates differ from what a whole core feeds, and what that is."""
    if last.held_up and last.used is not None and last.used < last.cores - 0.05:  # else it would read "of 2, 2.0"
        core = last.of_a_core
        got = f"of {_of_cores(last.cores)} the loader got {last.used:.1f}"
        feeds = f"{core.median:,.0f} ({width(core.median, core.low, core.high)})"
        yield f"These rates are by the clock, and others had part of the cores: {got}."
        yield f"By CPU time, a core feeds {feeds}."


def _example(report: Report, fed: Sequence[Fed]) -> Iterable[str]:
    """A sentence about the consumer; of several, the slowest one that was not seen to be fed (else the fastest)."""
    ranked = sorted(report.consumers, key=lambda one: one.images_per_s)
    if not ranked:
        return
    pairs = [(one, needed(fed, one, _cores(report))) for one in ranked]
    one, need = next((pair for pair in pairs if pair[1].kind != "measured"), pairs[-1])
    rate = f"{one.images_per_s:,.0f} images/s"
    wants = _wants(need, _cores(report))
    if one.kind == "stated":
        yield f"A consumer of {rate} needs {wants}."
    elif one.kind == "measured":
        yield f"{printable(one.name)} takes {rate} when its batches are ready: it needs {wants}."
    else:
        yield f"For comparison: {printable(one.name)} on {printable(one.device)} takes {rate} and would need {wants}."


def _wants(need: Need, cores: float | None) -> str:
    if need.kind == "unreached":
        return "more than any number of cores fed here"
    if need.kind == "measured":
        return f"{_number(need)} core{'' if need.high == 1 else 's'}"
    here = "" if need.beyond is False or cores is None else f"; this machine has {cores:g}"
    interval = f"{_decimal(need.low)}–{_decimal(need.high)}"
    return f"{_decimal(need.cores or 0.0)} cores ({interval}, predicted){here}"


def _number(need: Need) -> str:
    if need.kind == "unreached":
        return ""
    if need.kind == "measured":
        return f"{need.high:g}" if need.low == need.high else f"{need.low:g} to {need.high:g}"
    return f"{_decimal(need.cores or 0.0)} ({_decimal(need.low)}–{_decimal(need.high)})"


def _decimal(cores: float) -> str:
    return f"{cores:.1f}" if cores < 9.95 else f"{cores:,.0f}"


def _who(one: Consumer) -> str:
    return ", ".join(printable(part) for part in (one.name, one.device, one.precision) if part)


def _basis(need: Need) -> str:
    if need.kind != "predicted":
        return {"measured": "measured", "unreached": "not reached"}[need.kind]
    return {True: "beyond here", None: "maybe beyond", False: "predicted"}[need.beyond]


def _basis_notes(report: Report, fed: Sequence[Fed], needs: Sequence[Need]) -> Iterable[str]:
    last, said = fed[-1], {_basis(one) for one in needs}
    if said - {"measured", "not reached"}:
        core = f"{last.of_a_core.median:,.0f} images/s"
        yield f"A predicted number is as if every core fed {core}, as here. Further cores often feed less."
    if (cores := _cores(report)) is not None and said & {"beyond here", "maybe beyond"}:
        yield f"beyond here: predicted; this machine has {cores:g} usable cores"
    if "not reached" in said:
        yield "not reached: no measured number of cores fed the rate, and the largest fed less than a smaller number"


def _over_hand_off(report: Report) -> Iterable[str]:
    """A note if a consumer takes more than the workers handed over when their samples were ready."""
    ready = [one for one in report.loader or () if one.dataset == "ready" and one.dtype == "float32"]
    most = max(ready, key=lambda one: one.images_per_s or 0.0, default=None)
    rate = (most.images_per_s if most else None) or 0.0
    if most is not None and rate and any(one.images_per_s > rate for one in report.consumers):
        yield (
            f"With its samples ready, a loader handed over at most {rate:,.0f} images/s here ({most.workers} workers, "
            "float32). Whether more cores feed a rate above that was not measured."
        )


def _sources(report: Report) -> Iterable[str]:
    """Where published rates come from, one line for each source."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in report.consumers:
        if one.kind == "published":
            found.setdefault((one.source, one.date, one.data), []).append(one.device)
    for (source, date, data), devices in found.items():
        where = ", ".join(dict.fromkeys(printable(one) for one in devices))
        yield f"{where}: {printable(source)}, {printable(date)}; images: {printable(data)}"
    if found:
        yield "The links are in the JSON. `--consumer` names your own training instead."
