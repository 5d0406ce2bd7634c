"""How the supervisor starts a command, and learns how it ended."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipebench.watch.launch.supervisor import run_command


@pytest.fixture
def ignored_children() -> Iterator[None]:
    """As below a parent that ignores SIGCHLD: the setting survives an exec, and the kernel then keeps no status."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("ignored_children")
def test_the_status_is_known_where_the_parent_ignores_its_children() -> None:
    asks = "import signal, sys; sys.exit(3 if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN else 4)"
    assert run_command([sys.executable, "-c", asks], os.environ).status == 3  # the command starts as without us
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


@pytest.mark.parametrize("by_path", [False, True])
def test_a_script_without_an_interpreter_is_one_of_the_shell(by_path: bool, tmp_path: Path) -> None:
    script = tmp_path / "train_and_evaluate"
    script.write_text('test "$1 $2" = "--lr 0.1" && exit 3\n')
    script.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command = [script.name if by_path else str(script), "--lr", "0.1"]
    assert run_command(command, {**os.environ, "PATH": path}).status == 3
