"""Predictions beside the findings of an advice that could not be tried."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_costs import made
from made_up_trials import watched

from pipebench.predict.untried import with_predictions
from pipebench.results.advice import Advice, Change, Finding, Value
from pipebench.stats import Speedup

WATCHED = replace(watched(), costs=(made(blocked=0.1, step=0.01, iteration_s=0.1),))


def _not_tried(settings: dict[str, Value], reason: str = "budget") -> Finding:
    return Finding(Change("any", settings), "not-tried", reason=reason)


def test_what_could_not_be_tried_is_predicted_where_the_simulation_knows_it() -> None:
    tried = Finding(Change("num_workers", {"num_workers": 2}), "gain", Speedup(2.0, 1.9, 2.1, 0.95))
    others = (tried, _not_tried({"pin_memory": True}), _not_tried({"num_workers": 8}, "OSError: no shared memory"))
    advice = Advice((_not_tried({"num_workers": 4}), *others), 1, 1, "", 0, 180.0, 60.0, "budget")
    found = with_predictions(advice, WATCHED)
    first = found.findings[0].predicted
    assert first is not None and first.low < 4.0 < first.high and found.findings[2:] == others[1:]
    assert found.findings[1].gain == tried.gain and found.findings[1].predicted is not None  # beside what was tried


def test_what_was_slower_in_its_only_pair_is_not_predicted() -> None:
    slow, fast = (replace(_not_tried({"num_workers": 4}), ratios=(one,)) for one in (0.2, 1.4))
    begun = _not_tried({"num_workers": 4}, "no-pair")
    found = with_predictions(Advice((slow, fast, begun), None, 1, "", 0, 180.0, 60.0, "budget"), WATCHED)
    assert [one.predicted is None for one in found.findings] == [True, False, True]


def test_first_workers_are_slower_where_hundreds_of_tensors_would_cross() -> None:
    few, many = (
        replace(made(cpu=0.008, step=0.003, iteration_s=0.011, workers=0), hand_over_s=spent) for spent in (0.002, 0.09)
    )
    told = []
    for costs in (few, many):
        advice = Advice((_not_tried({"num_workers": 2}),), None, 1, "", 0, 180.0, 60.0, "budget")
        told.append(with_predictions(advice, replace(WATCHED, costs=(costs,))).findings[0].predicted)
    assert told[0] is not None and told[1] is not None
    assert told[0].speedup > 1.2 and told[1].high < 0.5


def test_without_costs_nothing_is_predicted() -> None:
    advice = Advice((_not_tried({"num_workers": 4}),), None, 1, "", 0, 180.0, 60.0, "budget")
    assert with_predictions(advice, watched()) == advice


def test_a_rung_above_one_that_brought_less_than_predicted_is_predicted_to_bring_as_much_less() -> None:
    """Two workers were to bring nearly as much as four, and brought a part of it."""
    costs = made(cpu=0.02, step=0.01, iteration_s=0.03, workers=0)
    here = replace(WATCHED, costs=(costs,))

    def told(brought: float, tried: int = 2, left: int = 4) -> tuple[float, float]:
        gain = Speedup(brought, 0.9 * brought, 1.1 * brought, 0.95)
        first = Finding(Change("any", {"num_workers": tried}), "gain", gain, (brought,) * 3)
        advice = Advice((first, _not_tried({"num_workers": left})), 0, 1, "", 0, 45.0, 36.0, "budget")
        before, after = with_predictions(advice, here).findings
        assert before.gain == gain and before.predicted is not None and after.predicted is not None
        return after.predicted.speedup, before.predicted.speedup

    most, of_two = told(9.0)  # what brings more than predicted changes nothing
    assert most > 1.2 and of_two > 1.2
    assert told(of_two / 2)[0] == pytest.approx(most / 2)
    assert told(of_two / 2, tried=4, left=2)[0] == pytest.approx(of_two)  # a lower rung


@pytest.mark.parametrize(
    ("workers", "ratios", "belied"),
    [
        (16, (0.9, 0.95), True),  # two pairs, which leave the interval wide
        (16, (0.9,), True),
        (16, (1.02, 1.01, 1.04), True),
        (16, (0.9, 1.6), False),
        (1, (0.9, 0.95), False),  # fewer workers say nothing of more
        (2, (0.9, 0.95), False),
    ],
)
def test_more_workers_are_belied_where_other_numbers_of_more_were_tried_in_vain(workers, ratios, belied) -> None:
    costs = made(blocked=0.1, step=0.002, iteration_s=0.05, workers=2)
    known = Speedup(1.0, 0.5, 2.0, 0.95) if len(ratios) > 1 else None
    outcome = "unclear" if known else "not-tried"
    tried = Finding(Change("num_workers", {"num_workers": workers}), outcome, known, ratios, reason="budget")
    left = Finding(Change("num_workers", {"num_workers": 4}), "not-tried", reason="budget")
    none = Finding(Change("num_workers", {"num_workers": 0}), "not-tried", reason="own-process", predicted=None)
    advice = Advice((tried, left, replace(none, change=replace(none.change, untried="own-process"))), None, 1, "", 0,
                    40.0, 39.0, "budget")  # fmt: skip
    found = with_predictions(advice, replace(WATCHED, costs=(costs,))).findings
    assert found[1].predicted is not None and found[1].predicted.speedup > 1.5
    assert [one.belied for one in found] == [False, belied, False]
