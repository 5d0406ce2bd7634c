"""`%%pipebench` in a notebook, by a shell that stands for IPython's and by IPython's own, and how a result is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipebench
from pipebench.errors import PipebenchError
from pipebench.watch.with_block import WatchedBlock

CELL = """
import torch
from torch.utils.data import DataLoader, TensorDataset
weight = torch.ones(2, requires_grad=True)
for (batch,) in DataLoader(TensorDataset(torch.ones(16, 2)), 4):
    (batch @ weight).sum().backward()
"""


class Shell:
    """What the magic needs of IPython's shell."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Any] = {}
        self.shown: list[Any] = []
        self.displayhook = self.shown.append

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind, magic_name] = function

    def run_cell(self, cell: str) -> Any:
        try:
            exec(cell, self.user_ns)
        except Exception as error:
            self._showtraceback(type(error), error, ["a line", "another one"])
            return SimpleNamespace(success=False, error_in_exec=error, error_before_exec=None)
        return SimpleNamespace(success=True)

    def _showtraceback(self, kind: Any, error: Any, lines: list[str]) -> None:
        raise AssertionError("the cell around ends with the same error, and shows it")


@pytest.fixture
def shell() -> Shell:
    made = Shell()
    pipebench.load_ipython_extension(made)
    return made


def test_a_cell_is_watched_and_its_result_is_the_value_of_the_cell(shell: Shell) -> None:
    found = shell.magics["cell", "pipebench"]("seen --warmup 1", CELL)
    assert found is shell.user_ns["seen"] and found.iterations == 3 and not shell.shown
    assert str(found).strip() and "<table>" in found._repr_html_()


def test_a_cell_that_fails_shows_what_was_seen_and_ends_the_run_of_all_cells(shell: Shell) -> None:
    with pytest.raises(ZeroDivisionError) as failed:  # a kernel tells its clients the class and the text
        shell.magics["cell", "pipebench"]("", CELL + "1 / 0\n")
    assert failed.value._render_traceback_() == ["a line", "another one"]  # type: ignore[attr-defined]
    [shown] = shell.shown
    assert isinstance(shown, WatchedBlock) and shown.iterations == 4 and set(shell.user_ns) > {"weight"}


@pytest.mark.parametrize("line", ["--spam", "--warmup many", "--warmup -1", "one two", "my-run", "what's"])
def test_a_wrong_option_is_said_in_two_lines_and_nothing_runs(shell: Shell, line: str) -> None:
    with pytest.raises(Exception) as failed:
        shell.magics["cell", "pipebench"](line, "ran = True")
    said, usage = failed.value._render_traceback_()  # type: ignore[attr-defined]
    assert said.startswith("%%pipebench: ") and usage.startswith("usage: %%pipebench [--span ") and not shell.user_ns


def test_there_is_no_result_before_the_end_of_the_block() -> None:
    seen = pipebench.watching()
    with pytest.raises(PipebenchError, match=r"no result before the end of the block[^`]*after the `with` block"):
        seen.result  # noqa: B018  # reading it is the test
    for _ in range(2):
        with seen, pytest.raises(PipebenchError):
            seen.result  # noqa: B018
        assert seen.result.verdict.limit == "nothing-watched"
    with pytest.raises(ZeroDivisionError), seen:
        1 / 0  # noqa: B018
    assert seen.result.status == 1


REAL = """
import sys
sys.argv = ["ipython"]
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
assert shell.run_cell("%load_ext pipebench").success
assert shell.run_cell("%%pipebench seen\\n" + CELL).success
data, _ = shell.display_formatter.format(shell.user_ns["seen"])
assert data["text/html"].startswith("<div") and "Where the " in data["text/plain"]
failed = shell.run_cell("%%pipebench\\n1 / 0")
assert not failed.success and isinstance(failed.error_in_exec, ZeroDivisionError)
assert not shell.run_cell("%%pipebench --spam\\n1").success
print("all of it")
"""


def test_in_ipython_itself(tmp_path: Path) -> None:
    code = f"CELL = {CELL!r}\n{REAL}"
    environment = {"PATH": "", "IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, env=environment)
    assert done.returncode == 0 and done.stdout.endswith("all of it\n"), done.stdout + done.stderr
    assert done.stdout.count("division by zero") == 1 and "usage: %%pipebench [--span" in done.stdout
