"""The bound of a job, from planted windows of its ranks: only what all of them did together counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipebench.render import layout
from pipebench.render.watch import bound_parts
from pipebench.render.watch_notes import sentence
from pipebench.results.watched import Note
from pipebench.watch.bound.schedule import BUSY, IDLE, LIVE
from pipebench.watch.read.bound_of_ranks import bound_of_ranks
from pipebench.watch.record.bound_lines import (
    BoundEnded,
    BoundPlan,
    BoundRoundVoid,
    BoundWindow,
    CountedIteration,
    Reason,
)
from pipebench.watch.record.lines import Line

WINDOW, ROUNDS = 5, 6
STEP_S = {LIVE: 4.0, IDLE: 1.0, BUSY: 2.0}
PLAN = BoundPlan(1, 100, WINDOW, ROUNDS, given=2, batch_bytes=1000, last_level_cache_bytes=1, swept=False)


def _window(turn: int, kind: str, wait_s: float, **more: Any) -> BoundWindow:
    """A window of iterations of two samples, which begins 100 s after the one before it."""
    begin = 100.0 * (3 * turn + list(STEP_S).index(kind))
    waited_s = wait_s if kind == LIVE else 0.0
    each = _each(STEP_S[kind], waited_s)
    spent = STEP_S[kind] * WINDOW
    found = BoundWindow(turn, kind, spent, 2 * WINDOW, WINDOW, turn * 20, begin, begin + spent, each)
    return replace(found, **more)


def _each(step_s: float, waited_s: float) -> list[CountedIteration]:
    return [CountedIteration(number, step_s, 2, waited_s) for number in range(WINDOW)]


def _rank(wait_s: float) -> list[Line]:
    windows = [_window(turn, kind, wait_s) for turn in range(ROUNDS) for kind in STEP_S]
    return [PLAN, *windows, BoundEnded(None)]


def _changed(lines: list[Line], turn: int, kind: str, **more: Any) -> list[Line]:
    return [
        replace(one, **more) if isinstance(one, BoundWindow) and (one.round, one.kind) == (turn, kind) else one
        for one in lines
    ]


def test_the_bound_of_a_job_is_the_samples_of_all_ranks_in_the_time_of_one() -> None:
    found = bound_of_ranks(2, {0: _rank(0.1), 1: _rank(3.0)})
    assert found.complete and found.rounds == ROUNDS and found.notes == ()
    assert found.live is not None and found.bound is not None and found.bound_busy is not None
    rates = found.live.samples_per_s, found.bound.samples_per_s, found.bound_busy.samples_per_s
    assert rates == (4 / 4.0, 4 / 1.0, 4 / 2.0)
    assert found.bound_over_live is not None and found.bound_over_live.speedup == 4.0
    assert [(one.rank, one.live_per_s, one.bound_per_s) for one in found.ranks] == [(0, 0.5, 2.0), (1, 0.5, 2.0)]
    assert [round(one.wait_s, 9) for one in found.ranks] == [0.1, 3.0]
    text = layout.text(bound_parts(found))
    assert "Live and replayed windows of all 2 ranks: 6 rounds of 5 batches" in " ".join(text.split())
    assert "In live windows, rank 1 waits longest for batches: 3.00 s of an iteration; of the others, none more" in (
        " ".join(text.split())
    )


def test_an_iteration_counts_if_it_counts_on_every_rank() -> None:
    """A rank whose workers start anew does not count some iterations, in which the other waits for it."""
    slow = [CountedIteration(number, 50.0 if number < 2 else 4.0, 2, 0.1) for number in range(WINDOW)]
    first = _changed(_rank(0.1), 2, LIVE, each=slow, seconds=112.0)
    second = _changed(_rank(3.0), 2, LIVE, each=slow[2:], seconds=12.0, samples=6, iterations=3)
    found = bound_of_ranks(2, {0: first, 1: second})
    assert found.live is not None and found.live.samples_per_s == 1.0
    assert found.live.samples == (20, 20, 12, 20, 20, 20) and found.live.readings_s[2] == 12.0


@pytest.mark.parametrize("more", [{"begin": 12.0, "end": 32.0}, {"first": 3}, {"each": _each(5.1, 0.1)}])
def test_a_window_that_a_rank_had_at_another_time_or_iteration_or_rate_is_left_out(more: dict[str, Any]) -> None:
    found = bound_of_ranks(2, {0: _rank(0.1), 1: _changed(_rank(3.0), 0, LIVE, **more)})
    assert found.rounds == ROUNDS - 1 and found.live is not None and found.live.samples_per_s == 1.0
    assert found.notes == (Note("bound-not-in-step", {"windows": 1, "of": 18}),)
    said = sentence(found.notes[0])
    assert said.startswith("The ranks were not in step in 1 of 18 windows")
    assert said in " ".join(layout.text(bound_parts(found, full=False)).split())


def test_ranks_that_were_never_in_step_have_no_bound() -> None:
    late = [
        replace(one, begin=one.begin + 50, end=one.end + 50) if isinstance(one, BoundWindow) else one
        for one in _rank(1)
    ]
    found = bound_of_ranks(2, {0: _rank(0.1), 1: late})
    assert found.bound_over_live is None and found.live is None and not found.ranks
    text = " ".join(layout.text(bound_parts(found)).split())
    assert text.startswith("The bound was not measured. The ranks were not in step in 18 of 18 windows")


def test_a_round_that_is_void_on_one_rank_is_void_for_the_job() -> None:
    void = [*_changed(_rank(3.0), 1, LIVE, each=_each(4.0, 90.0)), BoundRoundVoid(1)]
    found = bound_of_ranks(2, {0: _rank(0.1), 1: void})
    assert found.rounds == ROUNDS - 1 and Note("round-void") in found.notes
    assert found.ranks[1].wait_s == pytest.approx(3.0)


def test_a_rank_that_ends_early_or_dies_costs_its_windows_and_is_named() -> None:
    found = bound_of_ranks(2, {0: _rank(0.1), 1: _rank(3.0)[:9]})
    assert not found.complete and found.rounds == 3
    short, early = found.notes
    assert short == Note("bound-rank-short", {"rank": 1, "windows": 8, "of": 18})
    assert sentence(short) == "The ranks were not in step to the end: rank 1 had 8 of 18 windows."
    assert early.code == "ended-early"


def test_without_windows_on_every_rank_there_is_no_bound() -> None:
    refused = BoundEnded(Reason("bound-rank-silent", {"rank": 1, "waited_s": 60.0}))
    alone = bound_of_ranks(2, {0: [refused]})
    assert [one.code for one in alone.notes] == ["bound-rank-silent", "bound-rank-missing"]
    assert sentence(alone.notes[0]) == (
        "The ranks were not in step: rank 1 did not come to the first window within 60.0 s."
    )
    other = bound_of_ranks(2, {0: _rank(0.1), 1: []})
    assert other.bound_over_live is None and other.notes == (Note("bound-rank-missing", {"rank": 1, "ranks": 2}),)
    assert bound_of_ranks(2, {0: [], 1: []}).notes == (Note("no-training-loop"),)


def test_a_rank_that_gives_up_says_why() -> None:
    given_up = [*_rank(3.0)[:7], BoundEnded(Reason("bound-outgrew-memory", {}))]
    found = bound_of_ranks(2, {0: _rank(0.1), 1: given_up})
    assert not found.complete and found.rounds == 2
    assert [one.code for one in found.notes] == ["bound-rank-short", "bound-outgrew-memory"]
