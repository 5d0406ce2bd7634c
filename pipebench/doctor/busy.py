"""Who else uses the cores: other processes here, and other guests of the hypervisor."""

from __future__ import annotations

import math

from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import OVER_S, Host
from pipebench.host.machine import FOREIGN_LIMIT, STEAL_LIMIT
from pipebench.results.examination import Finding
from pipebench.units import counted, percent

_HALF = 0.5  # of the usable cores
_MUCH_STEAL = 0.1
_STEAL = 7  # the place of this counter in a line of /proc/stat (proc_stat(5))
_IDLE = (3, 4)  # idle, and idle while something is read


@check
def load(host: Host) -> Finding:
    cores, (share, _) = len(host.affinity), _shares(host)
    busy = share * cores
    facts = {"busy_cores": busy, "share": share, "seconds": OVER_S}
    said = f"other processes used {busy:.1f} of {counted(cores, 'core')} in the last {OVER_S:g} s"
    matters = "Workers wait for a core, and the readings of a measurement scatter."
    remedy, command = "list them; end them, or come back later", "ps -eo pid,pcpu,comm --sort=-pcpu | head"
    if busy > _between(_HALF * cores):
        return hurts(said, matters, remedy, command, **facts)
    if busy > _between(FOREIGN_LIMIT * cores):
        return know(said, matters, remedy, command, **facts)
    return fine(said, **facts)


def _between(cores: float) -> float:
    """A limit of so many busy cores, moved halfway between whole numbers.

    Programs mostly use whole cores. With the limit at 1.0, one program would be found on this side of it and on that.
    """
    return math.floor(cores) + 0.5 if cores > 0.5 else cores


@check
def steal(host: Host) -> Finding:
    _, stolen = _shares(host)
    said = f"the hypervisor gave {percent(stolen)} of the cores' time in the last {OVER_S:g} s to other guests"
    matters = "This time is missing in every row, at moments that nobody here chooses."
    remedy = "use a machine with cores of its own, or measure at another hour"
    if stolen > _MUCH_STEAL:
        return hurts(said, matters, remedy, share=stolen)
    if stolen > STEAL_LIMIT:
        return know(said, matters, remedy, share=stolen)
    return fine(said, share=stolen)


def _shares(host: Host) -> tuple[float, float]:
    """The shares of the time watched in which the usable cores were busy, and in which they were stolen."""
    then, now = (_ticks(texts.get("proc/stat", ""), host.affinity) for texts in (host.earlier, host.later))
    passed = [one - other for one, other in zip(now, then, strict=True)]
    whole = sum(passed)
    if whole <= 0:
        raise NotKnown("the counters in /proc/stat stand still")
    stolen = passed[_STEAL]
    return (whole - stolen - sum(passed[one] for one in _IDLE)) / whole, stolen / whole


def _ticks(text: str, cores: frozenset[int]) -> list[int]:
    """The counters of these cores, added up. The time of guests is left out, because it is in that of users."""
    found = [0] * (_STEAL + 1)
    for line in text.splitlines():
        name, *numbers = line.split()
        if name.removeprefix("cpu").isdigit() and int(name[3:]) in cores:
            found = [sum(pair) for pair in zip(found, map(int, numbers), strict=False)]
    return found
