"""The verdict on several loops, each over a loader of its own: whose figures it gives, and which loader it names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_loop import loader, result

from pipebench.render.watch_verdict import verdict
from pipebench.watch.read.verdict import diagnose

FIRST = loader(workers=0, iterations=80, s_per_iteration=0.0284, wait_s_per_iteration=0.0226)


@pytest.mark.parametrize(
    ("s", "wait_s", "said"),
    [
        (0.1800, 0.1500, "The largest part of that is for loader 1 (Photos). "),  # together they wait for more
        (0.1800, 0.0500, "This is loader 1 (Photos). "),
    ],
)
def test_figures_of_several_loops_are_not_said_to_be_those_of_one(s: float, wait_s: float, said: str) -> None:
    second = replace(FIRST, loader=2, iterations=10, s_per_iteration=s, wait_s_per_iteration=wait_s)
    share = (80 * 0.0226 + 10 * wait_s) / (80 * 0.0284 + 10 * s)
    run = result(FIRST, loaders=(FIRST, second), loaders_in_loop=(1, 2), iterations=90, wait_share=share)
    found, _ = diagnose(run)
    assert said in verdict(found)
    assert found.of_all == said.startswith("The largest")
    assert (found.wait_s == pytest.approx(0.0226)) != found.of_all
