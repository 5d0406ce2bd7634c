"""Renders predictions: the answer, the settings, the error of the model where it is known, and the needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.render.one_machine import ends
from pipebench.results.costs import Passport
from pipebench.results.plan import Asked, Check, Need, Plan, Prediction
from pipebench.stats import NORMAL
from pipebench.units import counted, percent, printable, rate, rate_number, rate_scale, seconds_scale, size

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
_BUSY = 0.5  # threads of others: with fewer, a machine is quiet
_FITTED = 0.05  # an error below this, where the load was fitted: it cannot always be
_ROWS = 3  # around the best, if there is a table of needs too


def parts(found: Plan) -> list[Sparing]:
    """The predictions; in at most 30 lines of 80 columns without what can be spared."""
    made: list[Sparing] = [Line(verdict(found), "bold"), *map(Line, (*_rank(found), *_load(found))), _table(found)]
    if found.needs:
        said = ", ".join(f"{counted(one.workers, 'worker')} {_error(found, one)}" for one in found.checks)
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
    rates = f"{rate_number(best.samples_per_s.value)} ({_interval(best)}) samples/s"
    if found.wanted is None:
        return _rate(found, setting, rates)
    wanted = f"the {rate_number(found.wanted)} samples/s of {counted(found.asked.loops, 'device')}"
    if found.fed:
        return f"Predicted, not tried: {setting} would feed {wanted} ({rates})."
    first = _first(found)
    if found.fed is None:
        return f"Predicted, not tried: it cannot be told whether {setting} would feed {wanted} ({rates})."
    return f"Predicted, not tried: {setting} would not feed {wanted} ({rates}). First to end: {first}."


def _rate(found: Plan, setting: str, rates: str) -> str:
    """The answer where no consumer was named."""
    limit = _LIMITS[found.chosen.limit]
    then = f"Then {limit} would be the limit."
    if not found.is_present:
        than = f"{found.gain:.2f}× the present {_workers(found.workers)} by the same model"
        return f"Predicted, not tried: {rates} with {setting}, {than}. {then}"
    measured = f"which was measured at {rate_number(found.samples_per_s)}"
    if found.asked.workers is not None:
        return f"Predicted, not tried: {rates} with {setting}, the present setting, {measured}. {then}"
    return (
        f"Predicted, not tried: no number of workers brings more than the present {_workers(found.workers)} "
        f"({rates}, measured: {rate_number(found.samples_per_s)}). The limit: {limit}."
    )


def _workers(count: int) -> str:
    return counted(count, "worker") if count else "loader without workers"


def _rank(found: Plan) -> Iterator[str]:
    """What these figures are of, where one of several ranks was watched."""
    if found.part is not None:
        yield (
            "These figures are of one of several ranks: by what they use, its part of the "
            f"{_cores(found.asked.cores or found.cores)} is {_about(found.part)}{_carriers(found.asked)}. The other "
            "ranks are taken to get faster or slower as it does."
        )


def _carriers(asked: Asked) -> str:
    named = [name for name, have in (("storage", asked.storage), ("network", asked.network)) if have is not None]
    return f", and of the {' and the '.join(named)} it has as large a part" if named else ""


def _load(found: Plan) -> Iterator[str]:
    """What the load of the machine means for these figures; nothing where it was quiet and no load was asked for."""
    told = found.others_told or found.others
    busy, asked = told >= _BUSY, found.asked
    threads = f"about {_about(found.others)} threads of other processes wanted its {_cores(found.cores)}"
    again = "take the passport again when the machine is quiet"
    if asked.others is not None:
        yield f"Asked with {asked.others:g} threads of other processes that want a core."
    if busy and asked.others is None and asked.cores is None:
        yield (
            f"The machine was busy when this was watched: {threads}. These figures hold beside them only, and more "
            f"workers take core time from them. For a quiet machine: --others 0, or {again}."
        )
    elif busy:
        yield f"The costs are from a busy machine: {threads}. They may be too high: {again}."
    if found.others_told is not None and busy:
        yield (
            f"What others used, and waits for a core, told of {_about(found.others_told)} such threads. With so many "
            "the loop would have been slower than it was, so their number is fitted to the measured rate."
        )


def _about(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 else f"{count:.1f}"


def _cores(count: float) -> str:
    return f"{count:g} cores" if count != 1 else "1 core"


def _first(found: Plan) -> str:
    """The resource that allows the least besides the consumer itself."""
    limits = {name: value for name, value in found.chosen.limits.items() if name != "consumer"}
    return _LIMITS[min(limits, key=lambda one: limits[one])] if limits else _LIMITS[found.chosen.limit]


def _setting(found: Plan, one: Prediction) -> str:
    workers = counted(one.workers, "worker") if one.workers else "no workers"
    each = " for each device" if found.asked.loops > 1 else ""
    ahead = f" and prefetch_factor={one.prefetch_factor}" if found.asked.prefetch_factor else ""
    part = "" if found.part is None else f"{_about(found.part)} of "
    return f"{workers}{each}{ahead} on {part}{_cores(found.asked.cores or found.cores)}"


def _table(found: Plan) -> Table:
    first = max(0, found.best - _ROWS + 2) if found.needs else 0
    last = first + _ROWS if found.needs else None
    deep = len({one.prefetch_factor for one in found.predictions}) > 1  # else a note names it, where it was asked for
    rows = tuple(
        (
            ("→ " if place == found.best else "  ") + str(one.workers),
            str(one.prefetch_factor) if deep and one.workers else "",
            rate_number(one.samples_per_s.value),
            _interval(one),
            _LIMITS[one.limit],
        )
        for place, one in list(enumerate(found.predictions))[first:last]
    )
    notes = (_changes(found.asked),) if _changes(found.asked) else ()
    headers = ("workers", "prefetch", "samples/s", "95 %", "limit")
    return Table("Predicted, not tried", headers, rows, frozenset({0, 1, 2}), notes)


def _changes(asked: Asked) -> str:
    said = [f"{printable(name)} {factor:g}× as fast" for name, factor in asked.faster]
    if asked.prefetch_factor and asked.workers is None:
        said.append(f"prefetch_factor={asked.prefetch_factor}")
    if asked.consumer is not None:
        said.append(f"{counted(asked.loops, 'device')} of {rate_number(asked.consumer)} samples/s that need no core")
    if asked.storage is not None:
        said.append(f"storage of {rate(asked.storage)}")
    if asked.network is not None:
        said.append(f"network of {rate(asked.network)}")
    return f"With {', '.join(said)}." if said else ""


def _checks(found: Plan) -> Table:
    """The error of the same model on what was really run."""
    rows = tuple(
        (f"{one.workers}", _measured(one, one.measured), _measured(one, one.predicted), _error(found, one))
        for one in found.checks
    )
    note = _holds(found)
    return Table("The same model on what was run", ("workers", "measured", "model", "error"), rows, frozenset(range(4)),
                 (note,))  # fmt: skip


def _error(found: Plan, one: Check) -> str:
    """The error of the model; what it was fitted to is no check of it."""
    if one.of == "samples_per_s" and found.others_told is not None and abs(one.error) < _FITTED:
        return "fitted"
    return f"{100 * one.error:+.1f} %"


def _holds(found: Plan) -> str:
    return (
        f"Intervals hold ±{percent(NORMAL * found.model_error)} for the error of the model, and the scatter of batches."
    )


def _measured(one: Check, value: float) -> str:
    return f"{value:.2f}×" if one.of == "speedup" else f"{rate_number(value)} samples/s"


def _needs(found: Plan) -> Table:
    rows = tuple((_name(one), _amount(one), _have(one) + _on_average(found, one)) for one in found.needs)
    title = f"To feed {rate_number(found.wanted)} samples/s" if found.wanted is not None else ""
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


def _on_average(found: Plan, one: Need) -> str:
    """Where there are workers for the mean batch, and they are the limit: some batches are far slower than others."""
    return " on average" if one.resource == "workers" and one.enough and found.chosen.limit == "workers" else ""


def _assumed(found: Plan) -> Iterator[str]:
    """What every prediction of this plan takes for granted."""
    asked = found.asked
    if asked.loops > 1:
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
    own = own and found.asked.others is None
    return "Then: `pipebench advise SCRIPT` tries other numbers of workers." if own else _figures()


def _figures() -> str:
    return "How far such predictions were off: docs/figures/prediction.md."


def _interval(one: Prediction) -> str:
    if not one.checked:
        return "never checked"
    return f"{rate_number(one.samples_per_s.low)}–{rate_number(one.samples_per_s.high)}"


def passport(found: Passport) -> list[Part]:
    """What a passport holds: the costs of one batch."""
    costs = found.costs
    spent = (
        ("making it, CPU time", fmean(costs.cpu_s)),
        ("making it, blocked", fmean(costs.blocked_s)),
        ("pickling it", costs.feeder_cpu_s + costs.feeder_blocked_s),
        ("receiving it", costs.received_s),
        ("the loop's own work", fmean(costs.step_s)),
        *([("the device, at least", costs.device_s)] if costs.device_s else []),
    )
    scale = seconds_scale(value for _, value in spent)
    rows = tuple((name, scale.number(value)) for name, value in spent)
    on = _cores(found.cores)
    if found.shared_cores is not None:
        on = f"{_about(found.cores)} of {_cores(found.shared_cores)}, its part as one of several ranks"
    loader = counted(costs.workers, "worker") if costs.workers else "no workers"
    read = f"{size(costs.read_bytes / costs.samples)} are read for a sample." if costs.read_bytes else ""
    notes = (f"Taken with {loader} on {on}.", *([read] if read else []))
    title = f"Passport: costs of a batch of {costs.samples:g} samples"
    return [
        Table(title, ("part", scale.unit), rows, frozenset({1}), notes),
        "",
        "Then: `pipebench plan FILE --cores N --consumer RATE --devices N` predicts another machine.",
    ]
