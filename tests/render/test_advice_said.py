"""What the advice says of what was not tried, and why, in words that the figures bear out."""

from dataclasses import replace

import pytest
from made_up_trials import LOADER, seen, watched

from pipebench.render import layout
from pipebench.render.advice import parts
from pipebench.results.advice import Advice, Change, Finding
from pipebench.stats import Speedup

ADVICE = Advice((), None, 1, "/nowhere/train.py", 21, 32.0, 8.3, "done", most=3.2)
LEFT = Finding(Change("num_workers", {"num_workers": 2}, "+1 process"), "not-tried", by="passes", reason="budget")
TRIED = Finding(Change("num_workers", {"num_workers": 4}, "+2 processes"), "no-gain",
                Speedup(1.0, 0.98, 1.02, 0.95), (1.0, 1.0, 1.0))  # fmt: skip


def _said(advice, found=None):
    return " ".join(layout.text(parts(advice, found or seen(0.7).watched), width=80).split())


def test_that_a_trial_needs_more_than_the_budget_leaves_is_said_with_both_figures():
    left = replace(LEFT, needs_s=26.0)
    found = replace(ADVICE, findings=(left, replace(left, needs_s=24.5)), ended="budget")
    said = "A trial of what is left takes 24.5 s or more, and the budget leaves 23.7 s: raise --budget."
    assert said in _said(found) and "too short" not in _said(found)


@pytest.mark.parametrize(
    ("change", "spent_s"),
    [
        ({"needs_s": 26.0}, 32.1),  # the budget is spent
        ({"needs_s": 26.0, "ratios": (1.1,)}, 32.0),
        ({}, 8.3),  # of a record without these figures
        ({"needs_s": 20.0}, 8.3),  # there would have been time at the end
    ],
)
def test_else_the_budget_is_too_short(change, spent_s):
    found = replace(ADVICE, findings=(replace(LEFT, **change),), ended="budget", spent_s=spent_s)
    assert "The budget is too short to try everything" in _said(found)
