"""Runs `watch` and `run` in turn under random faults, and looks after each round for what is left and what is wrong.

    make soak                      20 minutes; SOAK_MINUTES=5 for less
    python tools/soak.py --minutes 5 --seed 7

Workers, ranks and measuring processes are killed and stopped, descriptors are few, the disk for temporary files fills
up. `watch` runs inside this process, so that what it leaks adds up here. A round says its fault before it begins, so
that a seed and a number of rounds repeat a run. The exit status is 1 if there was a breach; all are listed at the end.
The script's own result must be, bit for bit, that of a plain run (`tools/soak_script.py`).
"""

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import soak_checks as checks

ROOT = Path(__file__).absolute().parent.parent
SCRIPT = ROOT / "tools" / "soak_script.py"
MARK = ("PIPEBENCH_SOAK", f"{os.getpid()}-{time.time_ns()}")
PATIENCE_S = 240
SAMPLES, EPOCHS, WORKERS = 480, 3, 2
DISK_BYTES = 6 << 20
FEW_DESCRIPTORS = 96


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def plain(folder, *launch):
    """The result of the script without us."""
    result = folder / "plain"
    command = [*(launch or [sys.executable]), SCRIPT, result, str(WORKERS), str(EPOCHS)]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    return result.read_text()


class Round:
    """One command, its folder for temporary files, and the fault that a thread injects while it runs."""

    def __init__(self, folder, rng, fault):
        self.folder, self.rng, self.fault = folder, rng, fault
        self.temporary = folder / "t"
        self.temporary.mkdir(exist_ok=True)
        self.done = threading.Event()
        self.seen = set()
        self.said = []
        self.late = self.killed_script = False

    def descendants(self):
        with contextlib.suppress(psutil.Error):
            found = psutil.Process().children(recursive=True)
            self.seen.update(one.pid for one in found)
            return found
        return []

    def __enter__(self):
        self._thread = threading.Thread(target=self._inject, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self._thread.join(10)

    def _inject(self):
        end, due = time.monotonic() + PATIENCE_S, time.monotonic() + self.rng.uniform(2.0, 9.0)
        acted = self.fault == "none"
        while not self.done.wait(0.05):
            found = self.descendants()
            if time.monotonic() > end:
                self.late = True
                for one in found:
                    with contextlib.suppress(psutil.Error):
                        one.kill()
            if not acted and time.monotonic() > due and (victims := self._victims(found)):
                acted = True
                self._act(self.rng.choice(victims))

    def _victims(self, found):
        """The processes that a fault is for: those that record as workers or ranks; of a disk, there must be one."""
        records = {int(path.name.partition("-")[0]) for path in self.temporary.rglob("*.spans")}
        if self.fault.startswith("run"):
            return [one for one in found if one.pid in self.seen and self._depth(one) > 1]
        return [one for one in found if one.pid in records and (self._depth(one) > 1 or "script" in self.fault)]

    def _depth(self, one):
        with contextlib.suppress(psutil.Error):
            return [parent.pid for parent in one.parents()].index(os.getpid()) + 1
        return 0

    def _act(self, victim):
        self.said.append(f"{self.fault} at process {victim.pid}")
        self.killed_script = self.fault == "kill script" and self._depth(victim) == 1
        with contextlib.suppress(psutil.Error, OSError):
            if "kill" in self.fault:
                victim.kill()
            elif "stop" in self.fault:
                victim.suspend()
                time.sleep(self.rng.uniform(0.2, 2.5))
                victim.resume()
            elif "disk" in self.fault:
                self._fill()

    def _fill(self):
        filling = self.temporary / "filling"
        with contextlib.suppress(OSError), filling.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        time.sleep(self.rng.uniform(0.2, 1.5))
        filling.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(place):
    """A disk of `DISK_BYTES` at `place`."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=False)


@contextlib.contextmanager
def few_descriptors():
    """Few descriptors for what is started: this process has its own already."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_DESCRIPTORS, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def temporary(place):
    """`place` is the folder for temporary files, here and in what is started."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"], tempfile.tempdir = str(place), None
    try:
        yield
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


def watched(this, ranks):
    """One watched run in this process. Returns its exit status and the report, None if there is none."""
    from pipebench.commands.watch import saved_at
    from pipebench.watch.command import watch
    from pipebench.watch.record.options import WatchOptions

    result, place = this.folder / "result", this.folder / "report.json"
    for one in (result, place):
        one.unlink(missing_ok=True)
    argv = [str(SCRIPT), str(result), str(WORKERS), str(EPOCHS)]
    if ranks:
        argv = [sys.executable, *RANKS, *argv]
    with open(this.folder / "said", "w") as said, contextlib.redirect_stderr(said), quiet(this.folder / "script"):
        status = watch(WatchOptions(command=ranks), argv, saved_at(place))
    return status, json.loads(place.read_text()) if place.exists() else None


RANKS = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


@contextlib.contextmanager
def quiet(place):
    """What is started writes to a file."""
    kept = os.dup(1), os.dup(2)
    with open(place, "wb") as file:
        os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, one in enumerate(kept, 1):
            os.dup2(one, number)
            os.close(one)


def watch_round(this, expected):
    """The breaches of a watched run."""
    ranks = "rank" in this.fault
    status, report = watched(this, ranks)
    result = this.folder / "result"
    found = result.read_text() if result.exists() else None
    may_fail = any(one in this.fault for one in ("kill", "few"))
    yield from checks.of_result(expected[ranks], found, status, may_fail, this.killed_script)
    if report is None:
        if "disk" not in this.fault:
            yield f"there is no report: {(this.folder / 'said').read_text()[-300:]}"
    elif not ranks:
        yield from checks.of_watched(report["watched"], SAMPLES * EPOCHS)
        if this.said and "kill worker" in this.fault and found is None and not report["partial"]:
            yield "a worker was killed, and the report is not partial"


def run_round(this, _expected):
    """The breaches of a run of the lab."""
    place = this.folder / "report.json"
    place.unlink(missing_ok=True)
    options = ["--data", "tiny", "--stage", "decode", "--variant", "pillow", "--variant", "opencv", "--quick"]
    command = [sys.executable, "-m", "pipebench", "run", *options, "--export-json", place]
    with open(this.folder / "said", "w+b") as said:
        status = subprocess.run(command, stdout=said, stderr=said, cwd=ROOT, check=False).returncode
        said.seek(0)
        text = said.read().decode(errors="replace")
    if "Traceback" in text or status not in (0, 1):
        yield f"run ended with status {status}: {text[-300:]}"
    if place.exists():
        yield from checks.of_run(json.loads(place.read_text()))
    elif status == 0:
        yield "run saved no report"


FAULTS = {
    "none": watch_round,
    "kill worker": watch_round,
    "stop worker": watch_round,
    "stop script": watch_round,
    "kill script": watch_round,
    "few descriptors": watch_round,
    "disk fills": watch_round,
    "kill rank": watch_round,
    "stop rank": watch_round,
    "run": run_round,
    "run, kill": run_round,
    "run, stop": run_round,
}


def one_round(folder, rng, fault, expected, before):
    """The breaches of one round, what was injected, and the state after it."""
    this = Round(folder, rng, fault)
    with contextlib.ExitStack() as around:
        if "disk" in fault:
            around.enter_context(small_disk(this.temporary))
        if "few" in fault:
            around.enter_context(few_descriptors())
        around.enter_context(temporary(this.temporary))
        around.enter_context(this)
        breaches = list(FAULTS[fault](this, expected))
    if this.late:
        breaches.append(f"it did not end within {PATIENCE_S} s")
    left, now = checks.settled(before, lambda: checks.state([this.temporary], MARK, this.seen))
    for pid in now.processes:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)  # a leak is counted once
    return breaches + left, this.said, now


def soak(minutes, seed, folder, faults):
    """Rounds until the time is over. Returns every breach, and how many rounds of each fault there were."""
    rng, end, number = random.Random(seed), time.monotonic() + 60 * minutes, 0
    found, rounds, rss = [], Counter(), []
    torchrun = [sys.executable, *RANKS]
    expected = {False: plain(folder), True: plain(folder, *torchrun) if any("rank" in one for one in faults) else ""}
    one_round(folder, random.Random(0), "none", expected, checks.State(10**6, 10**6))  # what is imported once
    before = checks.state([folder / "t"], MARK, set())
    while time.monotonic() < end:
        fault, number = rng.choice(faults), number + 1
        say(f"{time.strftime('%H:%M:%S')} round {number}: {fault}")
        breaches, said, now = one_round(folder, random.Random(rng.random()), fault, expected, before)
        rss.append(now.rss_bytes)
        rounds[fault] += 1
        for one in breaches:
            found.append(f"round {number}, {fault} ({'; '.join(said) or 'nothing injected'}): {one}")
            say(f"  breach: {one}")
    return [*found, *checks.growth(rss)], rounds, rss


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", action="append", choices=list(FAULTS), help="Only this fault (may be repeated).")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    os.environ[MARK[0]] = MARK[1]
    faults = [one for one in chosen.only or FAULTS if "disk" not in one or os.geteuid() == 0]
    say(f"seed {seed}, {chosen.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="pb-", dir="/tmp") as folder:
        os.environ["PIPEBENCH_CACHE"] = str(Path(folder) / "c")
        breaches, rounds, rss = soak(chosen.minutes, seed, Path(folder), faults)
    say(f"{sum(rounds.values())} rounds with seed {seed}: {dict(rounds)}")
    say(f"memory of the driver: {rss[0] / 1e6:.0f} MB after the first round, {rss[-1] / 1e6:.0f} MB after the last")
    say("\n".join(["breaches:", *breaches] if breaches else ["no breach"]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
