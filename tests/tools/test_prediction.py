"""The evidence on predictions is counted as it should be: a made-up passport whose predictions are known."""

import sys

import msgspec
import pytest
from made_up_costs import made

from pipebench.results.costs import Passport, StageShare


def _line(case, measured, **costs):
    """8 samples a batch; each batch sleeps 100 ms, and the loop 10 ms."""
    passport = Passport(made(blocked=0.1, step=0.01, **costs), (StageShare("Costly.wait", "label", 1.0),), 2.0)
    return {
        "case": case, "s_per_iteration": measured, "others": dict.fromkeys(measured, 0.0),
        "passport": msgspec.to_builtins(passport), "began": "2026-01-01T00:00:00+00:00", "load": [0.5, 1.5],
    }  # fmt: skip


def test_each_prediction_stands_beside_what_was_measured(tool):
    line = _line("sleep", {"0 workers": 0.11, "2 workers": 0.03, "sleep 2× faster, 1 workers": 0.05})
    found = {one.label: one for one in tool.rows([line])}
    assert list(found) == ["0 workers", "2 workers", "sleep 2× faster, 1 workers"]
    assert found["0 workers"].error == pytest.approx(0.0, abs=0.02) and found["0 workers"].inside
    assert found["2 workers"].error == pytest.approx(-0.4, abs=0.02) and not found["2 workers"].inside
    assert found["sleep 2× faster, 1 workers"].error == pytest.approx(0.0, abs=0.02)


def test_the_table_counts_errors_and_intervals(tool):
    text = "\n".join(tool.table([_line("sleep", {"0 workers": 0.11, "1 workers": 0.1, "2 workers": 0.03})]))
    assert "- all: 3 predictions" in text and "2 inside" in text and "load average 0.5 to 1.5" in text
    assert "| `sleep` | 2 workers | 20.0 | 33.3 | -40.0 % | outside |" in text


def test_a_passport_of_a_smaller_machine_is_asked_for_more(tool):
    """Ten milliseconds of computing: 100 a second on one core, and 50 with half a core."""
    line = _line("compute", {"1 workers, 1 core": 0.01, "2 workers": 0.005, "8 workers": 0.001})
    small = Passport(made(cpu=0.01), (), 0.5)
    line["smaller"] = {"a quota of 0.5 cores": msgspec.to_builtins(small)}
    found = {one.label: one for one in tool.rows([line]) if one.fitted}
    assert set(found) == {"1 workers, 1 core", "2 workers"}  # no other is asked for
    assert all(one.error == pytest.approx(0.0, abs=0.02) and one.inside for one in found.values())
    assert "| `compute` | 2 workers, fitted on a quota of 0.5 cores | 200.0 |" in "\n".join(tool.table([line]))


def test_the_times_of_other_runs_are_a_prediction_without_a_model(tool):
    """Twice as fast a machine changes nothing. Of two workers, the other runs gained 2.0, and these 1.6."""
    line = _line("sleep", {"0 workers": 0.11, "1 workers": 0.1, "2 workers": 0.0625})
    other = _line("sleep", {"0 workers": 0.055, "1 workers": 0.05, "2 workers": 0.025, "4 workers": 0.01})
    text = "\n".join(tool.repeat([line], [other]))
    assert "- measured in the other runs: 2 settings, median error 12.5 %, worst 25.0 %, 1 within 15 %." in text
    assert "Farthest: `sleep` 2 workers +25.0 %, `sleep` 0 workers" in text
    assert "- predicted from one run of one worker: 2 settings, " in text
    assert "nothing to compare" in "\n".join(tool.repeat([line], [_line("bursty", {"1 workers": 0.1})]))


def test_numbers_are_kept_short(tool):
    assert tool._rounded({"a": (0.123456789, 3, None)}) == {"a": [0.12346, 3, None]}


def test_the_script_has_every_case_that_is_asked_for(tool):
    script = sys.modules["prediction_script"]
    assert all(
        one.case is None or one.case == "images-uint8" for case in script.PLANTED for one in tool.questions(case)
    )


def test_clocks_say_how_far_the_same_work_repeats(tool, monkeypatch):
    readings = iter([[0.001, 0.0011], [0.0012, 0.0015], [0.002, 0.002], [0.002, 0.0021]])
    monkeypatch.setattr(tool, "_medians", lambda statement: next(readings))
    assert list(tool.clocks(2)) == [
        "a loop in Python: 1.000 to 1.500 ms, 50% more at most\n", "hashes: 2.000 to 2.100 ms, 5% more at most\n",
    ]  # fmt: skip
