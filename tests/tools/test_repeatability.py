"""What is said about the repeatability of `pipebench run`, from made-up runs whose answers are known."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).absolute().parents[2] / "tools"
DOCS = TOOLS.parent / "docs"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("repeatability")


def row(name, cost, ratio, width=0.1):
    around = [(1 - width), (1 + width)]
    return {
        "name": name,
        "cost": [cost, *(cost * one for one in around)],
        "ratio": ratio and [ratio, *(ratio * one for one in around)],
        "per_call_s": [[1.0, 1.1]] * 5,
    }


def run(*rows, hour=1, options=("--quick",), load=2.0):
    return {
        "began": f"2026-01-01T{hour:02}:00:00+00:00", "took_s": 60.0, "load_before": 1.0, "load_after": load,
        "machine": "a processor", "cpus": 2, "options": list(options), "rows": list(rows),
    }  # fmt: skip


def test_both_directions_count_and_a_reference_beside_itself_does_not(tool):
    narrow, wide = row("decode/rgb/a", 1.0, 2.0, width=0.1), row("decode/rgb/a", 1.5, 2.0, width=0.6)
    itself = {**row("decode/rgb/ref", 1.0, None), "ratio": [1.0, 1.0, 1.0]}
    rows = [{one["name"]: one for one in (mine, itself)} for mine in (narrow, wide)]
    (a, ref) = tool.covered(rows, "cost")
    assert (a[0], sorted(a[1])) == ("decode/rgb/a", [False, True])  # 1.5 is not within 1 ± 0.1; 1 is within 1.5 ± 0.9
    assert ref[1] == [True, True]
    assert [name for name, _, _ in tool.covered(rows, "ratio")] == ["decode/rgb/a"]


def test_the_report_pools_runs_with_the_same_options_by_stage(tool):
    lines = [
        run(row("decode/rgb/a", 1.0, 2.0), row("read/image/b", 1.0, 3.0), hour=1),
        run(row("decode/rgb/a", 1.05, 2.5), row("read/image/b", 1.0, 3.0), hour=2),
        run(row("decode/rgb/a", 1.0, 2.0), hour=3, options=("--stage", "decode")),
        run(row("decode/rgb/a", 9.0, 2.0), hour=4, load=3.1),
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
    assert said["decode", "ratio"] == "0%" and said["read", "ratio"] == "100%"
    assert said["decode", "cost"] == "100%"


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


def test_the_page_shows_what_the_file_says():
    """The table of the page is the tool's output on the stored runs."""
    stored = DOCS / "results" / "repeatability.jsonl"
    said = subprocess.run(
        [sys.executable, os.fspath(TOOLS / "repeatability.py"), "report", os.fspath(stored)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    page = (DOCS / "figures" / "repeatability.md").read_text(encoding="utf-8")
    assert said.rstrip() in page
