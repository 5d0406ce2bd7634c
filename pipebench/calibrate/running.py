"""Runs planted scripts, plainly and under watch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pipebench
from pipebench.calibrate import planted
from pipebench.errors import PipebenchError
from pipebench.results.watched import WatchResult
from pipebench.watch.command import observe
from pipebench.watch.record.options import WatchOptions

FOLDER = Path(planted.__file__).parent


def plainly(script: str, *arguments: str) -> dict[str, Any]:
    """Runs a planted script that nobody watches; what it wrote."""
    root = str(Path(pipebench.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory(prefix="pipebench-calibrate-") as folder:
        truth = Path(folder) / "truth.json"
        command = [sys.executable, str(FOLDER / script), str(truth), *arguments]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL)
        return _read(truth, done.returncode)


def watched(script: str, *arguments: str) -> tuple[dict[str, Any], WatchResult]:
    """Runs a planted script under `watch`; what it wrote, and what `watch` found."""
    with tempfile.TemporaryDirectory(prefix="pipebench-calibrate-") as folder:
        truth = Path(folder) / "truth.json"
        status, result = observe(WatchOptions(), [str(FOLDER / script), str(truth), *arguments], sys.stderr.write)
        found = _read(truth, status)
        if result is None:
            raise PipebenchError("a planted run left no records", "run pipebench calibrate again")
        return found, result


def _read(truth: Path, status: int) -> dict[str, Any]:
    if status or not truth.exists():
        raise PipebenchError(f"a planted run ended with status {status}", "run pipebench calibrate again")
    found: dict[str, Any] = json.loads(truth.read_text(encoding="utf-8"))
    return found
