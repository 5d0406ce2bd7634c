"""Predictions as text: 30 lines of 80 columns, and the whole of them in golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_costs import made

from pipebench.render import layout, text
from pipebench.render.plan import parts, passport
from pipebench.results import report
from pipebench.results.costs import Passport
from pipebench.results.plan import Asked, Check, Figure, Need, Plan, Prediction

GOLDEN = Path(__file__).parent / "golden"
ROWS = tuple(
    Prediction(workers, 2, Figure(rate, 0.9 * rate, 1.1 * rate), limit, {limit: rate, "loop": 1e5})
    for workers, rate, limit in (
        (0, 229.0, "loop"), (1, 267.0, "workers"), (2, 512.0, "workers"), (4, 999.0, "workers"), (8, 1124.0, "cores"),
        (16, 1132.0, "cores"), (32, 1132.0, "cores"),
    )
)  # fmt: skip
CHECKS = (Check(1, 2, "samples_per_s", 258.0, 267.0), Check(4, 2, "speedup", 3.1, 2.84))
HERE = Plan(Asked(), 1, 2.0, 258.0, ROWS, 4, CHECKS, 0.07)
NEEDS = (
    Need("cores", Figure(25, 21.3, 29.4), 64.0),
    Need("workers", Figure(9, 8, 11)),
    Need("storage", Figure(2e9, 1.7e9, 2.4e9), 2e9, validated=False),
    Need("network", Figure(2e9, 1.7e9, 2.4e9), 1e9, validated=False),
    Need("shared-memory", Figure(9.22e8, 9.22e8, 9.22e8)),
)
ELSEWHERE = Plan(
    Asked(cores=64, consumer=2500.0, devices=8, storage=2e9, network=1e9, faster=(("dec\x1bode", 2.0),)),
    0, 2.0, 258.0, ROWS, 4, CHECKS, 0.07, 20_000.0, False, NEEDS, from_alone=True,
)  # fmt: skip


def _shown(found: Plan) -> str:
    return layout.text(parts(found), width=80)


@pytest.mark.parametrize(("name", "found"), [("plan_here", HERE), ("plan_elsewhere", ELSEWHERE)])
def test_predictions_read_as_in_the_golden_file_and_fit_a_screen(name: str, found: Plan) -> None:
    golden, shown = GOLDEN / f"{name}.txt", _shown(found)
    if not golden.exists():
        golden.write_text(shown)
        pytest.fail("there was no golden file: read the new one, then run again")
    assert shown == golden.read_text()
    assert max(map(len, shown.splitlines())) <= 80 and "\x1b" not in shown


@pytest.mark.parametrize("found", [HERE, replace(ELSEWHERE, from_alone=False)])
def test_it_has_30_lines(found: Plan) -> None:
    assert len(_shown(found).splitlines()) <= 30


@pytest.mark.parametrize(("fed", "said"), [(True, "would feed"), (False, "would not feed"), (None, "cannot be told")])
def test_the_verdict_on_feeding(fed: bool | None, said: str) -> None:
    found = Plan(Asked(consumer=10.0), 1, 2.0, 258.0, ROWS, 4, CHECKS, 0.07, 10.0, fed)
    shown = _shown(found)
    assert shown.startswith("Predicted, not tried") and said in " ".join(shown.split())


def test_a_saved_plan_and_a_saved_passport_are_shown_again(tmp_path: Path) -> None:
    report.save(report.new(plan=ELSEWHERE), tmp_path / "plan.json")
    assert _shown(ELSEWHERE) in text.table(report.load(tmp_path / "plan.json"), width=80, full=True)
    found = Passport(made(cpu=0.01, blocked=0.02, step=0.005, read_bytes=8e5), (), 2.0)
    report.save(report.new(passport=found), tmp_path / "passport.json")
    loaded = report.load(tmp_path / "passport.json")
    assert loaded.passport == found
    shown = text.table(loaded, width=80)
    assert layout.text(passport(found), width=80) in shown and "100 kB are read for a sample" in shown
