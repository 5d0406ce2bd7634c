"""The evidence on `pipebench ab` is counted as it should be: made-up runs whose answers are known."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).absolute().parents[2] / "tools"
DOCS = TOOLS.parent / "docs"
CLOCK = {"true_of_sums": 0.05, "true_in_first_round": 0.02, "call_change": 0.001}


@pytest.fixture
def tool(monkeypatch):
    """Imports one of the tools by name."""
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module


@pytest.fixture
def report(tool):
    return tool("noise_report")


def row(name="read", change=0.0, width=0.01, verdict="~", true=0.0, rounds=20, **more):
    return {
        "benchmark": name, "change": change, "low": change - width, "high": change + width, "verdict": verdict,
        "confidence": 0.995, "rounds": rounds, "base_s": 0.001, "true": true, **more,
    }  # fmt: skip


def run(*rows, planted=0.0, load=1.0, hour=1):
    return {
        "began": f"2026-01-01T{hour:02}:00:00+00:00", "took_s": 60.0, "load_before": load, "load_after": load,
        "machine": "a processor", "cpus": 2, "budget_s": 60.0, "planted": planted, "benchmarks": list(rows),
    }  # fmt: skip


def test_a_family_with_two_alarms_counts_once_and_faster_is_an_alarm_too(report):
    quiet = run(row("read"), row("step"))
    twice = run(row("read", 0.05, verdict="slower"), row("step", 0.05, verdict="slower"))
    faster = run(row("read"), row("step", -0.05, verdict="faster"))
    found = [row(name, 0.03, verdict="slower", true=0.03, **CLOCK) for name in ("read", "step")]
    right = run(*found, planted=0.03)
    lines = [quiet, twice, quiet, faster, right]
    assert report.alarms(lines) == [twice, faster]
    assert "runs with a false alarm: 2 of 4 (6.8 to 93.2 %)\n" in report.report(lines)


def test_an_interval_that_misses_is_counted_and_one_of_too_few_rounds_is_left_out(report):
    hit, edge, miss = row(change=0.03, true=0.025), row(change=0.03, true=0.02), row(change=0.03, true=0.0199)
    few = row(change=0.03, true=0.03, width=5.0, rounds=10)
    lines = [run(one, row("step", true=0.0), planted=0.03) for one in (hit, edge, miss, few)]
    said = report.coverage(lines)
    assert said[0] == "intervals that contain the true change: 6 of 7 (42.1 to 99.6 %)"
    assert said[1] == "runs in which all intervals do: 2 of 3 (9.4 to 99.2 %)"


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 30, 0.0, 0.11570), (30, 30, 0.88430, 1.0), (5, 10, 0.18709, 0.81291), (1, 10, 0.00253, 0.44502)],
)
def test_the_exact_interval_of_a_count(report, hits, of, low, high):
    """Of none in n the upper end is 1 - 0.025^(1/n); the others are tabled."""
    assert report.clopper_pearson(hits, of) == pytest.approx((low, high), abs=1e-5)


def test_the_exact_interval_does_not_break_at_many_counts(report):
    low, high = report.clopper_pearson(990, 2000)
    assert low < 0.495 < high and high - low < 0.05


def test_the_truth_is_the_middle_round(report):
    def one(call, share, all_call=1, all_more=0):
        return {"middle_call_ns": call, "share": share, "call_ns": all_call, "more_ns": all_more}

    base = [one(1000, 0), one(1000, 0), one(2000, 0)]
    head = [one(1000, 0.02, 6000, 500), one(1010, 0.03, 6000, 600), one(2000, 0.05, 8000, 900)]
    found = report.truth(base, head)
    assert found["true"] == pytest.approx(0.03)
    assert (found["true_in_first_round"], found["true_of_sums"]) == pytest.approx((0.02, 0.1))
    assert (found["true_from"], found["true_to"]) == pytest.approx((0.025, 0.04))
    assert found["call_change"] == pytest.approx(0.0)
    with pytest.raises(ValueError):
        report.truth(base[:2], head)


def test_a_report_in_full(report):
    """Power, coverage and width of one benchmark, and the ranges of time and load."""
    lines = [
        run(row(change=0.03, verdict="slower", true=0.03, **CLOCK), planted=0.03, load=2.0, hour=7),
        run(row(change=0.01, true=0.03, **{**CLOCK, "true_in_first_round": 0.06}), planted=0.03, load=4.0, hour=9),
        run(row(), hour=8),
    ]
    assert report.report(lines) == (
        "3 runs from 2026-01-01T07:00:00+00:00 to 2026-01-01T09:00:00+00:00; in brackets: exact 95% intervals\n"
        "3 on a processor, 2 CPUs\n"
        "\n"
        "METHOD 1\n"
        "equal code, runs of 60 s: 1, with enough rounds for every benchmark: 1\n"
        "load 1.0 to 1.0, median 1.0\n"
        "benchmark          called changed  interval contains truth  half width  rounds\n"
        "read       0 of 1 (0.0 to 97.5 %)  1 of 1 (2.5 to 100.0 %)       1.0 %      20\n"
        "runs with a false alarm: 0 of 1 (0.0 to 97.5 %)\n"
        "of those with enough rounds for every benchmark: 0 of 1 (0.0 to 97.5 %)\n"
        "intervals that contain the true change: 1 of 1 (2.5 to 100.0 %)\n"
        "runs in which all intervals do: 1 of 1 (2.5 to 100.0 %)\n"
        "\n"
        "3.0 % more work, runs of 60 s: 2, with enough rounds for every benchmark: 2\n"
        "load 2.0 to 4.0, median 3.0\n"
        "benchmark            found slower  true change  interval contains truth  half width  rounds\n"
        "read       1 of 2 (1.3 to 98.7 %)        3.0 %   1 of 2 (1.3 to 98.7 %)       1.0 %      20\n"
        "found at loads up to 3, 1 run: 1 of 1 (2.5 to 100.0 %)\n"
        "found at higher loads, 1 run: 0 of 1 (0.0 to 97.5 %)\n"
        "wrongly called faster: 0\n"
        "intervals that contain the true change: 1 of 2 (1.3 to 98.7 %)\n"
        "runs in which all intervals do: 1 of 2 (1.3 to 98.7 %)\n"
        "intervals that contain the ratio of summed times: 0 of 2 (0.0 to 84.2 %)\n"
        "original call in the head against the base, median: +0.10 %\n"
        "\n"
        "all runs of this method\n"
        "intervals that contain the true change: 2 of 3 (9.4 to 99.2 %)\n"
        "runs in which all intervals do: 2 of 3 (9.4 to 99.2 %)\n"
        "intervals that contain the ratio of summed times: 0 of 2 (0.0 to 84.2 %)\n"
        "original call in the head against the base, median: +0.10 %\n"
        "\n"
        "added work as a share of the plan, median (quartiles) over all planted runs\n"
        "benchmark           first round          median round\n"
        "read       133 % (100 to 167 %)  100 % (100 to 100 %)\n"
    )


def test_runs_of_different_methods_are_never_pooled(report):
    alarm, quiet = run(row("read", 0.05, verdict="slower")), {**run(row("read")), "method": 2, "commit": "abc"}
    first, second = report.report([alarm, quiet]).split("METHOD 2\n")
    assert "runs with a false alarm: 1 of 1" in first and "by commit" not in first
    assert "runs with a false alarm: 0 of 1" in second and "by commit abc\n" in second


def test_runs_of_too_few_rounds_are_neither_right_nor_wrong(report):
    few = run(row(width=5.0, rounds=10, verdict="slower"), row("step", width=5.0, rounds=9))
    half = run(row(), row("step", width=5.0, rounds=10))
    assert "nothing can be told: 10 rounds at most, and too few everywhere" in report.report([few, few])
    said = report.report([few, half])
    assert "runs of 60 s: 2, with enough rounds for every benchmark: 0\n" in said
    assert "read       0 of 1 (0.0 to 97.5 %)  1 of 1 (2.5 to 100.0 %)       1.0 %      15\n" in said
    assert "of those with enough rounds for every benchmark: none\n" in said


class Runner:
    """A call takes 1000 ns of a made-up clock, as does each of its warm-up calls."""

    now = 0

    def __init__(self):
        self._armed = {}

    def arm(self, identity, workload, keys):
        def block(calls):
            Runner.now += 1000 * calls

        self._armed[identity] = ("task", block)
        return "work"

    def reading(self, identity, calls):
        begin = Runner.now
        self._armed[identity][-1](calls)
        return Runner.now - begin, None


def test_the_plant_records_its_own_time(tool, monkeypatch, tmp_path):
    plant, ended = tool("noise_plant"), []
    monkeypatch.setenv("NOISE_CLOCK", str(tmp_path))
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(plant, "work", lambda steps: setattr(Runner, "now", Runner.now + 2 * steps))
    planted = type("Planted", (Runner,), {})
    plant.plant(planted, 0.03, clock=lambda: Runner.now)
    runner = planted()
    assert runner.arm("read/image/open", None, ()) == "work"
    os._exit(7)
    assert ended == [7] and not list(tmp_path.iterdir())  # armed, and nothing was read
    path = plant.kept_in(tmp_path, 0.03, "read/image/open")
    path.write_text("the process that sizes\n")
    for calls in (1, 4, 4):
        assert runner.reading("read/image/open", calls) == (calls * 1030, None)
    os._exit(0)
    (line,) = plant.rounds_in(path)
    assert line == {"steps": 15, "read": [[1, 1000, 30], [4, 4000, 120], [4, 4000, 120]]}
    said = {"call_ns": 8000, "more_ns": 240, "middle_call_ns": 4000, "share": 0.03}
    assert plant.summed(line, 2) == said  # without the reading that warms up
    assert int(plant.read(path.with_suffix(".steps"))) == 15 and plant.read(tmp_path / "none") == b""
    path.with_suffix(".steps").write_text("000000000000020")
    assert runner.arm("read/image/open", None, ()) == "work"
    assert runner.reading("read/image/open", 1) == (1040, None)


def test_the_plant_follows_what_a_call_takes_in_a_round(tool):
    """Calls while both sides arm take twice as long: only the first round has twice the work."""
    steps_for = tool("noise_plant").steps_for
    rounds = [{"steps": 30, "read": [[2, call, 120]]} for call in (1800, 2000, 9000)]
    assert steps_for(0.03, rounds, None, None) == 15
    assert steps_for(0.0, rounds, None, None) == 0


def test_the_two_planted_commits_differ_in_one_number(tool, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "pipebench").mkdir()
    (tmp_path / "pipebench" / "anywhere.py").write_text("import os\n\n\nclass LocalRunner:\n    pass\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    tool("noise").with_more_work(tmp_path, 0.05)
    done = subprocess.run([*git, "diff", "-U0", "HEAD~1"], cwd=tmp_path, check=True, capture_output=True, text=True)
    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ["-plant(LocalRunner, 0.0)", "+plant(LocalRunner, 0.05)"]


def found(**more):
    """A benchmark as `ab --format json` has it: 3 % slower (1 to 5 %), which the readings support."""
    reading = {"rounds": [[[0.1, 0.1]] * 3] * 2, "base_s": 0.1, "skipped": None, "failed": None}
    return {"benchmark": "read/image/open", "judgement": judged(1.03, 1.01, 1.05), **reading, **more}


def judged(times, low, high):
    over = {"speedup": 1 / times, "low": 1 / high, "high": 1 / low, "confidence": 0.99, "smallest_change": 0.02}
    return {"head_over_base": over, "rounds": 2, "wanted": 0.99}


def test_what_ab_says_is_kept_with_what_the_clock_says(tool, tmp_path):
    noise, plant = tool("noise"), tool("noise_plant")
    sizing, looking = [[1, 900, 27]] * 2, [[1, 900, 270]] * 3  # the first line and the last ones are no rounds
    for change, more in ((0.0, 0), (0.03, 27)):
        rounds = [[[1, 900, more]] * (3 + warming) for warming in (3, 0)]
        lines = [json.dumps({"steps": 9, "read": one}) for one in (sizing, *rounds, looking)]
        plant.kept_in(tmp_path, change, "read/image/open").write_text("\n".join(lines) + "\n")
    made = noise.benchmark(found(), 0.03, tmp_path)
    assert (made["change"], made["low"], made["high"], made["verdict"]) == (0.03, 0.01, 0.05, "slower")
    assert (made["true"], made["rounds"]) == (0.03, 2)
    equal = noise.benchmark(found(judgement=judged(0.97, 0.9, 1.02)), 0.0, tmp_path)
    assert (equal["verdict"], equal["true"]) == ("~", 0.0)
    assert noise.benchmark(found(judgement=judged(0.97, 0.95, 0.99)), 0.0, tmp_path)["verdict"] == "faster"
    with pytest.raises(SystemExit, match=r"ab judged \[3, 4\] readings by round, and the clock has \[6, 3\]"):
        noise.benchmark(found(rounds=[[[0.1, 0.1]] * 3, [[0.1, 0.1]] * 4]), 0.03, tmp_path)
    with pytest.raises(SystemExit, match="was not measured: it broke"):
        noise.benchmark(found(judgement=None, failed="it broke"), 0.0, tmp_path)


def test_the_published_tables_are_the_report_of_the_published_runs(report):
    lines = (DOCS / "results" / "noise.jsonl").read_text().splitlines()
    page = (DOCS / "figures" / "noise.md").read_text()
    assert f"```\n{report.report([json.loads(line) for line in lines])}```\n" in page


@pytest.mark.long
def test_whole_runs_are_appended_with_a_true_change(tmp_path):
    save = tmp_path / "noise.jsonl"
    for what in (["equal"], ["planted", "--change", "0.05"]):
        command = [sys.executable, os.fspath(TOOLS / "noise.py"), *what, "--budget", "10", "--save", os.fspath(save)]
        subprocess.run(command, check=True)
    equal, planted = [json.loads(line) for line in save.read_text().splitlines()]
    assert [one["planted"] for one in (equal, planted)] == [0.0, 0.05]
    assert all(one["true"] == 0.0 for one in equal["benchmarks"])
    assert all(one["true"] > 0 for one in planted["benchmarks"])
