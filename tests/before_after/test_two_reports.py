"""Two saved reports, of every kind, held against each other: rows, what differs besides, refusals, the gate."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from saved_pairs import LATER, PAIRS, SLOWER, lab, root, row, study, syncs, watched

from pipebench.before_after.whole import compared, kind_of
from pipebench.errors import PipebenchError, UsageError
from pipebench.render import text
from pipebench.render.before_after import no_result
from pipebench.results import report
from pipebench.results.before_after import ROW_VERDICTS, VERDICTS, BeforeAfter, Row, Side
from pipebench.results.check import Check
from pipebench.results.comparison import GATE_FAILED, GATE_PASSED, NO_RESULT
from pipebench.results.examination import Examination
from pipebench.results.loaders import SideBySide
from pipebench.results.measurement import Ceiling, Skipped
from pipebench.results.names import without_names
from pipebench.task import Workload

FILES = Path("base.json"), Path("head.json")
LIMIT = Ceiling("jpeg-decoder", "decode/rgb", samples_per_s=1200.0)
NUMBERS = {"boot": "31b2", "product": "55ee0142"}


def _compared(base, head, **more):
    return compared(base, head, FILES, **more)


@pytest.mark.parametrize("kind", PAIRS)
def test_every_kind_is_compared_saved_and_shown_again(kind, tmp_path):
    found = _compared(*PAIRS[kind], fail_above=0.05)
    assert found.kind == kind == kind_of(PAIRS[kind][0])
    assert found.verdict in VERDICTS and {one.verdict for one in found.rows} <= set(ROW_VERDICTS)
    made = root(before_after=found)
    report.save(made, tmp_path / "r.json")
    loaded = report.load(tmp_path / "r.json")
    assert loaded.before_after == found
    assert text.table(loaded, width=80) == text.table(made, width=80)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_report_beside_itself_shows_no_change(kind):
    base, _ = PAIRS[kind]
    found = _compared(base, base, fail_above=0.05)
    assert not found.differing and not found.exceeding and not found.appeared
    assert not {one.verdict for one in found.rows} & {"faster", "slower", "fewer", "more"}
    assert not (found.only_base or found.only_head)


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("gate", [None, 0.05])
def test_the_short_report_fits_a_screen(kind, gate):
    lines = text.table(root(before_after=_compared(*PAIRS[kind], fail_above=gate)), width=80).splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 80


def test_a_run_tells_what_changed_and_only_that():
    found = _compared(*PAIRS["run"], fail_above=0.05)
    told = {f"{one.group}/{one.name}": one.verdict for one in found.rows if one.verdict in ("faster", "slower")}
    assert told == {"decode/rgb/quick": "slower", "collate/float32/usual": "faster"}
    over = row(found, "usual")
    assert found.verdict == "some faster, some slower"
    assert found.gate == GATE_FAILED and found.exceeding == ("decode/rgb: quick",)
    assert [one.unit for one in found.rows if one.group == "loader"] == ["per-s"] and over.unit == "s"
    assert found.floor is not None and found.floor.source in ("earlier-runs", "these-rows")


def test_a_change_is_turned_round_when_the_files_are():
    there, back = _compared(*PAIRS["run"]), _compared(*reversed(PAIRS["run"]))
    one, other = (row(found, "quick").judgement.head_over_base for found in (there, back))
    assert one.speedup == pytest.approx(1 / other.speedup) and one.low == pytest.approx(1 / other.high)


def test_the_gate_passes_and_has_no_result():
    assert _compared(lab(), lab(seed=2), fail_above=0.05).gate == GATE_PASSED
    few = [lab(seed=seed, between_runs=None, loader=None, measurements=lab().measurements[:1]) for seed in (0, 1)]
    assert _compared(*few, fail_above=0.05).gate == NO_RESULT
    assert _compared(*PAIRS["calibrate"], fail_above=0.05).gate == NO_RESULT


def test_a_row_that_the_head_lost_leaves_the_gate_without_a_result():
    """A variant that fails there must not pass as one that is no slower."""
    base, head = lab(), lab(seed=2)
    failed = replace(head.measurements[1], failed="RuntimeError", summary=None)
    head = replace(head, measurements=(head.measurements[0], failed, *head.measurements[2:]))
    found = _compared(base, head, fail_above=0.05)
    assert found.gate == NO_RESULT and len(found.lost) == 1 and found.failed == found.lost
    assert f"no result of {found.lost[0]}" in " ".join(text.table(root(before_after=found), width=80).split())


def test_studies_in_another_order_are_those_of_the_same_name():
    base, head = study(1.5, 4), study(1.5, 2)
    other = replace(base.studies[0], study="other", size="default")
    base, head = replace(base, studies=(*base.studies, other)), replace(head, studies=(other, *head.studies))
    assert row(_compared(base, head), "syncs").verdict == "fewer"


def test_watch_says_what_changed_before_and_after():
    found = _compared(*PAIRS["watch"])
    assert found.wait == (0.6, 0.08)
    settings = [(one.name, one.base, one.head) for one in found.differing if one.of == "settings"]
    assert settings == [("num_workers of loader 1", "2", "6")]
    rate = row(found, "loader 1")
    assert rate.verdict == "faster" and rate.judgement.head_over_base.speedup == pytest.approx(0.1 / 0.037)
    assert [one.code for one in found.appeared] == ["oversubscribed-too"]
    assert [one.code for one in found.vanished] == ["oversubscribed"]
    assert row(found, "wait-for-worker").base == 25.0 and row(found, "wait-for-worker").judgement is None
    assert [(one.of, one.name) for one in found.differing if one.of == "versions"] == [("versions", "pillow")]


def test_a_loop_that_is_slower_than_two_runs_of_one_script_can_be_fails_the_gate():
    """Runs of one script are apart by 10 %: 1.1 times the time is not told, and 1.5 times is."""

    def slower(times):
        head = watched()
        first = head.watched.loaders[0]
        made = replace(head.watched, loaders=(replace(first, s_per_iteration=first.s_per_iteration * times),))
        return _compared(watched(), replace(head, watched=made), fail_above=0.05)

    assert slower(1.1).gate == GATE_PASSED
    assert slower(1.5).exceeding == ("loop: loader 1",)


def test_counts_are_exact():
    assert row(_compared(*PAIRS["syncs"]), "all sync points").verdict == "fewer"
    more = _compared(syncs(2), syncs(4), fail_above=0.5)
    assert more.verdict == "slower" and more.exceeding == ("a step: all sync points",)
    assert row(_compared(study(1.5, 4), study(1.5, 2)), "syncs").verdict == "fewer"


def test_operations_that_only_one_step_has_are_0_in_the_other():
    base, head = syncs(4), syncs(2)
    head = replace(head, sync_points=replace(head.sync_points, points=head.sync_points.points[:1]))
    found = _compared(base, head)
    assert [(one.base, one.head) for one in found.rows] == [(4, 2), (2, 1), (2, 0)] and not found.only_base


def test_the_evidence_counts_the_rows_that_the_verdict_is_about():
    """Found with 7 rows in the text and 8 in the JSON: a ceiling is shown, and not judged."""
    found = _compared(*(replace(lab(seed=seed), ceilings=(LIMIT,)) for seed in (0, 2)))
    made = root(before_after=found)
    assert made.verdict.evidence["rows"] == 17 < len(found.rows)
    assert "No difference that can be told in 17 rows." in text.table(made)


def test_reports_of_two_kinds_are_refused_by_name():
    with pytest.raises(UsageError, match=r"base\.json is a report of run, and head\.json one of watch\n"):
        _compared(lab(), watched())
    with pytest.raises(UsageError, match="reports of empty are not compared"):
        _compared(root(), root())
    checked = root(check=Check("photos", 1, 1, 0, 0.1))
    with pytest.raises(UsageError, match="reports of check are not compared"):
        _compared(checked, checked)
    examined = root(examination=Examination((), "photos", 1.0))
    with pytest.raises(UsageError, match="reports of doctor are not compared"):
        _compared(examined, examined)
    beside = root(loaders=SideBySide("photos", 8, 4, 224, 4, 2, 3, ()))
    with pytest.raises(UsageError, match="reports of loaders are not compared"):
        _compared(beside, beside)
    again = root(before_after=_compared(*PAIRS["run"]))
    with pytest.raises(UsageError, match="reports of compare are not compared"):
        _compared(again, again)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": replace(LATER, cpu="Another CPU")}, "machine, cpu: Some CPU and Another CPU"),
        ({"machine": replace(LATER, usable_cores=8.0)}, "machine, usable cores: 2 and 8"),
        ({"machine": None}, "machine, machine: vm and unknown"),
        (
            {"machine": replace(LATER, host="b", identity={"boot": "7", "product": "9d0f11cc"})},
            r"machine, machine: vm \(55ee01\) and b \(9d0f11\)",
        ),
        ({"workload": Workload(batch_size=32)}, "workload, batch size: 16 and 32"),
        ({"workload": Workload(data="web")}, "data, data: photos and web"),
        ({"data": report.Data("photos", 65, 105_000.0, 1.97, 0.46)}, "data, images: 64 and 65"),
        ({"data": report.Data("photos", 64, 90_000.0, 1.97, 0.46)}, "data, mean size"),
    ],
)
def test_another_machine_workload_or_data_needs_force(change, said):
    base = lab()
    base, other = replace(base, machine=replace(base.machine, identity=NUMBERS)), replace(lab(seed=1), **change)
    with pytest.raises(UsageError, match=said) as error:
        _compared(base, other)
    assert error.value.remedy.startswith("--force")
    found = _compared(base, other, force=True)
    assert found.forced and found.differing[0].apart


@pytest.mark.parametrize(("numbers", "name"), [(NUMBERS, "host"), ({}, "host (perhaps another machine)")])
def test_versions_and_the_name_of_the_host_need_no_force(numbers, name):
    """A container has another name at each start. Where nothing tells whether the machine is the same, that is said."""
    base, other = lab(), replace(LATER, host="elsewhere", memory_bytes=(1 << 34) + 4096, identity=numbers)
    base = replace(base, machine=replace(base.machine, identity=NUMBERS))
    found = _compared(base, replace(lab(seed=1), machine=other))
    assert {one.name for one in found.differing} == {name, "pillow"} and not found.forced


def test_two_redacted_reports_of_one_machine_need_no_force():
    """Each has tokens of its own in place of names."""
    pair = [replace(one, machine=replace(one.machine, identity=NUMBERS)) for one in (lab(), lab(seed=1))]
    found = _compared(*map(without_names, pair), force=True)
    assert not [one for one in found.differing if one.of == "machine" and one.apart]


def test_rows_of_one_report_alone_are_named():
    base = lab()
    gone = replace(base.measurements[0], summary=None, skipped=Skipped("not-built", "no"))
    found = _compared(base, replace(lab(seed=1), measurements=(gone, *base.measurements[1:])))
    assert found.only_base == ("decode/rgb: plain",) and found.only_head == ()
    with pytest.raises(PipebenchError, match="no row in common"):
        _compared(base, replace(lab(seed=1), measurements=(gone,), loader=None))


def test_a_saved_comparison_has_its_verdicts_for_programs():
    plain = json.loads(msgspec.json.encode(_compared(*PAIRS["run"], fail_above=0.05)))
    assert plain["gate"] == "failed" and plain["exceeding"] == ["decode/rgb: quick"]
    assert {one["verdict"] for one in plain["rows"]} == {"faster", "slower", "no difference detected"}
    assert set(SLOWER) == {f"{one['group']}/{one['name']}" for one in plain["rows"] if "ster" in one["verdict"]} | {
        "decode/rgb/quick"
    }


def test_a_row_of_a_gate_that_cannot_be_judged_leaves_it_without_a_result():
    """Found with one reading in the head, ten times as slow: the gate was "passed"."""
    found = BeforeAfter("run", Side("a"), Side("b"), (
        Row("decode/rgb", "pillow", "s", 1.0, 10.0, None, True), Row("decode/rgb", "opencv", "count", 1, 1, None, True),
    ), fail_above=0.05)  # fmt: skip
    assert found.gate == NO_RESULT and "decode/rgb/pillow" in no_result(found)
