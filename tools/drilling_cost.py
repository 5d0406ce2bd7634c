"""What the looks at a worker's stack cost: the same work in windows with looks and in windows without, side by side.

    python tools/drilling_cost.py run --seconds 140 --save docs/results/drilling_cost.jsonl
    python tools/drilling_cost.py report docs/results/drilling_cost.jsonl

A process does small pieces of work, counts them in shared memory, and tells where its stack lies. Windows come in
pairs, one with looks and one without, in random order. A window ends when the count, the clock and the CPU time of the
process are read at almost one moment. Two throughputs are compared: pieces per second, which other programs disturb,
and pieces per second of the process's own CPU time, which they disturb less. The first holds all that looks can cost.
The second holds what they cost the process itself. What they cost the reader, it measures by its own CPU clock.

Each run appends one line to the file. It needs no torch, so it runs on any interpreter that pipebench supports.
"""

import argparse
import json
import math
import mmap
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from drilling_bias import ROW, about, c_that_holds_the_lock, c_that_releases_the_lock, many_small_calls, pure_python

from pipebench.watch.launch.stacks import Frugal, StackReader
from pipebench.watch.record.exclusive_time import StageTimer
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import encoded
from pipebench.watch.worker.stack_place import FOLDER, place_of

WORK = (
    (pure_python, 1_500),
    (many_small_calls, 600),
    (c_that_holds_the_lock, 8_000),
    (c_that_releases_the_lock, 3_000),
)
AT_ONCE_S = 0.0002  # the clocks and the count of a window's end are read within this time
GROUP = 10  # pairs
LIMIT = 0.005  # of one core, and of throughput


class Moment(NamedTuple):
    """A window's end: the clock, the CPU time of the planted process and of this thread, the pieces and the looks."""

    at: float
    cpu: float
    own: float
    pieces: int
    looks: int


class Window(NamedTuple):
    """What happened in one window: seconds, CPU seconds of the planted process and of the reader, pieces and looks."""

    wall_s: float
    cpu_s: float
    own_s: float
    pieces: int
    looks: int


def item():
    for function, amount in WORK:
        function(amount)


@unseen
def fetch(timer, count):
    timer.switch(ROW)
    item()
    timer.switch(0)
    (done,) = struct.unpack_from("Q", count)
    struct.pack_into("Q", count, 0, done + 1)  # native: written at once


def plant(folder, seconds):
    """The planted process: works for some seconds, and counts the pieces in a file that both processes map."""
    timer, end = StageTimer(), time.perf_counter() + seconds
    with (Path(folder) / "count").open("r+b") as file, mmap.mmap(file.fileno(), 8) as count:
        told = Path(folder) / FOLDER / "planted"
        told.with_suffix(".part").write_bytes(encoded(place_of(timer, 1, 0)))
        told.with_suffix(".part").rename(told)
        while time.perf_counter() < end:
            fetch(timer, count)


class Watched:
    """A planted process, its clocks and the reader that may look at it."""

    def __init__(self, folder, seconds):
        (Path(folder) / "count").write_bytes(bytes(8))
        self.reader = StackReader(Path(folder))
        command = [sys.executable, __file__, "plant", os.fspath(folder), str(seconds)]
        self.process = subprocess.Popen(command)
        self.looked_s = 0.0  # CPU time of this thread for looks, waking up for them included
        self._clock = (~self.process.pid << 3) | 2  # the CPU clock of another process: clock_getcpuclockid(3)
        with (Path(folder) / "count").open("rb") as file:
            self._count = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def begin(self):
        """Waits until the process has told where its stack lies."""
        while not self.reader.found.of:
            time.sleep(0.05)
            self.reader.look()
        self.frugal, self.wait = Frugal(random.Random(), lambda: self.looked_s), 0.0

    def moment(self):
        while True:
            began, own = time.perf_counter(), time.thread_time()
            found = Moment(began, time.clock_gettime(self._clock), own, *struct.unpack_from("Q", self._count),
                           sum(map(len, self.reader.found.of.values())))  # fmt: skip
            if time.perf_counter() - began < AT_ONCE_S:
                return found

    def window(self, looking, seconds):
        """One window. Without looks, this thread sleeps all the time. With looks, the last wait goes on from before."""
        before = self.moment()
        while (left := before.at + seconds - time.perf_counter()) > 0:
            if not looking or self.wait > left:
                self.wait -= left * looking
                time.sleep(left)
            else:
                own = time.thread_time()
                time.sleep(self.wait)
                self.reader.look()
                self.looked_s += time.thread_time() - own
                self.wait = self.frugal.wait_s()
        return Window(*(after - early for early, after in zip(before, self.moment(), strict=True)))


def run(seconds, window_s):
    """One run: pairs of windows (without looks, with looks), until the planted process ends."""
    chance, pairs = random.Random(), []
    with tempfile.TemporaryDirectory() as folder:
        watched = Watched(folder, seconds)
        try:
            watched.begin()
            end = time.perf_counter() + seconds - 3 * window_s - 0.5
            while time.perf_counter() < end:
                first = chance.random() < 0.5
                pair = [watched.window(looking, window_s) for looking in (first, not first)]
                pairs.append(tuple(pair[::-1] if first else pair))
            if watched.process.poll() is not None:
                sys.exit("the planted process ended before the last window; the machine may have stood still")
        finally:
            watched.process.terminate()
            watched.process.wait()
    if watched.reader.found.refused is not None:
        sys.exit(f"the stack could not be read: {watched.reader.found.refused}")
    return {**about(), "window_s": window_s, "pairs": [[round_all(one) for one in pair] for pair in pairs]}


def round_all(window):
    return [round(value, 6) for value in window]


def interval(logs):
    """The ratio behind some logarithms: their mean without the fifth at either end, with its interval of 95 %.

    Other programs make some windows very slow, so the values at the ends are left out. The interval is Yuen's (1974),
    with a normal distribution: the standard deviation of the values, those at the ends moved to the nearest that is
    kept, over 0.6 of the root of their number.
    """
    cut, ordered = len(logs) // 5, sorted(logs)
    kept = ordered[cut : len(logs) - cut]
    moved = [kept[0]] * cut + kept + [kept[-1]] * cut
    middle, half = fmean(kept), 1.96 * stdev(moved) / 0.6 / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def speedups(pairs, clock):
    """The logarithm of throughput with looks over throughput without, of each group of neighbouring pairs.

    `clock` is the time that divides the pieces. In a single window the process may have had no core at all.
    """
    groups = [pairs[first : first + GROUP] for first in range(0, len(pairs) - GROUP + 1, GROUP)]
    return [math.log(rate([on for _, on in one], clock) / rate([off for off, _ in one], clock)) for one in groups]


def rate(windows, clock):
    return sum(one.pieces for one in windows) / sum(getattr(one, clock) for one in windows)


def pairs_of(lines):
    return [tuple(Window(*one) for one in pair) for line in lines for pair in line["pairs"]]


def report(lines):
    """The runs of a file as text, and all of them together."""
    for line in lines:
        yield f"{line['at']}, Python {line['python']}, load {line['load']:.1f}"
        yield from said(pairs_of([line]))
    if len(lines) > 1:
        yield f"all {len(lines)} runs"
        yield from said(pairs_of(lines))


def said(pairs):
    looking = [on for _, on in pairs]
    wall = sum(one.wall_s for one in looking)
    idle = sum(off.own_s for off, _ in pairs) / sum(off.wall_s for off, _ in pairs)
    yield f"  {len(pairs)} pairs of windows, {sum(one.looks for one in looking) / wall:.0f} looks a second"
    for clock, name in (("wall_s", "second"), ("cpu_s", "CPU second")):
        middle, low, high = interval(speedups(pairs, clock))
        shown = "no loss of 0.5 % is possible" if low > 1 - LIMIT else "a loss of 0.5 % is possible"
        yield f"  speed-up of work per {name} with looks: {middle:.4f} ({low:.4f} to {high:.4f}); {shown}"
    own = sum(one.own_s for one in looking) / wall
    yield f"  CPU time of the reader: {own:.2%} of one core; without looks {idle:.2%}"


def main():
    if sys.argv[1:2] == ["plant"]:
        plant(sys.argv[2], float(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--window", type=float, default=0.1)
    parser.add_argument("--save", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "report":
        lines = [json.loads(text) for text in chosen.file.read_text().splitlines()]
    else:
        lines = [run(chosen.seconds, chosen.window)]
        if chosen.save is not None:
            with chosen.save.open("a") as file:
                file.write(json.dumps(lines[0]) + "\n")
    sys.stdout.write("\n".join(report(lines)) + "\n")


if __name__ == "__main__":
    main()
