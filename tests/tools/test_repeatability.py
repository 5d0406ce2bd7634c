"""What is said about the repeatability of `pipebench run`, from made-up runs whose answers are known."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).absolute().parents[2] / "tools"
DOCS = TOOLS.parent / "docs"


def _steps(reference):
    """A reference varies in another order than the rest, so that a ratio has an interval."""
    return (2, -1, 0, 1, -2) if reference is None else (-2, -1, 0, 1, 2)


def row(name, level, reference=None, spread=0.01):
    """Five processes around a level. The ratio is that of the readings; [1, 1, 1] marks a reference."""
    ratio = [1.0, 1.0, 1.0] if reference is None else [reference / level] * 3
    readings = [[level * (1 + spread * step)] * 2 for step in _steps(reference)]
    return {"name": name, "cost": [level, level, level], "ratio": ratio, "per_call_s": readings}


def run(*rows, hour=1, options=("--quick",), load=2.0):
    return {
        "began": f"2026-01-01T{hour:02}:00:00+00:00", "took_s": 60.0, "load_before": 1.0, "load_after": load,
        "machine": "a processor", "cpus": 2, "options": list(options), "rows": list(rows),
    }  # fmt: skip


def test_an_interval_is_held_against_every_other_run_and_a_reference_beside_itself_is_not(tool):
    levels = [(1.0, 0.01), (1.5, 0.3), (1.0, 0.01)]
    runs = [
        run(row("decode/rgb/ref", 1.0), row("decode/rgb/a", *level[:1], reference=1.0, spread=level[1]), hour=hour)
        for hour, level in enumerate(levels)
    ]
    alone, _ = tool.rows_of(runs)
    found = {name: inside for name, inside, _ in tool.covered(alone, alone, "cost")}
    # the first promises nothing; the second is wide and holds both others; the third holds the first only
    assert sorted(found["decode/rgb/a"]) == [False, True, True, True]
    assert [name for name, _, _ in tool.covered(alone, alone, "ratio")] == ["decode/rgb/a"]


def test_earlier_runs_widen_what_a_run_promises(tool):
    names = [f"decode/rgb/{name}" for name in "abc"]
    runs = [
        run(*(row(name, factor * (1 + place)) for place, name in enumerate(names)), hour=hour)
        for hour, factor in enumerate([1.0, 1.3, 1.0, 1.3])
    ]
    alone, after = tool.rows_of(runs)
    assert alone[0] == after[0]  # nothing is known before the second run

    def share(promised):
        pairs = [one for _, inside, _ in tool.covered(alone, promised, "cost") for one in inside]
        return sum(pairs) / len(pairs)

    assert share(alone) < 0.5 and share(after) == 1.0


def test_the_report_pools_runs_with_the_same_options_by_stage(tool):
    def decoded(level):
        return row("decode/rgb/ref", 2.0), row("decode/rgb/a", level, reference=2.0)

    lines = [
        run(*decoded(1.0), row("read/image/b", 1.0), hour=1),
        run(*decoded(1.3), row("read/image/b", 1.0), hour=2),
        run(*decoded(1.0), hour=3, options=("--stage", "decode")),
        run(*decoded(9.0), hour=4, load=3.1),
    ]
    text = "\n".join(tool.report(lines))
    when = "2026-01-01T01:00:00+00:00 to 2026-01-01T02:00:00+00:00"
    assert f"pipebench run --quick, load up to 3: 2 runs, {when}" in text
    assert "pipebench run --quick, load above 3: 1 runs" in text
    assert "pipebench run --stage decode, load up to 3: 1 runs" in text
    text = text.partition("load above 3")[0]
    said = {
        tuple(line.split()[:2]): line.split()[3] for line in text.splitlines() if re.match(r"\w+ +(ratio|cost)", line)
    }
    assert said["decode", "ratio"] == "0%," and said["read", "cost"] == "100%,"
    assert said["decode", "cost"] == "50%,"


def test_the_readings_are_kept_by_process(tool):
    one = {
        "task": "decode/rgb", "variant": "a", "work": {"samples": 2}, "readings_s": [1.0, 2.0, 3.0],
        "over_reference": None,
        "calls_per_reading": 10, "readings_per_process": [2, 1],
        "summary": {"median_s": 0.2, "low_s": 0.1, "high_s": 0.4},
    }  # fmt: skip
    found = tool.line_of(one)
    assert found["per_call_s"] == [[0.1, 0.2], [0.3]]
    assert found["cost"] == [0.1, 0.05, 0.2]


@pytest.mark.parametrize("name", ["repeatability.jsonl", "repeatability_amd.jsonl"])
def test_the_page_shows_what_the_file_says(name):
    """The table of the page is the tool's output on the stored runs."""
    stored = DOCS / "results" / name
    said = subprocess.run(
        [sys.executable, os.fspath(TOOLS / "repeatability.py"), "report", os.fspath(stored)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    page = (DOCS / "figures" / "repeatability.md").read_text(encoding="utf-8")
    assert said.rstrip() in page
