"""The published table of what torch's threads lose is the report of the published lines."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "torch_threads.py"))


def test_the_published_table_is_the_report_of_the_published_lines() -> None:
    lines = [json.loads(one) for one in (ROOT / "docs/results/torch_threads.jsonl").read_text().splitlines()]
    assert f"```\n{TOOL['report'](lines)}```\n" in (ROOT / "docs/figures/watch.md").read_text()


def test_each_model_has_the_median_of_its_pairs_and_their_range() -> None:
    lines = [{"model": "MLP", "beside": "nobody", "all": 2.0, "fewer": one} for one in (1.0, 4.0, 3.0)]
    head, row = TOOL["report"](lines).splitlines()
    assert row == "MLP          1.50× (0.50–2.00)          -                          -"
    assert head.split("beside")[1:] == [" nobody              ", " a worker            ", " a busy process"]
