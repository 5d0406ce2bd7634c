"""The table of the advice on published scripts: what was promised, and what the patched script gained plainly."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from advice_published import Published, by_hand, report, shown

DOCS = Path(__file__).parents[2] / "docs"
LINE = {"at": "2026-11-23T05:00:00+00:00", "load": 1.25, "budget_s": 60.0, "patched": True}


def _line(name, advised, promised, present=(), changed=()):
    plain = {"present": list(present), "advised": list(changed)} if present else {}
    return LINE | {"name": name, "advised": advised, "promised": promised, "plain": plain}


def test_a_promise_is_held_against_the_plain_runs_of_the_latest_line():
    rows = report([
        _line("train.py", "num_workers=2", [1.5, 1.3, 1.7], (20.0, 22.0), (10.0, 10.0)),
        _line("train.py", "num_workers=2", [1.5, 1.3, 1.7], (20.0, 24.0), (12.5, 16.0)),
        _line("main.py", "decoding only the crop", [2.0, 1.8, 2.2], (20.0,), (20.0,)),
        _line("fit.py", "one thread in workers", [2.0, 1.8, 2.2]),
        _line("idle.py", "", None),
    ]).splitlines()  # fmt: skip
    assert [line.split("  ")[0] for line in rows] == ["script", "train.py", "main.py", "fit.py", "idle.py"]
    assert rows[1].split()[-3:] == ["1.55", "yes", "1.2"] and rows[2].split()[-3:] == ["1.00", "no", "1.2"]
    assert rows[3].endswith("not written        1.2") and rows[4].split() == ["idle.py", "nothing", "1.2"]


def test_the_published_table_is_the_report_of_the_published_lines():
    lines = (DOCS / "results" / "advice_published.jsonl").read_text().splitlines()
    assert f"```\n{report(map(json.loads, lines))}```\n" in (DOCS / "figures" / "advice.md").read_text()


def test_a_change_is_shown_as_it_is_written():
    change = {"settings": {"num_workers": 4, "persistent_workers": True}, "title": "decoding only the crop"}
    assert shown(change) == "num_workers=4, persistent_workers=True, decoding only the crop"


def test_an_argument_stands_for_the_patch_where_a_library_makes_the_loader():
    one = Published("train.py", Path, ("--workers", "1", "-b", "8"), by_hand={"num_workers": "--workers"})
    change = {"settings": {"num_workers": 4}, "edits": {}, "one_thread": False}
    assert by_hand(one, change) == ("--workers", "4", "-b", "8")
    assert by_hand(one, change | {"settings": {"num_workers": 4, "prefetch_factor": 8}}) is None
    assert by_hand(one, change | {"one_thread": True}) is None
    line = _line("train.py", "num_workers=4", [1.5, 1.3, 1.7], (2.0,), (1.0,)) | {"patched": False}
    assert "num_workers=4 (an argument)" in report([line])
