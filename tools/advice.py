"""Checks the advice against plain runs: each planted script before and after the advised change, timed on its own.

python tools/advice.py [NAME ...] [--budget 60] [--runs 3]

For each script of tests/advice/scripts whose best remedy is known, `pipebench advise` gives its advice. Then the script
runs plainly, as it is and with the advised change, in turn. The table shows the promised interval beside the gain of
the plain runs, and whether the interval holds it. It takes a few minutes for each script.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pipebench.advise.command import AdviseOptions, advise
from pipebench.render.advice import named
from pipebench.results.advice import Advice, Change

SCRIPTS = Path(__file__).parents[1] / "tests" / "advice" / "scripts"
_FOR_EVER = "1000000000"


@dataclass(frozen=True)
class Planted:
    """A script, its arguments in a plain run and while it is tried, and the remedy that is best ("" for none)."""

    name: str
    present: tuple[str, ...]
    best: str
    while_tried: tuple[str, ...]


PLANTED = (
    Planted("sleeping", ("2", "300"), "num_workers", ("2", _FOR_EVER)),
    Planted("threads", ("2", "60"), "one_thread", ("2", _FOR_EVER)),
    Planted("startup", ("2", "15", "0"), "persistent_workers", ("2", "1000", "0")),
    Planted("healthy", ("1", "300"), "", ("1", _FOR_EVER)),
    Planted("busy", ("2", "200"), "", ("2", _FOR_EVER)),
)


def main(arguments: Sequence[str]) -> int:
    """Prints the table. Returns 1 if an advice was wrong or made its script slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scripts (default: all)")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args(arguments)
    wrong = [one for one in PLANTED if one.name in (asked.names or [one.name]) and not _checked(one, asked)]
    return 1 if wrong else 0


def _checked(planted: Planted, asked: argparse.Namespace) -> bool:
    found = _advice(planted, asked.budget)
    chosen = found.chosen
    if chosen is None or chosen.gain is None:
        sys.stdout.write(f"{planted.name}: nothing advised; best: {planted.best or 'nothing'}\n")
        return planted.best == ""
    gain = _plain_gain(planted, chosen.change, asked.runs)
    told = chosen.gain
    holds = told.low <= gain <= told.high
    promise = f"{told.speedup:.2f} ({told.low:.2f}-{told.high:.2f})"
    sys.stdout.write(
        f"{planted.name}: advised {named(chosen.change)}, promised {promise}, plain runs {gain:.2f}, "
        f"{'inside' if holds else 'outside'}; best: {planted.best or 'nothing'}\n"
    )
    return chosen.change.remedy in (planted.best, "together") and gain > 1.0


def _advice(planted: Planted, budget_s: float) -> Advice:
    found: list[Advice] = []
    with tempfile.TemporaryDirectory() as folder:
        options = AdviseOptions(budget_s, stop=True, records=Path(folder))
        advise(options, [str(SCRIPTS / f"{planted.name}.py"), *planted.while_tried], lambda _, one: found.append(one))
    return found[0]


def _plain_gain(planted: Planted, change: Change, runs: int) -> float:
    """Seconds of an iteration before over after, by plain runs in turn: the median of the pairs."""
    after = list(planted.present)
    after[0] = str(change.settings.get("num_workers", after[0]))
    if change.settings.get("persistent_workers"):
        after[2] = "1"
    variables = dict(one.split("=") for one in change.pools if "(" not in one)
    name = planted.name
    return median(_seconds(name, planted.present, {}) / _seconds(name, after, variables) for _ in range(runs))


def _seconds(name: str, arguments: Sequence[str], variables: dict[str, str]) -> float:
    """Seconds of an iteration of one plain run."""
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *arguments]
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
