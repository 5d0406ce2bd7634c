"""Runs scripts plainly and under watch, in processes of their own, so that the two can be compared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm

SCRIPTS = Path(__file__).with_name("scripts")
PATIENCE_S = 300  # only what hangs takes so long, however busy the machine is
_COMMAND = """
import sys, json
from pathlib import Path
from pipebench.commands.watch import saved_at
from pipebench.watch.command import watch
from pipebench.watch.record.options import WatchOptions
options = json.loads(sys.argv[1])
export_json = options.pop("export_json", None)
for name in ("export_trace", "records"):
    if name in options:
        options[name] = Path(options[name])
sys.exit(watch(WatchOptions(**options), sys.argv[2:], saved_at(Path(export_json)) if export_json else None))
"""


@dataclass(frozen=True)
class Outcome:
    """What one run left: status, output, and the JSON report of a watched one."""

    status: int
    out: str
    err: str
    watch: dict[str, Any]

    def stage(self, name: str, kind: str | None = None) -> dict[str, Any]:
        found = [one for one in self.watch["stages"] if one["name"] == name and kind in (None, one["kind"])]
        assert len(found) == 1, (name, kind, [one["name"] for one in self.watch["stages"]])
        return found[0]

    def phase(self, name: str) -> float:
        return next(one["s_per_iteration"] for one in self.watch["loop"] if one["phase"] == name)


def script(name: str) -> str:
    return str(SCRIPTS / f"{name}.py")


def watch_command(options: dict[str, Any], argv: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", _COMMAND, json.dumps(options), *argv]


def plain(argv: Sequence[str], **how: Any) -> Outcome:
    done = warm.run([sys.executable, *argv], capture_output=True, text=True, timeout=PATIENCE_S, **how)
    return Outcome(done.returncode, done.stdout, done.stderr, {})


def watched(argv: Sequence[str], tmp_path: Path, options: dict[str, Any] | None = None, **how: Any) -> Outcome:
    report = tmp_path / "watch.json"
    command = watch_command({"export_json": str(report), **(options or {})}, argv)
    done = warm.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **how)
    found = json.loads(report.read_text())["watched"] if report.exists() else {}
    return Outcome(done.returncode, done.stdout, done.stderr, found)


Send = Callable[["subprocess.Popen[str]"], None]


def to_process(number: int) -> Send:
    return lambda process: os.kill(process.pid, number)


def to_group(number: int) -> Send:
    return lambda process: os.killpg(process.pid, number)


def signalled(command: list[str], send: Send, times: int = 1) -> tuple[int, str]:
    """Status and output of a command that says "ready" and is then sent signals.

    Each is sent when the one before has been answered; a further answer to the last is waited for a while.
    """
    process = warm.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    end = threading.Timer(PATIENCE_S, lambda: os.killpg(process.pid, signal.SIGKILL))
    end.start()
    lines = [process.stdout.readline()]
    assert lines == ["ready\n"]
    for _ in range(times):
        send(process)
        lines.append(process.stdout.readline())
    time.sleep(0.25)
    out, _ = process.communicate(timeout=PATIENCE_S)
    end.cancel()
    return process.returncode, "".join(lines) + out
