"""Predictions as text: 30 lines of 80 columns, and the whole of them in golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_costs import made

from pipebench.render import layout, text
from pipebench.render.pictures.ladder import pictures
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


def _head(found: Plan) -> str:
    return " ".join(_shown(found).partition("\n\n")[0].split())


def test_the_answer_is_about_what_was_asked() -> None:
    """The gain is of two figures of the model: beside what was measured, it would be the model's own error."""
    asked = replace(HERE, asked=Asked(workers=4), best=3)
    assert _head(asked).startswith(
        "Predicted, not tried: 999 (899–1,099) samples/s with 4 workers on 2 cores, 3.74× the present 1 worker"
    )
    ahead = replace(HERE, asked=Asked(workers=4, prefetch_factor=2), best=3)
    assert "with 4 workers and prefetch_factor=2 on 2 cores" in _head(ahead)
    present = replace(HERE, asked=Asked(workers=1), best=1)
    assert "the present setting, which was measured at 258. Then the workers" in _head(present)
    assert "×" not in _head(present)
    none = replace(HERE, best=1)
    assert "no number of workers brings more than the present 1 worker" in _head(none)
    assert "(267 (240–294) samples/s, measured: 258). The limit: the workers." in _head(none)


def test_of_a_rank_its_part_of_the_cores_is_said() -> None:
    said = _head(replace(HERE, asked=Asked(workers=4), best=3, part=1.0))
    assert "with 4 workers on 1.0 of 2 cores, " in said
    assert said.endswith(
        "These figures are of one of several ranks: by what they use, its part of the 2 cores is 1.0. The other ranks "
        "are taken to get faster or slower as it does."
    )
    taken = layout.text(passport(Passport(made(cpu=0.01), (), 1.0, shared_cores=2.0)), width=80)
    assert "Taken with 1 worker on 1.0 of 2 cores, its part as one of several ranks." in " ".join(taken.split())


def test_a_rate_that_storage_limits_has_no_interval() -> None:
    limited = replace(ROWS[4], samples_per_s=Figure(455, 455, 455), limit="storage", limits={"storage": 455.0})
    found = replace(HERE, predictions=(ROWS[1], limited), best=1, asked=Asked(storage=1e9))
    assert _head(found).startswith("Predicted, not tried: 455 (never checked) samples/s with 8 workers on 2 cores")
    assert "→ 8         455   never checked   the storage" in _shown(found) and "455–455" not in _shown(found)
    alt = next(pictures(report.new(plan=found))).alt
    assert alt == "8 workers are predicted to feed 455 samples/s (never checked); storage limits them."
    verdict = report.new(plan=found).verdict
    assert verdict is not None and verdict.evidence["samples_per_s"] == 455 and verdict.evidence["low"] is None


def test_of_a_rank_its_part_of_what_carries_samples_is_said() -> None:
    found = replace(HERE, asked=Asked(storage=1e9), part=1.0)
    assert "its part of the 2 cores is 1.0, and of the storage it has as large a part." in _head(found)


def test_a_busy_machine_is_said_with_the_remedy() -> None:
    assert "busy" not in _shown(replace(HERE, others=0.3))
    busy = replace(HERE, others=13.3)
    assert "was busy when this was watched: about 13 threads of other processes wanted its 2 cores" in _head(busy)
    assert "--others 0, or take the passport again when the machine is quiet" in _head(busy)
    asked = _head(replace(busy, asked=Asked(others=0.0)))
    assert "Asked with 0 threads" in asked and "They may be too high: take the passport again" in asked
    assert "The costs are from a busy machine" in _head(replace(busy, asked=Asked(cores=8.0)))
    fitted = replace(busy, others=4.0, others_told=21.6)
    assert "What others used, and waits for a core, told of 22 such threads." in _head(fitted)
    assert "fitted" in _shown(fitted).split("model on what was run")[1] and "+3.5 %" not in _shown(fitted)


def test_rates_below_one_are_no_zeros() -> None:
    slow = replace(ROWS[1], samples_per_s=Figure(0.032, 0.025, 0.041))
    assert "0.032 (0.025–0.041) samples/s" in _head(replace(HERE, predictions=(slow,), best=0))


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


def test_workers_that_suffice_for_the_mean_batch_and_are_the_limit_suffice_on_average() -> None:
    needs = (Need("workers", Figure(6, 5, 7), 16.0),)
    limited = replace(ELSEWHERE, needs=needs, best=3)
    said = " ".join(_shown(limited).split())
    assert "16: enough on average" in said and "First to end: the workers" in said
    assert "on average" not in _shown(replace(limited, best=4))
