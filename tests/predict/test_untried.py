"""Predictions beside the findings of an advice that could not be tried."""

from __future__ import annotations

from dataclasses import replace

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


def test_without_costs_nothing_is_predicted() -> None:
    advice = Advice((_not_tried({"num_workers": 4}),), None, 1, "", 0, 180.0, 60.0, "budget")
    assert with_predictions(advice, watched()) == advice
