"""Lines between processes: what is written is what is read, for every kind that there is."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from watching import script, watched

from pipebench.watch.read.decoding import KINDS, decoded, read
from pipebench.watch.read.gather import gather
from pipebench.watch.record import bound_lines, device_lines, lines, program_lines, spent, trial_lines, worker_lines
from pipebench.watch.record.read_lines import PlaceReads, ReadSums
from pipebench.watch.record.record_file import encoded
from pipebench.watch.record.recording import Settings
from pipebench.watch.record.sample_calls import FunctionCalls, LineRun, LineRuns, SampleCalls

LINES: list[lines.Line] = [
    lines.ProcessStarted(10, "worker", 5, 1, 0, "spawn"),
    lines.NewStage(1, lines.StageName("decode", "Image.load", True)),
    lines.FetchSums(
        1, 5, 9, batches=1, samples=4, failed=2, busy_ns=4, cpu_ns=3, process_cpu_ns=7,
        stages_ns={0: 1, 12: 3}, whole_ns={12: 4}, lengths={300: 4},
        slow=[worker_lines.LongSample(5, "caf\u00e9.jpg")], gc=lines.Collected(1, 2), pickled=lines.Pickled(1, 2, 3, 4),
        handed=[lines.HandedOver(*range(17))],
    ),
    lines.BatchInFull(1, 0, 3, 5, 9, [5, 1, 7, 0]),
    lines.LoaderFound(1, "Photos", 2, None, "fork", 2, True, shards=0),
    lines.PassBegun(1, 0, 5, twice_ns=3),
    lines.PassEnded(1, "exhausted", 5),
    lines.LoopSums(
        1, 0, first=3, begin=5, turns=2, trained=1, phases_ns=[1, 2, 3, 4, 5, 6, 7], first_wait_ns=1, after_loader_ns=2,
        wait_parts_ns=list(range(9)), waits={10: 1}, lengths={20: 1}, idle=device_lines.DeviceIdleTime(1, 2, 3),
        arrivals=[lines.Arrival(*range(10))], device=[lines.DeviceWait(0, 1, 2, -1)],
    ),
    lines.IterationInFull(1, 0, 3, 5, 9, 77, [5, 9, 0]),
    lines.LoadersTogether(1, 2),
    lines.LibraryThreads([lines.Pool("torch", 2, "torch.set_num_threads(1)")], 1, "file_system"),
    lines.StackPlace(10, 5, 1, 64, [56, 0], *range(13, 26), 32),
    lines.Moment("warm", 5),
    lines.TimeSpent(5, 9, 1, "before", [spent.SpentInPass(1, 0, [*range(len(spent.ROWS))])], 3, 2),
    lines.Fault("watching torch", "TypeError: no"),
    lines.NotRecognised("2.99.0", ["_DatasetKind.create_fetcher"]),
    trial_lines.LoaderMade(1, "a/train.py", 7, 9, 4, 30, "main", 12, {"num_workers": 2, "pin": None}, "it streams"),
    trial_lines.TrialWindow(1, 2, True, 1.5, 8, 3),
    trial_lines.TrialDifference(1, 0.5, 0.1, 2.0, 64),
    trial_lines.TrialRepeats(1, True, 1000.0),
    trial_lines.TrialFailed(1, "OSError: no"),
    trial_lines.TrialSyncs(1, "", [trial_lines.SyncAt("train.py", 3, 1.5, ["item"], 0.25)]),
    trial_lines.LoopLooks(
        1, "a/train.py", 5, [trial_lines.PlaceLooks(7, ["Client.send"], 3, 2, 10, 4)],
        lines=[trial_lines.LineLooks("a/train.py", "Net.keys", 9, "list", 2)],
        drawn=[trial_lines.LineLooks("a/train.py", "Balanced.__iter__", 5, "", 2)],
        forward_lines=[trial_lines.LineLooks("a/net.py", "Scan.forward", 14, "", 8)], on_host=True,
    ),
    trial_lines.ThreadsBeside(
        1, 9, 2, 3, 4, 3.5, 1.5, [trial_lines.ThreadLooks("Feeder", "a/train.py", "Feeder.run", 7, 2, 3)]
    ),
    program_lines.ProgramStarted(5, 9, ["train.py", "--epochs"]),
    program_lines.WithoutTorch("/opt/bin/python", True),
    program_lines.LoadsInFork("Photos"),
    program_lines.RankFound(1, 4, 1, "host:1:0"),
    program_lines.ProgramFailed("ValueError: no"),
    program_lines.CoresAllowed([0, 2]),
    program_lines.LeftOn(["profiler"]),
    program_lines.LastLayerWork(512, 8000, 0.4),
    program_lines.StartLooks(1, 9, 4, [trial_lines.LineLooks("a/train.py", "Rows.__init__", 7, "pandas.iterrows", 3)]),
    program_lines.OwnSteps([program_lines.OwnStep(0, 1, 2)]),
    program_lines.LastStep(9, 30, 5, 2, 4, 1),
    lines.SpanNotFound("train:load", "function"),
    worker_lines.WorkerGone(10, -9),
    worker_lines.TimedOut(1, 5.0),
    worker_lines.KeptOpen(1),
    worker_lines.Carried(1, "Scan.cloud", 9, 10),
    worker_lines.WorkerInit(1, 0, 5, "seed", "a/train.py", 7),
    ReadSums(1, 5, [PlaceReads('s3', 'bucket', 3, 900, 40, 1, 30, None, {300: 3})], True, 2),
    SampleCalls(
        1, 7, 90, [FunctionCalls("/me/a.py", "bank", 1, 9, "/me/a.py", 20, 2, 1, 50, 20, 3, 4, 800, False, True, 1)],
        80,
    ),
    LineRuns(1, "iteration", "after", False, 900, [LineRun("/me/a.py", 20, 300)]),
    program_lines.GradientRows("Adam", 30, 20, 5, 5, 1),
    bound_lines.BoundPlan(
        1, 100, 5, 6, 2, 1000, 32, False, [bound_lines.Reason("bound-bursts", {"batches": 3, "workers": 2})]
    ),
    bound_lines.BoundWindow(0, "live", 1.5, 20, 5, 3, stayed_on_host=True),
    bound_lines.BoundRoundVoid(0),
    bound_lines.BoundEnded(bound_lines.Reason("bound-few-steps", {"steps": 8, "needed": 14})),
]  # fmt: skip


def test_every_kind_is_here() -> None:
    assert {type(one) for one in LINES} == set(KINDS.values()) == set(get_args(lines.Line))


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_what_is_written_is_what_is_read(line: lines.Line) -> None:
    found = decoded(encoded(line))
    assert found == line
    for field in dataclasses.fields(line):
        assert type(getattr(found, field.name)) is type(getattr(line, field.name)), field.name
        for mine, theirs in zip(_inside(getattr(found, field.name)), _inside(getattr(line, field.name)), strict=True):
            assert type(mine) is type(theirs), field.name


def _inside(value: Any) -> list[Any]:
    return [*value.items()] if isinstance(value, dict) else value if isinstance(value, list) else [value]


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_a_line_that_is_cut_anywhere_is_none(line: lines.Line) -> None:
    text = encoded(line)
    assert all(decoded(text[:end]) is None for end in range(len(text) - 1))


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_a_field_of_another_type_is_not_believed(line: lines.Line) -> None:
    for name in get_type_hints(type(line)):
        wrong = dataclasses.replace(line, **{name: object.__name__ if not _text(line, name) else 7})
        assert decoded(encoded(wrong)) is None, name


@pytest.mark.parametrize("short", [True, False], ids=["too few", "too many"])
def test_the_time_of_a_pass_has_one_entry_for_each_row(short: bool) -> None:
    rows = [0] * (len(spent.ROWS) + (-1 if short else 1))
    assert decoded(encoded(lines.TimeSpent(5, 9, passes=[spent.SpentInPass(1, 0, rows)]))) is None


def _text(line: lines.Line, name: str) -> bool:
    return isinstance(getattr(line, name), str)


def test_a_watched_script_gets_no_library_of_the_readers() -> None:
    code = "import sys, pipebench.watch.launch.watched_script; print(sorted({'msgspec', 'psutil'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_settings_reach_the_script_as_they_are() -> None:
    for settings in (Settings("a"), Settings("b\udcff", 7, 3, 2, 1, ("a:b", "c:d"), 60)):
        assert Settings.decoded(settings.encoded()) == settings


@pytest.mark.parametrize(
    ("argv", "options", "kinds"),
    [
        (
            ["crossing", "2"],
            {"every": 7},
            {
                "ProcessStarted", "NewStage", "FetchSums", "BatchInFull", "LoaderFound", "PassBegun", "PassEnded",
                "LoopSums", "IterationInFull", "LibraryThreads", "Moment", "TimeSpent",
            },
        ),
        (["bound", "{tmp_path}"], {"bound": True, "steps": 60}, {"BoundPlan", "BoundWindow", "BoundEnded"}),
    ],
    ids=["plainly", "with the bound"],
)  # fmt: skip
def test_every_line_of_a_run_is_read(argv: list[str], options: dict[str, Any], kinds: set[str], tmp_path: Path) -> None:
    records = tmp_path / "records"
    arguments = [one.format(tmp_path=tmp_path) for one in argv[1:]]
    outcome = watched([script(argv[0]), *arguments], tmp_path, {**options, "records": str(records)})
    assert outcome.status == 0, outcome.err
    files = [path for path in records.iterdir() if path.name != "stop"]
    assert files and sum(read(path)[1] for path in files) == 0
    found = {type(line).__name__ for process in gather(records) for line in process.lines}
    assert found >= kinds
    assert not any("could not be read" in note for note in outcome.watch["notes"])
