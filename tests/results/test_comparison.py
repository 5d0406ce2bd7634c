"""What follows from the rounds of a comparison is derived, also when a file says something else."""

import json
import re

import pytest

from pipebench.results import report
from pipebench.results.comparison import Change, Comparison, Judgement, Measured
from pipebench.stats import Speedup


def judged(longer, width=0.02, rounds=24):
    over = Speedup(1 / longer, 1 / (longer + width), 1 / (longer - width), 1 - 2 * 0.5**rounds)
    return Judgement(over, rounds, 0.99)


def change(longer=1.1, **more):
    rounds = (((0.02, 0.02 * longer), (0.03, 0.03)),) * 2
    return Change("a/b/c", judged(longer), rounds=rounds, calls_per_reading=5, samples_per_call=8, **more)


def test_times_are_those_of_one_sample():
    one = change(1.1)
    assert (one.base_s, one.head_s) == pytest.approx((0.004, 0.0044))
    assert (one.base_s_per_sample, one.head_s_per_sample) == pytest.approx((0.0005, 0.00055))
    other = change(1.1, head_samples_per_call=16)
    assert (other.base_s_per_sample, other.head_s_per_sample) == pytest.approx((0.0005, 0.000275))


@pytest.mark.parametrize(
    ("one", "verdict", "detectable"),
    [
        (change(1.1), "slower", True),
        (change(0.8), "faster", True),
        (change(1.0), "no difference detected", True),
        (Change("a/b/c", judged(1.1, rounds=3)), "too few rounds", False),
        (Change("a/b/c", skipped="not here"), "not measured", False),
        (Change("a/b/c", failed="it broke"), "failed", False),
    ],
)
def test_each_row_has_a_verdict_and_says_what_it_could_tell(one, verdict, detectable):
    assert one.verdict == verdict
    assert (one.detectable is not None) == detectable
    if detectable:
        assert one.detectable == one.judgement.head_over_base.smallest_change


@pytest.mark.parametrize(
    ("changes", "limit", "gate"),
    [
        ([change(1.1)], None, None),
        ([change(1.1)], 0.05, "failed"),
        ([change(1.1)], 0.2, "passed"),
        ([change(1.0), Change("d", failed="it broke")], 0.05, "no result"),
        ([Change("a/b/c", judged(1.1, rounds=3))], 0.05, "no result"),
        ([Change("a/b/c", judged(1.0, 0.6))], 0.05, "no result"),  # twice the time would not be seen
        ([Change("a/b/c", judged(1.0, 0.45))], 0.05, "passed"),
        ([Change("a/b/c", judged(0.3, 0.25))], 0.05, "passed"),  # it is faster for certain
        ([Change("a/b/c", skipped="not here")], 0.05, "no result"),
        ([change(1.0), Change("d")], 0.05, "no result"),  # the run was cut short before a round of it
    ],
)
def test_the_gate_says_what_the_exit_status_says(changes, limit, gate, capsys):
    from pipebench.commands.ab import _status

    found = Comparison("main", "mine", tuple(changes), limit)
    assert found.gate == gate and found.exceeding == (("a/b/c",) if gate == "failed" else ())
    if gate:
        assert _status(changes, limit) == {"failed": 3, "passed": 0, "no result": 1}[gate]


@pytest.fixture
def plain():
    sides = (Measured("main", "a" * 40, "b" * 40, ("/a",), "/a/python", "3.11.7"),) * 2
    made = report.new(comparison=Comparison("main", "mine", (change(1.1),), 0.05, sides, load=(0.5, 1.5)))
    return json.loads(report.encode(made))


def load(found, folder):
    (folder / "r.json").write_text(json.dumps(found))
    return report.load(folder / "r.json").comparison


def test_the_json_says_everything_that_a_program_asks(plain):
    found = plain["comparison"]
    (row,) = found["changes"]
    assert (row["verdict"], row["samples_per_call"], row["base_s_per_sample"]) == ("slower", 8, pytest.approx(0.0005))
    assert row["detectable"] == row["judgement"]["head_over_base"]["smallest_change"]
    assert (found["gate"], found["exceeding"], found["fail_above"]) == ("failed", ["a/b/c"], 0.05)
    assert found["load"] == [0.5, 1.5] and found["sides"][0]["python_version"] == "3.11.7"
    assert plain["machine"]["cpu"] and plain["machine"]["python"]


def test_a_file_cannot_contradict_its_own_readings(plain, tmp_path):
    before = load(plain, tmp_path)
    row = plain["comparison"]["changes"][0]
    row.update(verdict="faster", detectable=0.5, base_s_per_sample=1.0, head_s_per_sample=1.0, base_s=1.0, head_s=1.0)
    plain["comparison"].update(gate="passed", exceeding=[])
    assert load(plain, tmp_path) == before


def test_a_report_that_was_saved_before_there_were_these_fields_is_loaded_and_shown(plain, tmp_path):
    from pipebench.render import text

    found = plain["comparison"]
    for name in ("gate", "exceeding", "load", "said", "runs", "data"):
        del found[name]
    new = ("verdict", "detectable", "base_s_per_sample", "head_s_per_sample", "head_samples_per_call", "blocks")
    for name in new:
        del found["changes"][0][name]
    for side in found["sides"]:
        del side["python_version"]
    loaded = load(plain, tmp_path)
    assert loaded.gate == "failed" and loaded.changes[0].verdict == "slower"
    assert re.search(r"a/b/c +500 +550 ", text.table(report.load(tmp_path / "r.json")))


def test_readings_that_no_run_can_give_are_refused(plain, tmp_path):
    plain["comparison"]["changes"][0]["rounds"][0][0] = [0.0, 0.02]
    with pytest.raises(report.PipebenchError, match="figures that no run can give"):
        load(plain, tmp_path)
