"""Says where one machine ends, what would have to be sent from others, and what to run then. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipebench.results.plan import Figure, Need, OneMachine, Plan
from pipebench.units import rate_number, rate_scale, size

_COMMAND = "pipebench run --engine ray --ray-address HOST:6379"


def ends(found: Plan) -> Iterator[str]:
    """Two or three lines. The command is named only where cores of other machines would help. Nothing if not known."""
    one = found.one_machine
    if one is None:
        return
    ranks = f", and {round(one.devices, 1):g} ranks share them" if found.part is not None else ""
    yield f"{_cores(one, found)}{ranks} (if a core is as fast as here)."
    if one.cores.enough is False:
        unknown = "Never checked: network, storage, an engine's own cost."
        yield f"CPU-only nodes with {_range(one.lacking)} cores {_sent(one)} {unknown}"
        yield _then(one)


def _cores(one: OneMachine, found: Plan) -> str:
    """How many cores a device needs, how many the machine has, and how many devices these feed."""
    cores = one.cores.available or 0.0
    own = found.asked.consumer is None
    device, several = ("the loop, if it never waited,", "such loops") if own else ("a device", "devices")
    word = {
        True: "The cores of one machine suffice" if found.fed is False else "One machine suffices",
        False: "One machine ends",
        None: "Whether one machine suffices cannot be told",
    }
    return (
        f"{word[one.cores.enough]}: {device} takes {rate_number(one.device)} samples/s and needs "
        f"{_range(one.per_device)} cores. The {cores:g} here feed {_range(one.fed)} {several}"
    )


def _sent(one: OneMachine) -> str:
    """What crosses the network: samples as they are read, and as they are sent to the trainer."""
    said = []
    if one.encoded is not None:
        said.append(f"read {_rate(one.encoded)} (encoded)")
    if one.decoded is not None:
        each = size(one.decoded.needed.value / (one.device * one.devices))
        said.append(f"send {_rate(one.decoded)} (finished, {each} a sample)")
    return f"would {' and '.join(said)}." if said else "would be needed; the size of a sample is not known."


def _then(one: OneMachine) -> str:
    """The command, or why it would not help."""
    have = one.cores.available or 0.0
    if one.moving_helps:
        return f"Then: `{_COMMAND}` (docs/commands/run.md)."
    short = [
        name for name, need in (("storage", one.encoded), ("network", one.decoded)) if need and need.enough is False
    ]
    if short:
        paths = f"{' and the '.join(short)} named here {'is' if len(short) == 1 else 'are'} too slow"
        return f"Other machines would not help: the {paths}."
    if one.stays.low > have:
        return f"Other machines would not help: the loops' own work needs {_range(one.stays)} cores here."
    return f"Whether other machines help cannot be told: the loops' own work needs {_range(one.stays)} cores here."


def _rate(need: Need) -> str:
    scale = rate_scale([need.needed.low])
    text = f"{scale.number(need.needed.low, 2)}–{scale.text(need.needed.high, 2)}"
    there = {True: "", False: ", too much,", None: ""}[need.enough]
    return f"{text}{there}"


def _range(one: Figure) -> str:
    if one.high >= 100:
        return f"{one.low:,.0f}–{one.high:,.0f}"
    return f"{one.low:.1f}–{one.high:.1f}" if one.high >= 1 else f"{one.low:.2g}–{one.high:.2g}"
