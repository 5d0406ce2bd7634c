"""A function that takes the workers most comes before fewer threads of torch: these gain because it has their cores."""

from dataclasses import replace

import pytest
from made_up_trials import seen

from pipebench.remedies import less_work
from pipebench.results.account import Account, Cause
from pipebench.results.drilled import DrilledLine, DrilledRow

CROWDED = Account(60.0, (), (Cause("many-threads", 9.0, 5.0, 1),))


def _seen(*lines, kind="collate", account=CROWDED, wait_share=0.6, title=""):
    """Each line is a function and its share of a row that takes 90 % of the workers' time."""
    found = tuple(
        DrilledLine("/home/me/train.py", function, 7 + at, "", "x = dense(adjs)", 100, share, share, share, title)
        for at, (function, share) in enumerate(lines)
    )
    row = DrilledRow(1, "batch_graphs", kind, 0.9, 200, 0, found)
    figures = seen(wait_share)
    return replace(figures, watched=replace(figures.watched, drilled=(row,), account=account))


@pytest.mark.parametrize(
    ("kind", "title"),
    [("collate", "less work in putting batches together"), ("function", "less work in making samples")],
)
def test_it_is_a_change_of_the_script_at_the_largest_line_of_that_function(kind, title):
    found = less_work.propose(_seen(("batch_graphs", 0.3), ("batch_graphs", 0.5), ("other", 0.2), kind=kind), [])
    assert found.title == title and found.of_script and not found.settings
    assert (found.at.name, found.at.line) == ("batch_graphs", 8)
    assert found.frees == pytest.approx(0.72) and found.limit == "about 2.50× or more"


@pytest.mark.parametrize(
    "more",
    [
        {"account": Account(60.0, (), ())},  # no thread of torch waits for a core
        {"wait_share": 0.05},
        {"title": "columns as arrays"},  # `slow_lines` says what to write
    ],
)
def test_where_no_thread_waits_or_little_is_to_gain_or_the_line_is_known_it_is_not_told(more):
    assert less_work.propose(_seen(("batch_graphs", 0.8), **more), []) is None


def test_a_function_that_takes_less_than_half_is_not_told():
    assert less_work.propose(_seen(("one", 0.4), ("another", 0.5)), []) is None
