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
from watching import plain, script, watch_command, watched


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


def test_killed_by_itself(tmp_path: Path) -> None:
    assert watched([script("process"), "kill"], tmp_path).status == 128 + signal.SIGKILL


Send = Callable[["subprocess.Popen[str]"], None]


def _to_process(number: int) -> Send:
    return lambda process: os.kill(process.pid, number)


def _to_group(number: int) -> Send:
    return lambda process: os.killpg(process.pid, number)


def _signalled(command: list[str], send: Send, times: int = 1) -> tuple[int, str]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(times):
        send(process)
        time.sleep(0.25)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


@pytest.mark.parametrize("send", [_to_process, _to_group], ids=["process", "group"])
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
    status, out = _signalled([sys.executable, *argv], send(number), times)
    expected = status if status >= 0 else 128 - status
    assert _signalled(watch_command({}, argv), send(number), times) == (expected, out)


def test_the_script_does_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(watch_command({}, [str(path)]), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the script went on")


def test_a_second_script_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "first.py"
    inner = script("process")
    path.write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, {inner!r}, 'identity', 'x'], input=b'')\n"
    )
    assert watched([str(path)], tmp_path).out == plain([str(path)]).out
