"""Asks other programs, all at once and with one deadline. None of them outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What a program printed, and its exit status; None if it did not end in time. A signal is a negative status."""

    text: str
    status: int | None


def asked(commands: Sequence[Sequence[str]], deadline_s: float) -> list[Answer | None]:
    """The answers in the order of the commands; None for a program that is not there or cannot be started."""
    end = time.monotonic() + deadline_s
    running: list[subprocess.Popen[bytes] | None] = []
    try:
        for command in commands:
            running.append(_started(command))
        return [None if one is None else _answer(one, max(0.0, end - time.monotonic())) for one in running]
    finally:
        for one in running:
            _end(one)


def _started(command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return None


def _answer(process: subprocess.Popen[bytes], left_s: float) -> Answer:
    try:
        text = process.communicate(timeout=left_s)[0]
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        status = process.poll()  # it may have ended while another was waited for
        _end(process)
        text = process.communicate()[0]
    return Answer(text.decode("utf-8", "replace"), status)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    """Kills the program with all that it started."""
    if process is not None and process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
