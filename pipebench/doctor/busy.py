"""Who else uses the cores: other processes here, and other guests of the hypervisor."""

from __future__ import annotations

from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.results.examination import Finding
from pipebench.results.measurement import FOREIGN_LIMIT, STEAL_LIMIT
from pipebench.units import percent

_HALF = 0.5  # of the usable cores
_MUCH_STEAL = 0.1
_STEAL = 7  # the place of this counter in a line of /proc/stat (proc_stat(5))
_IDLE = (3, 4)  # idle, and idle while something is read


@check
def load(host: Host) -> Finding:
    busy, _ = _shares(host)
    facts = {"busy_cores": busy * len(host.affinity), "share": busy}
    said = f"other processes use {busy * len(host.affinity):.1f} of {len(host.affinity)} cores"
    matters = "Workers wait for a core, and the readings of a measurement scatter."
    remedy, command = "end them, or come back when they have ended", "ps -eo pid,pcpu,comm --sort=-pcpu | head"
    if busy > _HALF:
        return hurts(said, matters, remedy, command, **facts)
    if busy > FOREIGN_LIMIT:
        return know(said, matters, remedy, command, **facts)
    return fine(said, **facts)


@check
def steal(host: Host) -> Finding:
    _, stolen = _shares(host)
    said = f"the hypervisor gave {percent(stolen)} of the cores' time to other guests"
    matters = "This time is missing in every row, at moments that nobody here chooses."
    remedy = "use a machine with cores of its own, or measure at another hour"
    if stolen > _MUCH_STEAL:
        return hurts(said, matters, remedy, "vmstat 1 10", share=stolen)
    if stolen > STEAL_LIMIT:
        return know(said, matters, remedy, "vmstat 1 10", share=stolen)
    return fine(said, share=stolen)


def _shares(host: Host) -> tuple[float, float]:
    """The shares of the last second in which the usable cores were busy, and in which they were stolen."""
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
