"""The table of the bound: its rates are told where a sample takes seconds, too."""

from __future__ import annotations

from dataclasses import replace

from render import made_up

from pipebench.render.layout import Table
from pipebench.render.watch import bound_parts
from pipebench.results.windows import RankBound


def test_rates_of_less_than_ten_samples_have_two_digits_and_larger_ones_are_whole():
    """As of volumes that take seconds: 0.26 samples/s are not 0."""
    found = made_up.bound()
    live, ready = (replace(found.live, samples_per_s=one) for one in (0.264, 2500.4))
    ranks = tuple(RankBound(number, 0.0321, 9.96, 0.5) for number in range(2))
    made = bound_parts(
        replace(found, live=live, bound=ready, bound_busy=replace(live, samples_per_s=4.21), ranks=ranks)
    )
    whole, of_ranks = (one for one in made if isinstance(one, Table))
    assert [row[1] for row in whole.rows] == ["0.26", "2,500", "4.2"]
    assert [row[1:3] for row in of_ranks.rows] == [("0.032", "10")] * 2
