"""Runs planted scripts, plainly and under watch."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pipebench
from pipebench.calibrate import planted
from pipebench.errors import PipebenchError
from pipebench.host.scratch import Scratch
from pipebench.results.report import load
from pipebench.results.watched import WatchResult
from pipebench.watch.command import observe
from pipebench.watch.record.options import WatchOptions

FOLDER = Path(planted.__file__).parent


def environment() -> dict[str, str]:
    """That of a planted script: it imports this pipebench."""
    root = str(Path(pipebench.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def plainly(script: str, *arguments: str) -> dict[str, Any]:
    """Runs a planted script without watching it, and returns what it wrote."""
    with Scratch("calibrate") as folder:
        truth = folder / "truth.json"
        command = [sys.executable, str(FOLDER / script), str(truth), *arguments]
        return _read(truth, ended(command))


def ended(command: Sequence[str]) -> int:
    """Runs a planted script and returns its status.

    Ctrl-C does not reach it, or it would print a traceback of its own. It is killed when our wait is interrupted.
    """
    return subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, process_group=0).returncode


def watched(script: str, *arguments: str) -> tuple[dict[str, Any], WatchResult]:
    """Runs a planted script under `watch`, and returns what it wrote and what `watch` found."""
    with Scratch("calibrate") as folder:
        truth = folder / "truth.json"
        status, result = observe(
            WatchOptions(ours=True), [str(FOLDER / script), str(truth), *arguments], sys.stderr.write
        )
        found = _read(truth, status)
        if result is None:
            raise PipebenchError("a planted run left no records", "run pipebench calibrate again")
        return found, result


def _read(truth: Path, status: int) -> dict[str, Any]:
    if status or not truth.exists():
        raise PipebenchError(f"a planted run ended with status {status}", "run pipebench calibrate again")
    found: dict[str, Any] = json.loads(truth.read_text(encoding="utf-8"))
    return found


Reading = tuple[int, int]  # nanoseconds of wall time and of CPU time


def in_turns(blocks: int, samples: int, order: random.Random) -> tuple[list[Reading], list[Reading]]:
    """The reading of each block of `planted/looping.py`, plainly and under `watch`. It runs a block when asked to.

    Both run in fresh processes at the same time, and take turns in a random order. Raises `PipebenchError` if `watch`
    did not see all of the `samples`.
    """
    plain: list[Reading] = []
    under_watch: list[Reading] = []
    with Scratch("calibrate") as folder:
        report = folder / "report.json"
        script = str(FOLDER / "looping.py")
        command = [sys.executable, "-m", "pipebench", "watch", "--export-json", str(report), script]
        with _asked([sys.executable, script]) as one, _asked(command) as other:
            turns = [(one, plain), (other, under_watch)]
            for _ in range(blocks):
                for ask, answers in order.sample(turns, 2):
                    answers.append(ask())
        seen = _samples_in(report)
    if seen != samples:
        raise PipebenchError("a planted run was not watched to its end", "run pipebench calibrate again")
    return plain, under_watch


def _samples_in(report: Path) -> int:
    """How many samples a saved report of `watch` has seen; 0 if there is none."""
    found = load(report).watched if report.exists() else None
    return sum(one.samples for one in found.loaders) if found is not None else 0


@contextlib.contextmanager
def _asked(command: Sequence[str]) -> Iterator[Callable[[], Reading]]:
    """Starts a process, waits until it is ready, and yields a function that asks it for its next block."""
    process = subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    asking, answers = process.stdin, process.stdout

    def answer() -> Reading:
        line = answers.readline()
        if not line:
            raise PipebenchError("a planted run ended before its time", "run pipebench calibrate again")
        wall, cpu = line.split()
        return int(wall), int(cpu)

    def ask() -> Reading:
        with contextlib.suppress(BrokenPipeError):  # the process has ended; `answer` reports it
            asking.write("\n")
            asking.flush()
        return answer()

    try:
        answer()
        yield ask
    finally:
        process.communicate()
