"""Renders predictions: the answer, the settings, the error of the model where it is known, and the needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.render.one_machine import ends
from pipebench.results.costs import Passport
from pipebench.results.plan import Asked, Check, Figure, Need, Plan, Prediction
from pipebench.stats import NORMAL
from pipebench.units import counted, percent, printable, rate, rate_scale, seconds_scale, size

_LIMITS = {
    "workers": "the workers",
    "cores": "the cores",
    "loop": "the loop itself",
    "pin": "the pin-memory thread",
    "consumer": "the consumer",
    "storage": "the storage",
    "network": "the network",
}
_ASSUMED = {
    "cores": "a core is as fast as here",
    "workers": "a worker is blocked as long",
    "storage": "no sample is cached (never checked)",
    "network": "all that is read crosses it (never checked)",
}
_ROWS = 3  # around the best, if there is a table of needs too


def parts(found: Plan) -> list[Sparing]:
    """The predictions; in at most 30 lines of 80 columns without what can be spared."""
    made: list[Sparing] = [Line(verdict(found), "bold"), _table(found)]
    if found.needs:
        said = ", ".join(map(_checked, found.checks))
        made += [_needs(found), "", f"The same model on what was run: {said}. {_holds(found)}"]
    else:
        made.append(_checks(found))
    made += ["", *(Line(line) for line in ends(found))]
    made.append(Spare(("", " ".join(_assumed(found)))) if found.one_machine else " ".join(_assumed(found)))
    return made


def verdict(found: Plan) -> str:
    """The answer in a sentence or two. It always says that nothing was tried."""
    best = found.chosen
    setting = _setting(found, best)
    rates = f"{_figure(best.samples_per_s)} samples/s"
    if found.wanted is None:
        gain = best.samples_per_s.value / found.samples_per_s
        than = f", {gain:.2f}× the watched run" if found.asked.consumer is None else ""
        return f"Predicted, not tried: {rates} with {setting}{than}. Then {_LIMITS[best.limit]} would be the limit."
    wanted = f"the {found.wanted:,.0f} samples/s of {counted(found.asked.devices, 'device')}"
    if found.fed:
        return f"Predicted, not tried: {setting} would feed {wanted} ({rates})."
    first = _first(found)
    if found.fed is None:
        return f"Predicted, not tried: it cannot be told whether {setting} would feed {wanted} ({rates})."
    return f"Predicted, not tried: {setting} would not feed {wanted} ({rates}). First to end: {first}."


def _first(found: Plan) -> str:
    """The resource that allows the least besides the consumer itself."""
    limits = {name: value for name, value in found.chosen.limits.items() if name != "consumer"}
    return _LIMITS[min(limits, key=lambda one: limits[one])] if limits else _LIMITS[found.chosen.limit]


def _setting(found: Plan, one: Prediction) -> str:
    workers = counted(one.workers, "worker") if one.workers else "no workers"
    each = " for each device" if found.asked.devices > 1 else ""
    cores = found.asked.cores or found.cores
    return f"{workers}{each} on {cores:g} cores" if cores != 1 else f"{workers}{each} on 1 core"


def _table(found: Plan) -> Table:
    first = max(0, found.best - _ROWS + 2) if found.needs else 0
    last = first + _ROWS if found.needs else None
    rows = tuple(
        (
            ("→ " if place == found.best else "  ") + str(one.workers),
            f"{one.samples_per_s.value:,.0f}",
            f"{one.samples_per_s.low:,.0f}–{one.samples_per_s.high:,.0f}",
            _LIMITS[one.limit],
        )
        for place, one in list(enumerate(found.predictions))[first:last]
    )
    notes = (_changes(found.asked),) if _changes(found.asked) else ()
    return Table("Predicted, not tried", ("workers", "samples/s", "95 %", "limit"), rows, frozenset({0, 1}), notes)


def _changes(asked: Asked) -> str:
    said = [f"{printable(name)} {factor:g}× as fast" for name, factor in asked.faster]
    if asked.prefetch_factor:
        said.append(f"prefetch_factor={asked.prefetch_factor}")
    if asked.consumer is not None:
        said.append(f"{counted(asked.devices, 'device')} of {asked.consumer:,.0f} samples/s that need no core")
    if asked.storage is not None:
        said.append(f"storage of {rate(asked.storage)}")
    if asked.network is not None:
        said.append(f"network of {rate(asked.network)}")
    return f"With {', '.join(said)}." if said else ""


def _checks(found: Plan) -> Table:
    """The error of the same model on what was really run."""
    rows = tuple(
        (f"{one.workers}", _measured(one, one.measured), _measured(one, one.predicted), f"{100 * one.error:+.1f} %")
        for one in found.checks
    )
    note = _holds(found)
    return Table("The same model on what was run", ("workers", "measured", "model", "error"), rows, frozenset(range(4)),
                 (note,))  # fmt: skip


def _checked(one: Check) -> str:
    return f"{counted(one.workers, 'worker')} {100 * one.error:+.1f} %"


def _holds(found: Plan) -> str:
    return (
        f"Intervals hold ±{percent(NORMAL * found.model_error)} for the error of the model, and the scatter of batches."
    )


def _measured(one: Check, value: float) -> str:
    return f"{value:.2f}×" if one.of == "speedup" else f"{value:,.0f} samples/s"


def _needs(found: Plan) -> Table:
    rows = tuple((_name(one), _amount(one), _have(one)) for one in found.needs)
    title = f"To feed {found.wanted:,.0f} samples/s" if found.wanted is not None else ""
    assumed = ", ".join(_ASSUMED[one.resource] for one in found.needs if one.resource in _ASSUMED)
    return Table(title, ("resource", "needed (95 %)", "there"), rows, frozenset(), (f"If {assumed}.",))


def _name(one: Need) -> str:
    return {"workers": "workers of a device", "shared-memory": "shared memory"}.get(one.resource, one.resource)


def _amount(one: Need) -> str:
    if one.resource == "shared-memory":
        return size(one.needed.value)
    if one.resource in ("storage", "network"):
        scale = rate_scale([one.needed.low])
        return f"{scale.number(one.needed.low, 2)}–{scale.text(one.needed.high, 2)}"
    return f"{one.needed.low:,.1f}–{one.needed.high:,.1f}"


def _have(one: Need) -> str:
    if one.available is None:
        return "?"
    have = rate(one.available) if one.resource in ("storage", "network") else f"{one.available:g}"
    return have + {True: ": enough", False: ": too little", None: ": cannot tell"}[one.enough]


def _assumed(found: Plan) -> Iterator[str]:
    """What every prediction of this plan takes for granted."""
    asked = found.asked
    if asked.devices > 1:
        yield f"The {asked.devices} devices share the cores evenly, each with a process and a loader of its own."
    if asked.cores is not None and asked.cores > found.cores:
        yield f"Costs are from {found.cores:g} cores. Shared caches and memory may make {asked.cores:g} cores slower."
    if found.from_alone:
        yield "The watched loader had no workers: the cost of handing a batch over is assumed (2 ms)."
    if found.unread and (asked.storage or asked.network):
        yield "The bytes of a sample are not known, so storage and network were not considered."
    yield _next(found)


def _next(found: Plan) -> str:
    own = found.asked.cores is None and found.asked.consumer is None and not found.asked.faster
    return "Then: `pipebench advise SCRIPT` tries other numbers of workers." if own else _figures()


def _figures() -> str:
    return "How far such predictions were off: docs/figures/prediction.md."


def _figure(one: Figure) -> str:
    return f"{one.value:,.0f} ({one.low:,.0f}–{one.high:,.0f})"


def passport(found: Passport) -> list[Part]:
    """What a passport holds: the costs of one batch."""
    costs = found.costs
    spent = (
        ("making it, CPU time", fmean(costs.cpu_s)),
        ("making it, blocked", fmean(costs.blocked_s)),
        ("pickling it", costs.feeder_cpu_s + costs.feeder_blocked_s),
        ("receiving it", costs.received_s),
        ("the loop's own work", fmean(costs.step_s)),
    )
    scale = seconds_scale(value for _, value in spent)
    rows = tuple((name, scale.number(value)) for name, value in spent)
    loader = counted(costs.workers, "worker") if costs.workers else "no workers"
    read = f"{size(costs.read_bytes / costs.samples)} are read for a sample." if costs.read_bytes else ""
    notes = (f"Taken with {loader} on {found.cores:g} cores.", *([read] if read else []))
    title = f"Passport: costs of a batch of {costs.samples:g} samples"
    return [
        Table(title, ("part", scale.unit), rows, frozenset({1}), notes),
        "",
        "Then: `pipebench plan FILE --cores N --consumer RATE --devices N` predicts another machine.",
    ]
