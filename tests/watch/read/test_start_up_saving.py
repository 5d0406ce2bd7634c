"""What workers that live on would save of the start of a pass: also what only a new worker does."""

from types import SimpleNamespace

import pytest

from pipebench.watch.read.account import Spent, start_up_saving_ns
from pipebench.watch.record.lines import HandedOver
from pipebench.watch.record.spent import ROWS

MS = 1_000_000
PASSES = 4


def _saved_ms(first_ms, later_ms):
    """The milliseconds of the later starts that could be saved: each start took 1,600 ms."""
    handed = [
        HandedOver(task, one, task, 0, took * MS, 0, took * MS, 1, 10, 1, 100, 0, 0)
        for one in range(PASSES)
        for task, took in enumerate((first_ms, *later_ms))
    ]
    run = SimpleNamespace(sums=lambda loader: [(1, SimpleNamespace(handed=handed))])
    spent = Spent(0)
    for one in range(PASSES):
        spent.passes[1, one] = [1600 * MS if name == "start-up" else 0 for name in ROWS]
    found = start_up_saving_ns(run, SimpleNamespace(loader=1, workers=1, persistent=False), spent)
    return sum(rows.get("start-up", 0) for rows in found.values()) / MS


@pytest.mark.parametrize(
    ("first_ms", "later_ms", "saved_ms"),
    [
        (20, (20, 20), 3 * 1580),  # the making of the first batch stays
        (1520, (20, 20), 3 * 1580),  # a new worker opens an archive: one that lives on does not
        (20, (60, 60), 3 * 1580),  # the first batch was a cheap one
        (1520, (), 3 * 80),  # nothing tells what it is without the archive
    ],
)
def test_what_a_later_pass_saves(first_ms, later_ms, saved_ms):
    assert _saved_ms(first_ms, later_ms) == saved_ms
