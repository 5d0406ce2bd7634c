"""pipebench is found where it is installed, and nothing else is taken from that folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipebench
from pipebench.watch.launch.programs import watched_environment
from pipebench.watch.log import writers
from pipebench.watch.record.recording import Settings

ROOT = Path(pipebench.__file__).parent.parent
OLD = ("dataclasses", "enum", "pathlib", "typing")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package, in a folder with packages that have names of the standard library."""
    folder = tmp_path / "site-packages"
    shutil.copytree(ROOT / "pipebench", folder / "pipebench", ignore=shutil.ignore_patterns("__pycache__"))
    for name in OLD:
        (folder / f"{name}.py").write_text("raise ImportError('too old')\n")
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Imports a torch that is an empty module."""
    (tmp_path / "torch.py").write_text("")
    path = tmp_path / "train.py"
    path.write_text("import sys\nbefore = list(sys.path)\nimport torch\nassert sys.path == before\nprint('trained')\n")
    return path


def _done(command: list[str], **names: str) -> tuple[str, str]:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**usual, "PYTHONDONTWRITEBYTECODE": "1", **names}
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, timeout=100, check=True)
    return done.stdout, done.stderr


def test_a_script_is_watched(installed: Path, script: Path, tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    bootstrap = str(installed / "pipebench/watch/launch/bootstrap.py")
    said = _done([sys.executable, bootstrap, Settings(str(records)).encoded(), str(script)])
    assert said == ("trained\n", "") and list(records.glob("*.spans"))


def test_a_program_of_a_command_is_watched(installed: Path, script: Path, tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    names = watched_environment(records, Settings(str(records)), {})
    names["PYTHONPATH"] = str(installed / "pipebench/watch/launch/hook")
    assert _done([sys.executable, str(script)], **names) == ("trained\n", "")
    assert list(records.glob("*/*.spans"))


def test_the_process_of_log_starts(installed: Path, tmp_path: Path) -> None:
    start = writers._START.replace(str(ROOT), str(installed))
    assert _done([sys.executable, "-P", "-c", start, f"csv:{tmp_path / 'a.csv'}"]) == ("null\n", "")
