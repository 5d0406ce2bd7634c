"""The cores: how many may be used, whether a quota stops them, and how they choose their clock rate."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.host import cgroups
from pipebench.results.examination import Finding
from pipebench.units import counted, percent

OFTEN = 0.01  # of the periods of a quota, since the group began
_DYNAMIC = ("intel_pstate", "amd-pstate-epp")  # with these drivers, `powersave` still follows the load


@check
def cores(host: Host) -> Finding:
    allowed, quota = len(host.affinity), cgroups.cpu_quota(host.root)
    facts = {"affinity": allowed, "usable": host.cores}
    if host.cores < 2:
        return hurts(
            "1 core is usable" if host.cores == 1 else f"{host.cores:g} cores are usable",
            "Workers and the training loop take turns on it, so that workers bring nothing.",
            "allow more cores (taskset, docker run --cpus, the scheduler's job)",
            "",
            **facts,
        )
    if quota < allowed:
        return know(
            f"a quota allows {quota:g} of {allowed} cores",
            "Libraries see all cores and start as many threads. The kernel stops them all when the quota is used up.",
            "start no more threads than the quota has whole cores",
            f"export OMP_NUM_THREADS={math.floor(quota)}",
            **facts,
        )
    return fine(f"{allowed} are usable", **facts)


@check
def throttling(host: Host) -> Finding:
    quota = cgroups.cpu_quota(host.root)
    if math.isinf(quota):
        return fine("no quota")
    stopped, periods = max(_stops(host), default=(0, 0))
    matters = "Then all threads of the group stand still until the next period, also those that feed the device."
    remedy, command = f"raise the quota of {quota:g} cores, or use fewer workers and threads", _raised(host)
    if stopped:
        found = f"the quota stopped this group in {stopped} of the last {counted(periods, 'period')}"
        return hurts(found, matters, remedy, command, stopped=stopped, periods=periods)
    before, all_of_them = max(_ever(host), default=(0, 0))
    if all_of_them and before / all_of_them > OFTEN:
        found = f"the quota stopped this group in {percent(before / all_of_them)} of all periods since it began"
        return know(found, matters, remedy, command, stopped=before, periods=all_of_them)
    return fine("not now", stopped=before, periods=all_of_them)


def _raised(host: Host) -> str:
    """The command that raises the quota, to be run outside."""
    return host.in_container(f"update --cpus {len(host.affinity)} CONTAINER")


def _stops(host: Host) -> Iterator[tuple[int, int]]:
    """How often a quota stopped each group while it was watched, and in how many periods."""
    for path, text in host.later.items():
        now, then = cgroups.counts(text), cgroups.counts(host.earlier.get(path, ""))
        if "nr_throttled" in now and "nr_throttled" in then:
            yield now["nr_throttled"] - then["nr_throttled"], now["nr_periods"] - then["nr_periods"]


def _ever(host: Host) -> Iterator[tuple[int, int]]:
    for text in host.later.values():
        if "nr_throttled" in (now := cgroups.counts(text)):
            yield now["nr_throttled"], now["nr_periods"]


@check
def governor(host: Host) -> Finding:
    files = sorted(host.root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
    found = sorted({one.read_text().strip() for one in files})
    if not found:
        raise NotKnown("the system shows no frequencies, as most virtual machines")
    if found == ["performance"]:
        return fine("performance")
    driver = files[0].with_name("scaling_driver").read_text().strip()
    said = f"the clock rate is chosen by {' and '.join(found)} (driver {driver})"
    command = "sudo cpupower frequency-set -g performance"
    if "powersave" in found and driver not in _DYNAMIC:
        return hurts(said, "It keeps the cores at their lowest rate.", "choose `performance`", command)
    matters = "The rate follows the load with a delay, so that timings of the same work differ."
    return know(said, matters, "choose `performance` while you measure", command)
