"""What earlier runs tell about the next one: simulated machines whose drift is known."""

import math
import os
import random
import statistics
import threading
from dataclasses import replace

import msgspec
import pytest

from pipebench.host.machine import Load, Machine
from pipebench.lab import earlier
from pipebench.results.earlier_runs import Figures, between, figures, widened
from pipebench.results.measurement import Measurement, Warning
from pipebench.results.report import BetweenRuns, Data, Report
from pipebench.stats import Speedup, compare_processes, summarize
from pipebench.task import Work, Workload

HOST = Machine("host", "Linux", "3.12", "a processor", 2.0, 1 << 34, 1 << 25, "ext4", None, "fork", {"torch": "2.4"})
ROWS = ("reference", "one", "two", "three", "four")


def _run(rng, drift=0.0, of_row=0.0, batch_size=16, factors=None, created="2026-01-01", scatter=0.02):
    """A report of 12 processes a row; `drift` moves all rows of the run alike, and `of_row` each on its own."""
    workload, common = Workload(data="d", batch_size=batch_size), rng.gauss(0, drift)
    own = {name: math.exp(common + rng.gauss(0, of_row)) * (factors or {}).get(name, 1.0) for name in ROWS}
    readings = {name: tuple(level * rng.lognormvariate(0, scatter) for _ in range(12)) for name, level in own.items()}
    alone = (1,) * 12
    rows = []
    for name, found in readings.items():
        over = compare_processes([[one] for one in found], [[one] for one in readings["reference"]])
        if name == "reference":
            over = Speedup(1.0, 1.0, 1.0, 0.95)
        rows.append(
            Measurement(
                "transform", "transform/t", name, workload, found, 1.0, 1, Work(4, 10, 10),
                summarize(found, 1, 4, alone), over, readings_per_process=alone,
            )
        )  # fmt: skip
    return Report(2, created=created, workload=workload, measurements=tuple(rows))


def _inside(report, other, kind):
    found = []
    for mine, theirs in zip(report.measurements, other.measurements, strict=True):
        if kind == "cost":
            found.append(mine.summary.low_s <= theirs.summary.median_s <= mine.summary.high_s)
        elif mine.variant != "reference":
            found.append(mine.over_reference.low <= theirs.over_reference.speedup <= mine.over_reference.high)
    return found


@pytest.mark.parametrize("kind", ["cost", "speed-up"])
def test_intervals_hold_the_next_run_of_a_machine_that_drifts(kind):
    rng, alone, known = random.Random(5), [], []
    for _ in range(150):
        runs = [_run(rng, drift=0.10, of_row=0.05) for _ in range(8)]
        told = between([figures(one) for one in runs[:7]])
        alone += _inside(runs[6], runs[7], kind)
        known += _inside(widened(runs[6], told), runs[7], kind)
    assert statistics.fmean(alone) < 0.5
    assert statistics.fmean(known) > 0.85


def test_where_runs_differ_about_as_much_as_processes_a_cost_holds_both():
    """The larger of the two would hold 93 %: neither knows of the other."""
    rng, known = random.Random(16), []
    for _ in range(300):
        runs = [_run(rng, drift=0.04, scatter=0.1) for _ in range(8)]
        known += _inside(widened(runs[6], between([figures(one) for one in runs[:7]])), runs[7], "cost")
    assert statistics.fmean(known) > 0.95


def test_a_steady_machine_gets_no_wider_intervals_than_its_processes_ask_for():
    rng = random.Random(6)
    runs = [_run(rng) for _ in range(8)]
    after = widened(runs[-1], between([figures(one) for one in runs]))
    halves = [one.summary.high_s / one.summary.median_s - 1 for one in after.measurements]
    assert statistics.median(halves) < 0.03  # each process scatters by 2 %


@pytest.mark.parametrize(("runs", "held"), [(2, 0.85), (5, 0.89)])
def test_how_often_few_runs_hold_the_next_one_is_as_the_docs_say(runs, held):
    rng, inside = random.Random(1), []
    for _ in range(600):
        drifts = [rng.gauss(0, 0.1) for _ in range(runs + 1)]
        found = [{name: math.exp(one + rng.gauss(0, 0.03)) for name in "abcdefghijkl"} for one in drifts]
        half = between([Figures("", "", costs, {}) for costs in found[:runs]]).cost
        inside += [abs(math.log(found[runs][name] / found[runs - 1][name])) <= half for name in found[0]]
    assert statistics.fmean(inside) == pytest.approx(held, abs=0.025)


def test_a_row_with_other_code_does_not_widen_the_others():
    rng = random.Random(7)
    runs = [_run(rng), _run(rng, factors={"two": 3.0})]
    told = between([figures(one) for one in runs])
    assert told.runs == 2 and told.cost < 0.2 and told.speedup < 0.2  # the logarithm of 3 is 1.1


def test_runs_with_too_few_rows_in_common_tell_nothing():
    rng = random.Random(8)
    one, other = figures(_run(rng)), figures(_run(rng))
    assert between([one]) is None and between([]) is None
    assert between([one, type(other)("", "", {"transform/t/one": 1.0, "else": 2.0}, {})]) is None


def test_a_reference_beside_itself_stays_1():
    rng = random.Random(9)
    runs = [_run(rng, drift=0.2) for _ in range(3)]
    after = widened(runs[-1], between([figures(one) for one in runs]))
    assert (after.measurements[0].over_reference.low, after.measurements[0].over_reference.high) == (1.0, 1.0)


def test_the_second_run_with_equal_settings_knows_of_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    rng = random.Random(10)
    assert earlier.with_earlier(_run(rng, drift=0.2)).between_runs is None
    assert earlier.with_earlier(_run(rng, drift=0.2, batch_size=32)).between_runs is None
    again = earlier.with_earlier(_run(rng, drift=0.2))
    assert again.between_runs.runs == 2
    for _ in range(20):
        again = earlier.with_earlier(_run(rng, drift=0.2))
    assert again.between_runs.runs == earlier.MOST_RUNS
    assert len(earlier._kept(earlier._place())) == 23


@pytest.mark.parametrize(
    "other",
    [
        {"data": Data("d", 90, 2e5, 1.4, 0.2)},  # another folder under the same relative path
        {"data": Data("d", 91, 1e5, 1.4, 0.2)},
        {"pipebench": "9.9"},
        {"machine": replace(HOST, usable_cores=1.0)},
        {"machine": replace(HOST, device="a GPU")},
    ],
)
def test_runs_on_other_data_or_code_or_machines_are_no_earlier_runs(tmp_path, monkeypatch, other):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    rng = random.Random(13)
    first, again = (
        replace(_run(rng, drift=0.2), data=Data("d", 90, 1e5, 1.4, 0.2), pipebench="1.0", machine=HOST)
        for _ in range(2)
    )
    assert earlier.with_earlier(first).between_runs is None
    assert earlier.with_earlier(replace(again, **other)).between_runs is None
    assert earlier.with_earlier(again).between_runs.runs == 2


@pytest.mark.parametrize(
    ("apart", "severity", "kept"),
    [(0.30, 0.15, False), (0.30, 0.50, True), (0.02, 0.15, True)],
    ids=["runs differ more", "processes differ more", "runs hardly differ"],
)
def test_more_processes_are_not_advised_where_runs_differ_more_than_processes(apart, severity, kept):
    warning = Warning("unstable", "± 15 % between 5 processes", "about 9 processes (--rigorous)", severity)
    report = _run(random.Random(14))
    report = replace(report, measurements=(replace(report.measurements[0], warnings=(warning,)),))
    shown = widened(report, BetweenRuns(3, apart, apart)).measurements[0].warnings[0]
    assert (shown == warning) == kept
    assert ("runs here differ by ± 30 %" in shown.remedy) != kept


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b'{"runs": [{"created": "", "costs": 1}]}'])
def test_a_damaged_memory_is_no_memory(tmp_path, monkeypatch, content):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    place = earlier._place()
    place.parent.mkdir()
    place.write_bytes(content)
    assert earlier.with_earlier(_run(random.Random(11))).between_runs is None
    assert len(earlier._kept(earlier._place())) == 1


@pytest.mark.parametrize("figure", [1e300, 1e-300, 0.0, -1.0])
def test_figures_that_no_run_can_find_are_no_memory(tmp_path, monkeypatch, figure):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    report = _run(random.Random(15))
    known = figures(report)
    earlier._place().parent.mkdir()
    earlier._place().write_bytes(
        msgspec.json.encode({"runs": [replace(known, costs=dict.fromkeys(known.costs, figure))]})
    )
    assert earlier.with_earlier(report) == report


def test_runs_that_end_at_the_same_time_are_both_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    rng = random.Random(14)
    other = threading.Thread(target=earlier.with_earlier, args=(_run(rng),))
    write_whole = earlier.write_whole

    def write_after_the_other_has_begun(*args):
        monkeypatch.setattr(earlier, "write_whole", write_whole)
        other.start()
        other.join(0.2)  # without the lock, it ends in this time
        write_whole(*args)

    monkeypatch.setattr(earlier, "write_whole", write_after_the_other_has_begun)
    earlier.with_earlier(_run(rng))
    other.join()
    assert len(earlier._kept(earlier._place())) == 2


def test_a_memory_that_cannot_be_written_is_no_failure(tmp_path, monkeypatch):
    (tmp_path / "runs").write_text("in the way")
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    report = _run(random.Random(12))
    assert earlier.with_earlier(report) == report


def test_a_pipe_in_the_place_of_the_memory_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    earlier._place().parent.mkdir()
    os.mkfifo(earlier._place())
    assert earlier._kept(earlier._place()) == ()


def test_a_run_beside_other_processes_tells_nothing_about_a_quiet_one():
    rng = random.Random(13)

    def beside(foreign_s):
        load, report = Load(10.0, 10.0 + foreign_s, 0.0, 10.0), _run(rng)
        return replace(report, measurements=tuple(replace(row, load=load) for row in report.measurements))

    quiet, busy = beside(1.0), beside(12.0)
    assert figures(quiet).settings != figures(busy).settings
