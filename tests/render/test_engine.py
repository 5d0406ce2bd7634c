"""A run under another engine as text, and its verdict as a code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_engine import CLUSTER, LOCAL, arm

from pipebench.errors import BadSample
from pipebench.render import layout, text
from pipebench.render.engine import parts
from pipebench.results import report
from pipebench.results.engine import Arm, EngineRun, middle
from pipebench.results.windows import LoopWindow, throughput

GOLDEN = Path(__file__).parent / "golden"
BAD = BadSample("loader", "a\x1b.jpg", None, "truncated", "it ends early", 0.0)


def _shown(found: EngineRun) -> str:
    return layout.text(parts(found), width=80)


@pytest.mark.parametrize(("name", "found"), [("engine_local", LOCAL), ("engine_cluster", CLUSTER)])
def test_it_reads_as_in_the_golden_file(name: str, found: EngineRun) -> None:
    golden, shown = GOLDEN / f"{name}.txt", _shown(found)
    if not golden.exists():
        golden.write_text(shown)
        pytest.fail("there was no golden file: read the new one, then run again")
    assert shown == golden.read_text() and max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(("rate", "code"), [(60, "slower"), (90, "no-difference"), (120, "faster")])
def test_the_verdict_is_a_code_with_its_evidence(rate: float, code: str) -> None:
    verdict = report.new(engine=replace(LOCAL, arms=(*LOCAL.arms[:2], arm("ray", rate, 0.5)))).verdict
    assert verdict is not None and (verdict.kind, verdict.code) == ("engine", code)
    assert verdict.evidence["speedup"] == pytest.approx(rate / 90)
    assert verdict.evidence["bound_speedup"] == pytest.approx(900 / rate)


def test_the_rates_and_their_ratio_are_one_statistic() -> None:
    """Windows of which one source was disturbed in some: whatever they are, the table cannot contradict the verdict."""
    spent = {"ready": (0.1, 0.1, 0.1), "torch": (1.0, 1.0, 4.0), "ray": (1.2, 3.0, 1.1)}
    shares = {"ready": 0.0, "torch": 0.5, "ray": 0.5}
    arms = tuple(
        Arm(name, throughput([LoopWindow(one, 64) for one in spent[name]], middle), (shares[name],) * 3)
        for name in ("ready", "torch", "ray")
    )
    found = replace(LOCAL, arms=arms)
    rates = {one.source: one.throughput.samples_per_s for one in arms}
    assert found.over_torch is not None and found.bound is not None
    assert found.over_torch.speedup == pytest.approx(rates["ray"] / rates["torch"])
    assert found.bound.speedup == pytest.approx(rates["ready"] / rates["ray"])


def test_where_waits_do_not_explain_the_bound_a_line_says_what_does() -> None:
    apart = replace(LOCAL, arms=(arm("ready", 900, 0.0), arm("torch", 90, 0.85), arm("ray", 90, 0.9)))
    assert "The waits alone" not in _shown(apart)
    assert "The waits alone account for 10× of it: the loop's own work takes" in " ".join(_shown(LOCAL).split())


def test_the_short_page_has_what_disturbed_the_run() -> None:
    shown = text.table(report.new(engine=CLUSTER), width=80)
    assert "Noise: the readings differ by 40 % (end other programs)." in shown and "MapBatches" not in shown


def test_nothing_measured_says_so() -> None:
    nothing = replace(LOCAL, arms=(), operators=(), stages=(), blocked=None, outputs=None)
    verdict = report.new(engine=nothing).verdict
    assert verdict is not None and verdict.code == "not-measured"
    assert _shown(nothing).startswith("Ray Data 2.60.0 was not measured.")


def test_one_window_has_no_interval_and_compares_nothing() -> None:
    windows = {one: replace(one.throughput, readings_s=(0.7,), samples=(64,)) for one in LOCAL.arms}
    arms = (replace(one, throughput=few, wait_shares=(0.5,), cpu_s=()) for one, few in windows.items())
    cut = replace(LOCAL, arms=tuple(arms))
    verdict, shown = report.new(engine=cut).verdict, _shown(cut)
    assert verdict is not None and verdict.code == "not-measured"
    assert shown.startswith("Too few windows to compare: Ray Data 2.60.0 fed") and "×" not in shown.split("\n\n")[0]


def test_a_saved_report_is_shown_again_with_its_bad_samples(tmp_path: Path) -> None:
    report.save(report.new(engine=CLUSTER, bad_samples=(BAD,)), tmp_path / "engine.json")
    shown = text.table(report.load(tmp_path / "engine.json"), width=80, full=True)
    assert "1 of 3 nodes was lost on the way." in shown and "it ends early" in shown and "\x1b" not in shown
