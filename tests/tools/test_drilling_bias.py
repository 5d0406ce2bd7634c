"""The evidence on the lines of large rows is counted as it should be, and the page shows the report of its file."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).absolute().parents[2] / "docs"


def planted(how, true, seen):
    about = {"at": "2026-01-02T03:04:05+00:00", "load": 1.5, "python": "3.11.7", "cpus": 2}
    return {**about, "how": how, "mixture": "short pieces", "looks": sum(seen.values()), "true": true, "seen": seen}


def test_a_share_outside_its_interval_is_counted_with_how_far_it_lies_outside(tool):
    assert tool.beyond(0.5, 10, 20) == 0.0
    assert tool.beyond(0.2, 10, 20) == pytest.approx(0.2993 - 0.2, abs=1e-4)
    assert tool.beyond(0.9, 10, 20) == pytest.approx(0.9 - 0.7007, abs=1e-4)


def test_the_report_says_what_was_planted_and_what_was_seen(tool):
    true = {"pure_python": 0.5, "sleeping": 0.5}
    lines = [
        planted("outside", true, {"pure_python": 10, "sleeping": 9, "-": 1}),
        planted("inside", true, {"sleeping": 20}),
    ]
    said = "\n".join(tool.report(lines))
    assert "pure_python                true  50.0%  seen   0.0%  beyond its interval  33.9%" in said
    assert "anything else              true   0.0%  seen   5.0%" in said
    assert "from outside: 2 of 2 shares within their interval; worst 0.0% beyond" in said
    assert "from inside: 0 of 2 shares within their interval; worst 33.9% beyond" in said


def test_the_page_shows_the_report_of_its_file(tool):
    lines = [json.loads(line) for line in (DOCS / "results" / "drilling.jsonl").read_text().splitlines()]
    assert "\n".join(tool.report(lines)) in (DOCS / "figures" / "drilling.md").read_text()


def test_the_allowance_covers_what_was_found(tool):
    from pipebench.watch.read.drilled import BIAS

    lines = [json.loads(line) for line in (DOCS / "results" / "drilling.jsonl").read_text().splitlines()]
    shares = [(one, name) for one in lines if one["how"] == "outside" for name in one["true"]]
    assert len(shares) >= 13
    assert all(tool.beyond(one["true"][name], one["seen"].get(name, 0), one["looks"]) <= BIAS for one, name in shares)
