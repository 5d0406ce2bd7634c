"""The user's names: planted in every place of a report that may hold one, and looked for in all that may be sent."""

import dataclasses
import re
import typing
from dataclasses import replace
from pathlib import Path

import every_report
import made_up
import pytest
from click.testing import CliRunner
from saved_pairs import PAIRS

from pipebench.before_after.whole import compared
from pipebench.commands.show import command as show
from pipebench.errors import BadSample
from pipebench.render import github, text
from pipebench.results import names, report
from pipebench.results.account import Cause
from pipebench.results.batches import SlowSample
from pipebench.results.comparison import Measured, Said
from pipebench.results.names import KINDS, without_names
from pipebench.results.next_move import NextMove
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.report import Report
from pipebench.results.watched import Note
from pipebench.terminal import delivered

# Texts that are no names: words of pipebench, of torch and of code. A new field is put here, or in `KINDS`.
REVIEWED = {
    "before_after.Side": "created pipebench",
    "before_after.Row": "group verdict",
    "before_after.BeforeAfter": "verdict gate exceeding",
    "over_time.Timeline": "tracks",
    "report.Report": "created pipebench error_of_watch data_sets",
    "machine.Machine": "system python cpu device start_method libraries",
    "measurement.Measurement": "stage task variant library gives_up ceiling",
    "measurement.Warning": "code",
    "measurement.Ceiling": "resource task library way",
    "errors.BadSample": "stage variant kind task",
    "check.Check": "decoders missing",
    "examination.Finding": "check",
    "check.Finding": "kind what remedy",
    "remote.Traffic": "failures",
    "loading.LoaderRow": "start_method",
    "loaders.LoaderResult": "name title does source library gives_up resumes",
    "engine.EngineRun": "library consumer",
    "engine.Operator": "name",
    "engine.StageCost": "name",
    "consumers.Consumer": "name device precision data source link date",
    "training.Training": "consumer",
    "watched.Verdict": "phase stage stage_kind wait_part dataset torch lacks",
    "hand_off.HandOff": "carried",
    "next_move.NextMove": "stage stage_kind wait_part made_by called_by function title how by slow_part carried",
    "watched.StageResult": "name kind",
    "watched.PhaseResult": "phase",
    "watched.WatchResult": "start_method",
    "watched.LoaderResult": "dataset start_method made_by called_by",
    "watched.Note": "code",
    "host_use.HostUse": "sharing_strategy",
    "host_use.ThreadPool": "where name set_with",
    "drilled.DrilledRow": "stage kind",
    "drilled.DrilledLine": "function calls title how",
    "drilled.NeedlessCall": "what function",
    "watched.WaitPart": "part",
    "reads.ReadPlace": "kind",
    "account.AccountRow": "code",
    "account.Cause": "code",
    "batches.SpanResult": "name",
    "sync_points.SyncReport": "function device unchecked",
    "sync_points.Operation": "name",
    "sync_points.CompiledRegion": "name",
    "comparison.Change": "benchmark verdict",
    "comparison.Difference": "part",
    "comparison.Outputs": "sides cached unseen",
    "comparison.Measured": "commit tree python_version",
    "comparison.Run": "created",
    "comparison.Comparison": "gate exceeding",
    "studies.StudyResult": "study title source size unit setting findings",
    "studies.StudyRow": "name what agreement gives_up",
    "studies.Author": "says over",
    "calibration.Calibration": "at",
    "calibration.PlantedFigure": "run name clock per part",
    "calibration.Slowdown": "batches clock",
    "advice.Change": "remedy cost pools group untried",
    "advice.Place": "name",
    "costs.StageShare": "name kind",
    "plan.Asked": "faster",
    "plan.Prediction": "limits",
    "ranks.SlowStage": "name kind",
}
PLANT = "pl4nted"
PLANTED = {
    "name": f"{PLANT}.jpg",
    "file": f"/home/{PLANT}/train.py",
    "data": PLANT,
    "line": f"read('{PLANT}')",
    "said": f"ValueError: no {PLANT} at https://me:{PLANT}@example.org",
    "side": f"feature/{PLANT} (0123abcd) STORE {PLANT}",
    "ours": f"see /mnt/{PLANT}/a.tar: {PLANT}.jpg is bad",
    "words": f"train.py --password {PLANT} ~/{PLANT}",
    "number": PLANT,
}
COMMAND = WatchedCommand(
    ("train.py", "--name", "x"), 1, (Program(1, "train.py", 0.0, 1.0, "failed", "it broke"),), None
)
FAILING = replace(
    made_up.COMPARISON, said=(Said("a warning", 1, 1),), sides=(Measured("main", None, None, ("/a",), "python"),) * 2
)
REPORTS = {
    **every_report.EXAMPLES,
    "ab": replace(every_report.EXAMPLES["ab"], comparison=FAILING, failure="it broke"),
    "watch": replace(every_report.EXAMPLES["watch"], command=COMMAND),
    "notes": replace(every_report.EXAMPLES["watch"], watched=replace(made_up.watched(), notes=(
        Note("fault", {"pid": 1, "fault": "a"}), Note("worker-lost", {"pid": 1, "sample": "a"}),
    ))),
}  # fmt: skip


def planted(found, kind=None):
    """The result with a planted text in place of each name."""
    if dataclasses.is_dataclass(found):
        kinds = KINDS.get(names._name_of(type(found)), {})
        fields = [one.name for one in dataclasses.fields(found) if one.init]
        return replace(found, **{one: planted(getattr(found, one), kinds.get(one)) for one in fields})
    if isinstance(found, list | tuple):
        return type(found)(planted(one, kind) for one in found)
    if isinstance(found, dict):
        of = names._of_value if kind == "values" else lambda key, one: kind
        return {key: planted(one, of(key, one)) for key, one in found.items()}
    return PLANTED[kind] if isinstance(found, str) and kind is not None and found else found


def sent(found):
    """Everything that a report is turned into."""
    yield text.table(found, full=True)
    yield text.table(found)
    yield text.markdown(found)
    yield report.encode(found).decode()
    if found.comparison is not None:
        yield from github.commands(found.comparison, {})


@pytest.mark.parametrize("name", REPORTS)
def test_no_name_leaves_in_any_output(name):
    found = planted(REPORTS[name])
    assert (PLANT in report.encode(found).decode()) == (name != "study")  # which has no names
    for one in sent(without_names(found)):
        assert PLANT not in one, re.findall(rf".*{PLANT}.*", one)[:5]


def test_a_file_and_a_field_have_one_token_in_a_cause_and_in_the_next_move():
    file, only = f"/home/{PLANT}/a {PLANT}/the {PLANT}", f"'{PLANT}.jpg'"
    cause = Cause("stage", 1.0, values={"slow_file": file, "only": only})
    cause, move = without_names((cause, NextMove("decode-fewer-fields", 2, file=file, setting=only)))
    assert PLANT not in f"{cause} {move}"
    assert cause.values == {"slow_file": move.file, "only": move.setting}


NAMED = f"/home/{PLANT}/{PLANT}.py"


def syncs(*paths):
    points = tuple(replace(made_up.SYNCS.points[0], path=one) for one in paths)
    return replace(PAIRS["syncs"][0], sync_points=replace(made_up.SYNCS, points=points))


def watched(count):
    whole = PAIRS["watch"][0]
    loaders = tuple(replace(one, file=NAMED) for one in whole.watched.loaders)
    return replace(whole, watched=replace(whole.watched, loaders=loaders[:count]))


@pytest.mark.parametrize(
    "sides", [(syncs(NAMED), syncs(f"{PLANT}.py")), (watched(2), watched(1)), (watched(1), watched(2))]
)
def test_no_name_leaves_from_what_a_comparison_calls_after_files(sides):
    found = report.new(before_after=compared(*sides, (Path("base.json"), Path("head.json"))))
    assert PLANT in report.encode(found).decode()
    for one in sent(without_names(found)):
        assert PLANT not in one, re.findall(rf".*{PLANT}.*", one)[:5]


def blank(kind, name, value):
    """A part of a report in which only this field is known."""
    found = object.__new__(kind)
    for one in dataclasses.fields(kind):
        object.__setattr__(found, one.name, value if one.name == name else None)
    return found


@pytest.mark.parametrize("field", [f"{kind}.{one}" for kind, found in KINDS.items() for one in found])
def test_no_name_leaves_from_any_field(field, monkeypatch):
    kind, _, name = field.rpartition(".")
    made = next(one for one in classes(Report) if names._name_of(one) == kind)
    monkeypatch.setattr(made, "__post_init__", lambda self: None, raising=False)  # it needs what is not known here
    meant = KINDS[kind][name]
    text_of = {"sample": PLANT, "deep": {"file": PLANT}, "other": PLANTED["ours"]}
    text_of = text_of if meant == "values" else PLANTED[meant]
    for value in (text_of, (text_of, text_of)):
        after = without_names((blank(made, name, value), every_report.EXAMPLES["watch"].watched.slowest))[0]
        assert PLANT in str(value) and PLANT not in str(getattr(after, name))


def test_one_name_has_one_token_in_a_report_and_another_in_the_next():
    parts = (
        BadSample("read", "cat.jpg", None, "empty", "ValueError: cat.jpg is bad", 0.0),
        SlowSample("cat.jpg", 1, 0, 1.0),
    )
    (bad, slow), again = without_names(parts), without_names(parts)
    assert bad.sample == slow.name == bad.sample != again[1].name and re.fullmatch("name-[0-9a-f]{8}", slow.name)
    assert re.fullmatch("ValueError: said-[0-9a-f]{8}", bad.message)


def test_what_a_reader_needs_stays():
    comparison = made_up.COMPARISON
    assert without_names(
        replace(comparison, base="main (0123abcd)", head="HEAD (4567cdef) OMP_NUM_THREADS=2")
    ).head == ("HEAD (4567cdef) OMP_NUM_THREADS=2")
    branch = without_names(replace(comparison, head="fix/x (4567cdef) STORE")).head
    assert re.fullmatch(r"branch-[0-9a-f]{8} \(4567cdef\) STORE", branch)
    lab = every_report.EXAMPLES["lab"]
    assert without_names(lab, {lab.workload.data}).workload == lab.workload
    assert without_names(lab, {lab.workload.data}).measurements == lab.measurements


def test_of_a_command_line_the_options_stay():
    found = without_names(
        report.Report(2, started_by=f"pipebench run --data /home/{PLANT} --limit={PLANT} -p{PLANT} -m")
    ).started_by
    assert re.fullmatch(r"pipebench run --data word-\w{8} word-\w{8} word-\w{8} -m", found)


def classes(root, seen=None):
    """Every class of which a report may have a part."""
    seen = set() if seen is None else seen
    if dataclasses.is_dataclass(root) and root not in seen:
        seen.add(root)
        for hint in typing.get_type_hints(root).values():
            classes(hint, seen)
    for inner in typing.get_args(root):
        classes(inner, seen)
    return seen


def holds_text(hint):
    if typing.get_origin(hint) is typing.Literal:
        return False
    return hint is str or any(holds_text(one) for one in typing.get_args(hint))


def test_somebody_has_decided_for_each_text_whether_it_is_a_name():
    undecided = {
        f"{names._name_of(kind)}.{field}"
        for kind in classes(Report)
        for field, hint in typing.get_type_hints(kind).items()
        if holds_text(hint) and field not in KINDS.get(names._name_of(kind), {})
    }
    assert undecided - {f"{kind}.{one}" for kind, found in REVIEWED.items() for one in found.split()} == set()


@pytest.mark.parametrize("sent", [True, False])
def test_what_a_workflow_shows_and_keeps_of_a_comparison_has_no_name(sent, tmp_path, capsys):
    file = tmp_path / "pipebench.json"
    delivered(planted(REPORTS["ab"]), "markdown", file, sent=sent)
    assert (PLANT in capsys.readouterr().out, PLANT in file.read_text()) == (not sent, not sent)


def test_show_redacts_a_saved_report_and_saves_it_again(tmp_path):
    whole, less = tmp_path / "whole.json", tmp_path / "less.json"
    report.save(planted(every_report.EXAMPLES["watch"]), whole)
    for style in ("table", "markdown", "json"):
        options = ["--full", "--format", style, "--redact", "--export-json", str(less), "--force"]
        done = CliRunner().invoke(show, [str(whole), *options])
        assert done.exit_code == 0 and PLANT not in done.output + less.read_text(), done.output
    assert PLANT in CliRunner().invoke(show, [str(whole), "--full"]).output
    assert report.load(less).watched.iterations == report.load(whole).watched.iterations
