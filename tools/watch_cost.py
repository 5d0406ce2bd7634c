"""Measures what `pipebench watch` costs, on the programs of `real_packages.py` and on waiting workers.

    python tools/watch_cost.py [--pairs N] [--samples N] [--times N] [--python PYTHON] [NAME...]
    python tools/watch_cost.py --epochs 24 --samples 8 [--python PYTHON] [NAME...]    # in one process

Programs run plainly and watched, in pairs of random order. Compared are the CPU seconds of the whole command with all
its processes, how long it took, and two figures of its settled iterations: how long twenty of them take (the median),
and the slowest of a hundred. Settled are the last three quarters of the steps of the optimiser. With `--samples N` a
pass has N times as many samples, and with `--times N` a run N times as many passes. A script has one thread: of
several, those that wait for another one spin, and CPU seconds would then tell the load of the machine.

Two processes that do the same differ by more than watching costs. So with `--epochs` a program runs once, and its
epochs are watched or not, in pairs of random order (`programs/clocked`). An epoch starts its workers anew. The
first pair is left out. What the process that looks from outside takes is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from math import expm1, log, sqrt
from pathlib import Path
from statistics import mean, median, quantiles, stdev
from typing import Any

sys.path.insert(0, os.fspath(Path(__file__).absolute().parent))

import real_packages
from real_packages import Done, Place, Program
from real_scripts import table

from pipebench.stats import compare, student

BLOCK = 20  # iterations: a start of a pass is in few of the blocks
CLOCKED = real_packages.HERE / "clocked"
WAITING = (
    *(
        Program(f"{workers} waiting workers", "many_workers.py", "torch", "Remote", arguments=(str(workers),))
        for workers in (2, 32)
    ),
    *(
        Program(
            f"{ranks} ranks with 2 waiting workers each",
            "many_workers.py",
            "torch",
            "Remote",
            arguments=("2",),
            launcher=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)),
        )
        for ranks in (2, 8)
    ),
)
HEADS = (
    "program", "pairs", "CPU plain, s", "more", "interval", "wall, s", "more", "interval", "settled, ms", "more",
    "interval", "p99, ms", "watched", "load",
)  # fmt: skip
EPOCH_HEADS = (
    "program", "pairs of epochs", "iterations", "CPU plain, ms", "more", "interval", "wall, ms", "more", "interval",
    "p99, ms", "watched", "load",
)  # fmt: skip


def settled(steps: Sequence[float]) -> tuple[float, float]:
    """Seconds of a settled iteration, as the median block has it, and the 99th percentile of single ones.

    `steps`: when the steps ended, in seconds. Raises `ValueError` if the last three quarters hold no two blocks.
    """
    late = steps[len(steps) // 4 :]
    blocks = [(end - begin) / BLOCK for begin, end in zip(late[::BLOCK], late[BLOCK::BLOCK], strict=False)]
    if len(blocks) < 2:
        raise ValueError(f"{len(steps)} steps are too few: raise --samples or --times")
    each = [end - begin for begin, end in pairwise(late)]
    return median(blocks), _slowest(each)


def _slowest(each: Sequence[float]) -> float:
    """The 99th percentile."""
    return quantiles(each, n=100, method="inclusive")[98]


def once(place: Place, one: Program, watched: bool) -> tuple[Done, float, float]:
    """One run, and its settled iterations."""
    with tempfile.TemporaryDirectory(dir=place.results) as folder:
        os.environ["STEPS_IN"] = folder
        done = real_packages.run(place, one, watched)
        if done.returncode:
            raise SystemExit(f"{one.name} failed:\n{done.stderr[-2000:]}")
        found = [json.loads(file.read_text()) for file in sorted(Path(folder).glob("*.json"))]
    return done, *settled(max(found, key=len, default=[]))


def row(place: Place, one: Program, pairs: int) -> list[str]:
    """The cells of a program. What is more has a 95 % interval."""
    chance = random.Random(7)
    ran: dict[bool, list[tuple[Done, float, float]]] = {False: [], True: []}
    real_packages.warm(place, one)
    for number in range(pairs):
        for watched in chance.sample((False, True), 2):
            ran[watched].append(once(place, one, watched))
        sys.stderr.write(f"{one.name}: pair {number + 1} of {pairs}\n")
    cpu, wall, iteration = (
        [[found(one) for one in ran[watched]] for watched in (False, True)]
        for found in (lambda one: one[0].cpu_s, lambda one: one[0].wall_s, lambda one: one[1])
    )
    slowest = [1e3 * median(one[2] for one in ran[watched]) for watched in (False, True)]
    return [
        one.name, str(pairs), f"{mean(cpu[0]):.1f}", *_more(*cpu), f"{mean(wall[0]):.1f}", *_more(*wall),
        f"{1e3 * mean(iteration[0]):.2f}", *_more(*iteration), *(f"{value:.1f}" for value in slowest),
        f"{os.getloadavg()[0]:.1f}",
    ]  # fmt: skip


def of_epochs(epochs: Sequence[dict[str, Any]]) -> list[str]:
    """The cells of a program whose epochs were watched in turns. Figures are of an iteration.

    Raises `ValueError` if a watched epoch was not seen, or if there are no two pairs after the first.
    """
    if lost := [one for one in epochs if one["watched"] and one["seen"] < len(one["steps"]) / 2]:
        raise ValueError(f"{len(lost)} watched epochs were not seen")
    plain, watched = ([one for one in epochs if one["watched"] is kind][1:] for kind in (False, True))
    pairs = min(len(plain), len(watched))
    if pairs < 2:
        raise ValueError(f"{len(epochs)} epochs are too few: raise --epochs")
    of = plain[:pairs], watched[:pairs]
    cpu, wall = ([[one[name] / len(one["steps"]) for one in kind] for kind in of] for name in ("cpu_s", "wall_s"))
    slowest = [_slowest([end - begin for one in kind for begin, end in pairwise(one["steps"])]) for kind in of]
    return [
        str(pairs), str(sum(len(one["steps"]) for one in of[0])), f"{1e3 * mean(cpu[0]):.2f}", *_paired(*cpu),
        f"{1e3 * mean(wall[0]):.2f}", *_paired(*wall), *(f"{1e3 * value:.1f}" for value in slowest),
    ]  # fmt: skip


def _paired(plain: Sequence[float], watched: Sequence[float]) -> list[str]:
    """How much more the watched one of a pair takes: the mean of the logarithms, with its interval by Student's t."""
    logs = [log(more / less) for less, more in zip(plain, watched, strict=True)]
    half = student(0.95, len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    found = [f"{expm1(mean(logs) + side):+.1%}" for side in (0, -half, half)]
    return [found[0], f"{found[1]} to {found[2]}"]


def in_turns(place: Place, one: Program) -> list[str]:
    """The cells of a program that runs once, its epochs watched in turns."""
    if one.launcher:
        raise SystemExit(f"{one.name}: several processes have no epochs in turns, leave out --epochs")
    real_packages.warm(place, one)
    with tempfile.TemporaryDirectory(dir=place.results) as folder:
        os.environ["EPOCHS_IN"] = folder
        done = real_packages.run(place, one, False)
        del os.environ["EPOCHS_IN"]  # so the next program runs once without it
        if done.returncode:
            raise SystemExit(f"{one.name} failed:\n{done.stderr[-2000:]}")
        epochs = [json.loads(line) for line in (Path(folder) / "epochs.jsonl").read_text().splitlines()]
    sys.stderr.write(f"{one.name}: {len(epochs)} epochs\n")
    return [one.name, *of_epochs(epochs), f"{os.getloadavg()[0]:.1f}"]


def _more(plain: Sequence[float], watched: Sequence[float]) -> list[str]:
    found = compare(plain, watched)  # the plain runs are so many times as fast
    more = [f"{value - 1:+.1%}" for value in (found.speedup, found.low, found.high)]
    return [more[0], f"{more[1]} to {more[2]}" if len(plain) > 1 else ""]


def lengthen(made: Path, samples: int, times: int) -> None:
    """Gives each file of the training data so many names, once for each folder of data; and tells the programs."""
    os.environ["TIMES_AS_MANY"], os.environ["TIMES_AS_LONG"] = str(samples), str(times)
    files = [*(made / "images" / "train").rglob("*.jpg"), *(made / "sounds").glob("*.wav")]
    for file in () if any("again" in one.name for one in files) else files:
        for number in range(1, samples):
            os.link(file, file.with_stem(f"{file.stem}-again-{number}"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[real_packages.asking()]
    )
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="pairs of runs of each program")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help="a pass has N times as many samples")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="a run has N times as many passes")
    parser.add_argument("--epochs", type=int, metavar="N", help="one run of N epochs, which are watched in turns")
    asked = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CLOCKED), os.environ.get("PYTHONPATH"))))
    with real_packages.place(asked, one_thread=True) as place:
        lengthen(place.made, asked.samples, -(-asked.epochs // 2) if asked.epochs else asked.times)
        wanted = real_packages.chosen(asked, (*real_packages.PROGRAMS, *WAITING))
        rows = [in_turns(place, one) if asked.epochs else row(place, one, asked.pairs) for one in wanted]
    sys.stdout.write(table(EPOCH_HEADS if asked.epochs else HEADS, rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
