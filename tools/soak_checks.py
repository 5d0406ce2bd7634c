"""What must be as before after each round of `tools/soak.py`, and what a report must say. Each breach is one line."""

import gc
import os
import re
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

SHARED = Path("/dev/shm")
# What a killed process of the script leaves. `tmp` and eight characters: when a batch does not come, torch's DataLoader
# opens ten temporary files, to see whether descriptors are left (`_try_get_data`). The end of a worker raises in there.
# torchrun's meeting is such a file too. No file or folder of pipebench has such a name (tests/tools/test_soak.py).
NOT_OURS = re.compile(r"torchinductor|torchelastic|pymp-|tmp[a-z0-9_]{8}$")
SETTLING_S = 10.0  # the ends of processes are seen late on a busy machine
GROWTH_BYTES, GROWTH = 24 << 20, 0.10  # of the driver's memory, between the first and the last third of the rounds
WALL = 0.01  # the rows of an account may differ from its wall time by so much


@dataclass
class State:
    """What is held at one moment: by this process, in its folders, and by the processes that carry its mark."""

    descriptors: int = 0
    threads: int = 0
    rss_bytes: int = 0
    files: set = field(default_factory=set)
    processes: dict = field(default_factory=dict)
    shared: set = field(default_factory=set)


def state(folders, mark, ours):
    """The state now. `mark` is a variable with its value in the environment of what we started, `ours` its pids."""
    gc.collect()
    return State(
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        psutil.Process().memory_info().rss,
        {path for folder in folders for path in files(folder)},
        marked(mark),
        {one.name for one in SHARED.iterdir() if of_ours(one.name, ours)} if SHARED.exists() else set(),
    )


def files(folder):
    for parent, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not NOT_OURS.match(one)]
        yield from (os.path.join(parent, one) for one in [*names, *folders] if not NOT_OURS.match(one))


def of_ours(name, ours):
    """Whether a name in shared memory is of one of our processes: torch names it after the process."""
    return any(part.isdigit() and int(part) in ours for part in name.split("_"))


def marked(mark):
    """Every other process with the mark in its environment."""
    found = {}
    for one in psutil.process_iter():
        try:
            if one.pid != os.getpid() and one.environ().get(mark[0]) == mark[1] and one.status() != "zombie":
                found[one.pid] = " ".join(one.cmdline())[:80]
        except psutil.Error:
            continue
    return found


def leaks(before, now):
    """What is held now and was not before. Memory is judged over many rounds, by `growth`."""
    if now.descriptors > before.descriptors:
        yield f"{now.descriptors - before.descriptors} more descriptors are open"
    if now.threads > before.threads:
        yield f"{now.threads - before.threads} more threads run"
    for kind in ("files", "shared"):
        for one in sorted(getattr(now, kind) - getattr(before, kind))[:5]:
            yield f"left in {'shared memory' if kind == 'shared' else 'a folder'}: {one}"
    for pid in sorted(set(now.processes) - set(before.processes)):
        yield f"process {pid} is left: {now.processes[pid]}"


def settled(before, look, patience_s=SETTLING_S, pause=time.sleep):
    """The leaks that stay, and the last state. `look` gives the state."""
    end = time.monotonic() + patience_s
    while (found := list(leaks(before, now := look()))) and time.monotonic() < end:
        pause(0.25)
    return found, now


def growth(rss_bytes):
    """What the memory of the driver says over all rounds: a breach if the last third needs much more than the first."""
    third = len(rss_bytes) // 3
    if not third:
        return
    first, last = median(rss_bytes[:third]), median(rss_bytes[-third:])
    if last - first > max(GROWTH_BYTES, GROWTH * first):
        yield f"the driver's memory grew from {first / 1e6:.0f} to {last / 1e6:.0f} MB"


def of_result(expected, found, status, may_fail, killed=False):
    """What the script's own result says: that of a plain run, or none where it was killed.

    A script that `may_fail` can do so when it has its result already: a kill does not ask how far it is. A script that
    was `killed` has the status of SIGKILL, if it had not ended by itself.
    """
    if found is not None and found != expected:
        yield f"the script's result is {found[:12]}, and {expected[:12]} in a plain run"
    if found is None and not may_fail:
        yield f"the script has no result; its status is {status}"
    if (found is None) == (status == 0) and (found is None or not may_fail):
        yield f"the status is {status}, and the script {'has no' if found is None else 'has a'} result"
    if killed and status not in (0, 128 + signal.SIGKILL):
        yield f"the script was killed, and the status is {status}"


def of_watched(watched, samples):
    """Counts of a watched run that do not add up, from the report as plain JSON. A whole run has so many samples."""
    for one in watched["loaders"]:
        made = sum(worker["samples"] for worker in watched["workers"] if worker["loader"] == one["loader"])
        if made != one["samples"]:
            yield f"the workers made {made} samples, and the loader counts {one['samples']}"
    counted = sum(one["samples"] for one in watched["loaders"])
    whole = watched["complete"] and not watched["status"]
    if counted > samples or (whole and counted != samples):
        yield f"{counted} samples are counted, of {samples}"
    account = watched.get("account")
    if account is not None:
        rows = sum(one["s"] for one in account["rows"])
        if abs(rows - account["wall_s"]) > WALL * account["wall_s"]:
            yield f"the rows of the account add up to {rows:.3f} s of {account['wall_s']:.3f} s"
    if faults := [one for one in watched["notes"] if one["code"] in ("fault", "fault-outside")]:
        yield f"faults of pipebench: {faults}"


def of_run(root):
    """Counts of a report of `run` that do not add up."""
    for one in root["measurements"]:
        name = f"{one['task']}/{one['variant']}"
        if one["samples_failed"] > one["samples_attempted"]:
            yield f"{name}: {one['samples_failed']} samples failed of {one['samples_attempted']}"
        if sum(one["readings_per_process"]) != len(one["readings_s"]):
            yield f"{name}: the readings of its processes are not all its readings"
