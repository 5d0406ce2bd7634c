"""A watched script is started, ends and is interrupted as a plain one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import Send, plain, script, signalled, to_group, to_process, watch_command, watched

from pipebench.watch.launch import supervisor

pytestmark = pytest.mark.usefixtures("real_starts")


@pytest.mark.parametrize(
    "arguments",
    [
        ["identity", "--x", "-m", ""],
        ["exit", "0"],
        ["exit", "3"],
        ["exit", "None"],
        ["exit", "'text'"],
        ["exit", "256"],
        ["exit", "-1"],
        ["os-exit"],
        ["fail"],
        ["chained"],
        ["own-hook"],
        ["surroundings"],
        ["children"],
    ],
    ids=" ".join,
)
def test_same_as_plain(arguments: list[str], tmp_path: Path) -> None:
    argv = [script("process"), *arguments]
    alone, with_us = plain(argv, input="typed"), watched(argv, tmp_path, input="typed")
    assert (with_us.status, with_us.out) == (alone.status, alone.out)
    assert with_us.err.startswith(alone.err)
    assert with_us.watch["status"] == alone.status


@pytest.mark.parametrize("source", ["def f(:\n", "import nosuchmodule\n", "1/0\n", None])
def test_scripts_that_cannot_run(source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    if source is not None:
        path.write_text(source)
    alone, with_us = plain([str(path)]), watched([str(path)], tmp_path)
    assert with_us.status == alone.status != 0
    assert with_us.err.startswith(alone.err)


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "train.py").write_text(
        "import sys\nprint(__name__, __spec__.name, __file__, sys.argv, sys.path[0])\n"
    )
    alone = plain(["-m", "package.train", "a", "-b"], cwd=tmp_path)
    with_us = watched(["package.train", "a", "-b"], tmp_path, {"module": True}, cwd=tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) and alone.out


def test_a_folder_and_an_archive(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    main = tmp_path / "folder" / "__main__.py"
    main.write_text("import sys\nprint(__name__, __file__, sys.argv, sys.path[0])\n")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(main, "__main__.py")
    for name in ("folder", "app.zip"):
        argv = [str(tmp_path / name), "x"]
        alone, with_us = plain(argv), watched(argv, tmp_path)
        assert (with_us.status, with_us.out) == (alone.status, alone.out) and alone.out


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_killed_by_a_signal(number: int, tmp_path: Path) -> None:
    with_us = watched([script("process"), "kill", str(int(number))], tmp_path)
    assert plain([script("process"), "kill", str(int(number))]).status == -number
    assert with_us.status == with_us.watch["status"] == 128 + number


@pytest.mark.parametrize("send", [to_process, to_group], ids=["process", "group"])
@pytest.mark.parametrize(
    ("how", "number", "times"),
    [
        ("interrupted", signal.SIGINT, 1),
        ("interrupted", signal.SIGINT, 2),
        ("terminated", signal.SIGTERM, 1),
        ("wait", signal.SIGINT, 1),
        ("wait", signal.SIGTERM, 1),
        ("wait", signal.SIGUSR1, 1),
    ],
)
def test_signals_arrive_as_often_as_without_us(how: str, number: int, times: int, send: Callable[[int], Send]) -> None:
    argv = [script("process"), how]
    status, out = signalled([sys.executable, *argv], send(number), times)
    expected = status if status >= 0 else 128 - status
    assert signalled(watch_command({}, argv), send(number), times) == (expected, out)


def test_the_script_does_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(watch_command({}, [str(path)]), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    for _ in range(600):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the script went on")


def test_a_signal_after_the_end_of_the_script_does_not_cost_the_report(tmp_path: Path) -> None:
    """An impatient second Ctrl-C comes while what was recorded is being read."""
    command = (
        "import os, signal, sys\n"
        "from pipebench.watch.command import watch\n"
        "from pipebench.watch.record.options import WatchOptions\n"
        "def keep(result, calibration):\n"
        "    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "        os.kill(os.getpid(), number)\n"
        "    print('kept', result.status)\n"
        "sys.exit(watch(WatchOptions(), sys.argv[1:], keep))\n"
    )
    done = plain(["-c", command, script("process"), "exit", "3"])
    assert (done.status, done.out) == (3, "kept 3\n"), done.err


def test_a_fault_of_ours_is_a_line_and_the_script_runs(tmp_path: Path) -> None:
    """Here ours cannot be imported: the folder holds the first file that is run, and nothing else."""
    bootstrap = Path(supervisor.__file__).with_name("bootstrap.py")
    copy = tmp_path / "pipebench" / "watch" / "launch" / "bootstrap.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(bootstrap.read_bytes())
    (tmp_path / "pipebench" / "__init__.py").touch()
    for arguments in (["exit", "3"], ["fail"]):
        argv = [script("process"), *arguments]
        alone, with_us = plain(argv), plain([str(copy), "{}", *argv])
        assert (with_us.status, with_us.out) == (alone.status, alone.out)
        assert with_us.err.startswith("pipebench: the script is not watched (ModuleNotFoundError")
        assert with_us.err.endswith(alone.err[-40:])
