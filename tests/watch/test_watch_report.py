"""What `pipebench watch` saves is a report like any other: refused early, written whole, read typed, shown again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import warm
from watching import script

from pipebench.errors import PipebenchError
from pipebench.host.machine import Machine
from pipebench.render import text
from pipebench.render.watched import whole
from pipebench.results.next_move import NextMove
from pipebench.results.report import Report, encode, load, of_watch, save
from pipebench.results.watched import Note, Verdict, WatchResult
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions

HOSTILE = "\x1b[31m[bold]x[/x]\n```` | \u202e"


def _pipebench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipebench", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "80"}
    return warm.run(command, capture_output=True, text=True, timeout=120, env=environment)


def _nothing_watched(**changes: object) -> WatchResult:
    return replace(summarise([], WatchOptions(), 0, 2.0), **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    place = tmp_path_factory.mktemp("saved") / "new" / "watch.json"
    return place, _pipebench("watch", "--export-json", place, script("faults"), "shapes")


def test_the_report_is_read_typed_and_shown_again(saved: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    place, done = saved
    assert done.returncode == 0
    found = load(place)
    assert encode(found) == place.read_bytes()
    assert found.watched is not None and not found.partial and found.watched.iterations > 40
    assert json.loads(place.read_bytes())["measurements"] == []
    again = _pipebench("show", place)
    assert again.returncode == 0
    assert done.stderr.endswith("\n" + whole(found.watched, found.error_of_watch, width=80))
    assert again.stdout.startswith(whole(found.watched, found.error_of_watch, width=80))
    assert len(whole(found.watched, found.error_of_watch, width=80, full=True)) > len(
        whole(found.watched, found.error_of_watch)
    )
    few = replace(found.watched, settled_iterations=2)
    assert "are of 2 iterations only" in whole(few, None, width=80)
    assert "iterations only" not in whole(found.watched, None, width=80)
    all_of_it = _pipebench("show", place, "--full").stdout
    figures, again_verdict = whole(found.watched, found.error_of_watch, width=80, full=True).rsplit("\n\n", 1)
    assert all_of_it.startswith(figures) and all_of_it.endswith(again_verdict)
    assert _pipebench("show", place, "--format", "json").stdout == place.read_text()
    markdown = _pipebench("show", place, "--format", "markdown").stdout
    assert markdown == text.markdown(found) and "| phase |" in markdown


def test_a_recording_that_was_cut_short_is_partial() -> None:
    assert not of_watch(_nothing_watched(), None).partial
    assert of_watch(_nothing_watched(complete=False), None).partial


def test_names_in_a_saved_report_act_in_no_output(tmp_path: Path) -> None:
    machine = Machine(HOSTILE, HOSTILE, "3", HOSTILE, 2, 1, 1, "ext4", None, "fork", {HOSTILE: HOSTILE})
    verdict = Verdict("data", wait_share=0.5, loader=1, loaders=2, workers_busy=1.0, dataset=HOSTILE, stage=HOSTILE)
    move = NextMove("make-stage-cheaper", 2, stage=HOSTILE, setting=HOSTILE, made_by=HOSTILE)
    result = _nothing_watched(verdict=verdict, next_move=move, notes=(Note(HOSTILE, {HOSTILE: HOSTILE}),))
    save(Report(2, False, "", "", machine, watched=result, error_of_watch=HOSTILE), tmp_path / "r.json")
    for render in (text.table, text.markdown):
        shown = render(load(tmp_path / "r.json"))
        assert "\x1b" not in shown and "\u202e" not in shown
    assert "\\`\\`\\`\\`" in shown and "````" not in shown


@pytest.mark.parametrize("option", ["--export-json", "--export-trace"])
def test_a_place_that_cannot_be_written_is_refused_before_the_script_starts(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    started = tmp_path / "started"
    starts = tmp_path / "starts.py"
    starts.write_text(f"open({str(started)!r}, 'w').close()\n")
    for place, status, said in (
        (tmp_path / "file", 2, "--force overwrites it"),
        (tmp_path, 2, "is a directory"),
        (tmp_path / "file" / "inside.json", 1, "cannot write"),
        (Path("/proc/inside.json"), 1, "cannot write"),
        (Path("/dev/null"), 2, "is not a regular file"),
    ):
        done = _pipebench("watch", option, place, "--force" if status == 1 else "--steps=5", starts)
        assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert not started.exists() and (tmp_path / "file").read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "starts.py"]


def test_two_exports_to_one_file_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "one.json"
    done = _pipebench("watch", "--export-json", place, "--export-trace", place, script("faults"), "shapes")
    assert done.returncode == 2 and "the same file" in done.stderr


def test_a_file_that_only_looks_like_one_is_refused(tmp_path: Path) -> None:
    content = json.loads(encode(of_watch(_nothing_watched(), None)))
    content["watched"]["iterations"] = "many"
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(PipebenchError, match="not a pipebench report"):
        load(tmp_path / "r.json")
