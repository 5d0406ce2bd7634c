"""A fault of pipebench's own costs the script nothing, and its cause and place are in the report's notes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import Outcome, plain, script, watched

from pipebench.errors import PipebenchError
from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note, WatchResult
from pipebench.watch import command
from pipebench.watch.launch.supervisor import Ended
from pipebench.watch.read.gather import gather
from pipebench.watch.record.lines import Fault
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.recording import Recording, Settings, told

OUT = "[24.0, 88.0, 152.0]\n"
INJECTED = r"RuntimeError: injected \(broken\.py:\d+\)"
REFUSED = r"AttributeError: not this one \(broken\.py:\d+\)"
SCRIPT, WORKER = "the script", "worker 0 of loader 1"


def _fault(who: str, where: str, cause: str = INJECTED) -> str:
    return rf"Fault of pipebench in {who} \(process \d+\): {where}: {cause}\. Figures may be missing\."


def _noted(found: Outcome, note: str) -> bool:
    return any(re.fullmatch(note, sentence(Note(**one))) for one in found.watch["notes"])


def test_the_script_alone_has_this_output() -> None:
    assert plain([script("broken"), "nothing", "fork"]).out == OUT


@pytest.mark.parametrize(
    ("part", "method", "note"),
    [
        ("worker", "spawn", _fault(WORKER, "preparing a worker")),
        pytest.param("start", "spawn", _fault(WORKER, "starting to watch a worker"), marks=pytest.mark.long),
        ("batch", "fork", _fault(WORKER, "adding up a batch")),
        pytest.param("worker's end", "fork", _fault(WORKER, "ending a worker"), marks=pytest.mark.long),
        ("recording", "fork", _fault("a process that was forked", "watching a fetcher")),
        pytest.param("leaf", "fork", _fault(SCRIPT, "watching PIL\\.ImageFile"), marks=pytest.mark.long),
        pytest.param(
            "import", "fork", _fault(SCRIPT, "watching torchvision\\.transforms\\.transforms"), marks=pytest.mark.long
        ),
        pytest.param("undo", "fork", _fault(SCRIPT, "putting back what was replaced"), marks=pytest.mark.long),
        pytest.param("end", "fork", _fault(SCRIPT, "ending the loop"), marks=pytest.mark.long),
        pytest.param(
            "refused",
            "spawn",
            _fault(SCRIPT, "handing the recording to spawned workers", REFUSED),
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_fault_is_in_the_notes_with_cause_and_place(part: str, method: str, note: str, tmp_path: Path) -> None:
    found = watched([script("broken"), part, method], tmp_path)
    assert (found.status, found.out) == (0, OUT), found.err
    assert _noted(found, note), found.watch["notes"]


@pytest.mark.slow
def test_a_script_that_runs_well_has_no_such_note(tmp_path: Path) -> None:
    found = watched([script("broken"), "nothing", "spawn"], tmp_path)
    assert (found.status, found.out) == (0, OUT), found.err
    assert not _noted(found, ".*[Ff]ault.*")


def test_a_trace_that_cannot_be_written_is_in_the_notes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = watched([script("broken"), "nothing", "fork"], tmp_path, {"export_trace": str(tmp_path / "file" / "trace")})
    assert (found.status, found.out) == (0, OUT), found.err
    note = r"The trace was not written: cannot write \S+/file/trace: File exists\. .*"
    assert _noted(found, note), found.watch["notes"]


def test_a_short_report_says_that_a_trace_was_not_written(tmp_path: Path) -> None:
    """The place was checked before the script started. The script itself makes it unusable."""
    (tmp_path / "train.py").write_text("import os, shutil\nshutil.rmtree('there')\nopen('there', 'w').close()\n")
    line = [sys.executable, "-m", "pipebench", "watch", "--export-trace", "there/t.json"]
    for how in (["train.py"], ["--out", "kept", "--", sys.executable, "train.py"]):
        (tmp_path / "there").unlink(missing_ok=True)
        done = subprocess.run([*line, *how], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and "pipebench: cannot write " in done.stderr, done.stderr


@pytest.mark.parametrize("how", [["train.py"], ["--", "sh", "-c", "rm -r kept/pipebench-watch-*; exit 5"]])
def test_records_that_somebody_removed_are_said_with_the_remedy(how: list[str], tmp_path: Path) -> None:
    """As scripts do that clean the folder for temporary files when they begin."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "train.py").write_text("import glob, shutil, sys\nshutil.rmtree(*glob.glob('kept/*'))\nsys.exit(5)\n")
    line = [sys.executable, "-m", "pipebench", "watch", *how]
    names = {**os.environ, "TMPDIR": str(tmp_path / "kept")}
    done = subprocess.run(line, cwd=tmp_path, env=names, capture_output=True, text=True, timeout=100)
    problem, remedy = done.stderr.splitlines()[-2:]
    assert done.returncode == 5 and "somebody removed its records" in problem and "set TMPDIR to" in remedy


def test_a_fault_in_the_trace_is_in_the_notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise KeyError("no such track")

    def run(*_: object, afterwards: Callable[[Ended], None], **__: object) -> Ended:
        afterwards(Ended(5, None))
        return Ended(5, None)

    monkeypatch.setattr(command, "write_trace", fails)
    monkeypatch.setattr(command.supervisor, "run", run)
    reported: list[WatchResult] = []
    options = WatchOptions(export_trace=tmp_path / "trace.json")
    status, result = command.observe(options, ["train.py"], lambda text: None, reported.append)
    assert status == 5 and reported == [result] and result is not None
    cause = r"KeyError: 'no such track' \(test_watch_own_faults\.py:\d+\)"
    said = [sentence(one) for one in result.notes]
    assert any(re.fullmatch(rf"Fault of pipebench in writing the trace: {cause}\. Figures .*", one) for one in said), (
        said
    )
    assert Note("script-not-watched") in result.notes


def test_a_cause_is_one_line_whatever_the_exception_says() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert told(PipebenchError("it is full", "make room")) == "PipebenchError: it is full; make room"
    assert told(Mute()) == "Mute"
    assert told(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_what_one_process_tells_of_its_faults_has_a_bound(tmp_path: Path) -> None:
    recording = Recording(Settings(str(tmp_path)), "script")
    for _ in range(100):
        recording.guarded("counting", lambda: 1 // 0)
    (process,) = gather(tmp_path)
    faults = process.of(Fault)
    assert len(faults) == 20 and faults[-1].where == "counting"
    assert re.fullmatch(r"ZeroDivisionError: .* \(test_watch_own_faults\.py:\d+\)", faults[-1].text)
