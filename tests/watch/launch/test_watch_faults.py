"""Whatever goes wrong in a script goes wrong as without us, and what was recorded until then is reported."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import Send, plain, script, signalled, to_group, to_process, watch_command, watched

from pipebench.render.watch_notes import KILLED


def _without_numbers(text: str) -> str:
    return re.sub(r"line \d+, in _next_data", "...", text)


@pytest.mark.parametrize("how", ["raises", "killed", pytest.param("crashed", marks=pytest.mark.long)])
def test_a_worker_that_fails(how: str, tmp_path: Path) -> None:
    argv = [script("faults"), how]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) == (1, "")
    if how == "raises":
        assert _without_numbers(with_us.err).startswith(_without_numbers(alone.err))
    else:
        # Torch's signal handler tells of the death, or the queue does, or the connection for a tensor that the dead
        # worker still held; which comes first is chance, in both runs alike.
        told = ("DataLoader worker (pid", "lost sys.stderr", "ConnectionRe", "EOFError", "FileNotFoundError")
        for one in (alone, with_us):
            assert any(sign in one.err for sign in told), one.err
    assert with_us.watch["loaders"][0]["samples"] >= 4
    assert with_us.watch["loaders"][0]["failed_batches"] == (how == "raises")
    lost = [note["values"] for note in with_us.watch["notes"] if note["code"] == "worker-lost"]
    assert lost and with_us.watch["complete"] == (how == "raises")
    if how != "raises":
        signal_name = "SIGKILL" if how == "killed" else "SIGSEGV"
        assert [one["sample"] for one in lost if one.get("signal") == signal_name] == ["9"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["left", "hung"])
def test_a_worker_that_leaves_or_hangs(how: str, tmp_path: Path) -> None:
    argv = [script("faults"), how]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out)
    assert with_us.watch["loaders"][0]["samples"] >= 4
    left = [note["values"] for note in with_us.watch["notes"] if "status" in note["values"]]
    assert [(one["status"], one["sample"]) for one in left] == ([(0, "9")] if how == "left" else [])
    assert with_us.watch["complete"] == (how == "hung")


def test_no_space_for_records(tmp_path: Path) -> None:
    argv = [script("faults"), "no-space"]
    with_us = watched(argv, tmp_path)
    assert with_us.status == 0 and with_us.out.startswith("40 ")
    assert not with_us.watch["complete"]
    assert 5 < with_us.watch["iterations"] < 40
    (note,) = [note for note in with_us.watch["notes"] if note["code"] == "recording-stopped"]
    assert "worker" not in note["values"]


def test_no_record_can_be_written_from_the_start(tmp_path: Path) -> None:
    argv = [script("faults"), "from-nowhere"]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) == (0, alone.out)
    assert not with_us.watch["complete"] and "Recording stopped in the script" in with_us.err


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("exit-code", 5),
        *(pytest.param(*one, marks=pytest.mark.long) for one in (("raise", 1), ("exit-text", 1), ("exit-none", 0))),
    ],
    ids=str,
)
def test_a_script_that_ends_inside_a_pass(how: str, status: int, tmp_path: Path) -> None:
    argv = [script("faults"), "ends", how]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) == (status, "ready\n")
    assert with_us.err.startswith(alone.err)
    assert with_us.watch["iterations"] == 20 and with_us.watch["status"] == status
    assert with_us.stage("Stream.__iter__")["samples"] >= 80


_ENDS_WORKERS = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="workers of a fork server outlive a script that SIGTERM ends, also plainly"
)


@pytest.mark.parametrize(
    ("how", "number", "times", "send"),
    [
        pytest.param("once", signal.SIGINT, 1, to_process, marks=pytest.mark.long),
        ("once", signal.SIGINT, 1, to_group),
        pytest.param("twice", signal.SIGINT, 2, to_process, marks=pytest.mark.long),
        pytest.param("twice", signal.SIGINT, 2, to_group, marks=pytest.mark.long),
        pytest.param("once", signal.SIGTERM, 1, to_process, marks=(_ENDS_WORKERS, pytest.mark.slow)),
        pytest.param("once", signal.SIGTERM, 1, to_group, marks=pytest.mark.long),
    ],
)
def test_what_was_recorded_before_an_interrupt_is_reported(
    how: str, number: int, times: int, send: Callable[[int], Send], tmp_path: Path
) -> None:
    argv = [script("faults"), "ends", how]
    status, out = signalled([sys.executable, *argv], send(number), times)
    expected = status if status >= 0 else 128 - status
    assert expected in (1, 128 + number) and out == times * "ready\n"  # 1: torch ran code after the interrupt
    report = tmp_path / "watch.json"
    assert signalled(watch_command({"export_json": str(report)}, argv), send(number), times) == (expected, out)
    watch = json.loads(report.read_text())["watched"]
    assert watch["status"] == expected and watch["iterations"] >= 20 * times
    assert [one["passes"] for one in watch["loaders"]] == [times]  # one loader by where it was made
    if number == signal.SIGINT:  # Python has run the script's exit before: nothing is missing
        assert KILLED not in [one["code"] for one in watch["notes"]]


@pytest.mark.long
def test_processes_of_the_script_that_train_too(tmp_path: Path) -> None:
    argv = [script("faults"), "nested"]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out, with_us.err.startswith(alone.err)) == (0, alone.out, True), with_us.err
    assert with_us.out.count(" 0\n") == 2
    assert [one["iterations"] for one in with_us.watch["loaders"]] == [10, 10]
    assert [one["samples"] for one in with_us.watch["loaders"]] == [40, 40]
    assert len(with_us.watch["workers"]) == 1 and with_us.watch["complete"]


def test_every_kind_of_loader(tmp_path: Path) -> None:
    argv = [script("faults"), "shapes"]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out, alone.status) == (0, alone.out, 0)
    loaders = with_us.watch["loaders"]
    assert [one["iterations"] for one in loaders] == [40, 10, 3, 6, 1, 6, 10, 2, 10, 10]
    assert [one["samples"] for one in loaders][:5] == [40, 40, 10, 20, 1]
    assert with_us.watch["iterations"] == 40 + 10 + 3 + 6 + 1 + 6 + 10 + 2 + 10
    assert with_us.stage("Batched.__getitems__", "getitem")["samples"] == 40
    assert {one["loader"] for one in with_us.watch["stages"] if one["name"] == "Stream.__iter__"} == {3, 4, 5, 6}
    assert with_us.phase("forward") > 0 and with_us.phase("optimiser") > 0
    alike = {"code": "undivided", "values": {"loader": 4, "dataset": "Stream", "workers": 2}}
    assert [note for note in with_us.watch["notes"] if note["code"] != "oversubscribed"] == [alike]
