"""Which rank the others wait for, from planted times: every figure is exact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipebench.render import layout
from pipebench.render.ranks import parts
from pipebench.results.ranks import Ranks, StepOfRank
from pipebench.results.watched import PhaseResult, StageResult, Verdict, WatchResult
from pipebench.watch.read.ranks import Rank, compared
from pipebench.watch.record.sampling import STEP_BITS, thinned, weight

MS = 1_000_000
STEPS = 100
NOTHING = WatchResult(
    Verdict("training"), None, (), (PhaseResult("backward", 0.05, 1.0),), STEPS, None, None, (), None, None, (), (),
    (1,), None, None, None, None, None, None, None, 2.0, 0, True, (),
)  # fmt: skip


def _stage(name: str, s: float) -> StageResult:
    return StageResult(name, "read", 1, 100, s, 0.5)


def _rank(number: int, wait_ms: float, work_ms: float = 5.0, read_s: float = 0.001, steps: int = STEPS) -> Rank:
    own = [StepOfRank(one, round(wait_ms * MS), round(work_ms * MS)) for one in range(steps)]
    own[0] = StepOfRank(0, 10**12, 10**12)  # what came before the loop
    stages = (_stage("Photos.read", read_s), _stage("Photos.parse", 0.002))
    return Rank(number, 100 + number, own, replace(NOTHING, stages=stages))


def _text(found: Ranks, width: int = 80) -> str:
    return layout.text(parts(found), width=width)


def test_the_rank_that_the_others_wait_for_is_named_with_its_cost_and_its_stage() -> None:
    found = compared(4, [_rank(0, 1), _rank(1, 1), _rank(3, 21, read_s=0.021), _rank(2, 1)])
    assert (found.steps, found.step_s) == (99, 0.05)
    assert found.cost_s == pytest.approx(99 * 0.020)
    assert found.cost_share == pytest.approx(0.4)
    assert (found.straggler, found.part) == (3, "wait")
    assert found.behind_s == pytest.approx(0.020)
    assert found.stage is not None and found.stage.name == "Photos.read"
    assert (found.stage.s, found.stage.others_s) == (0.021, 0.001)
    assert [one.last_share for one in found.rows] == [0, 0, 0, 1]
    said = " ".join(_text(found).split())
    assert "4 ranks train together. Rank 3 comes last in 100 % of the steps" in said
    assert "That costs 20.0 ms of each step of 50.0 ms (40 %; predicted, not tried)" in said
    assert "it waits 20.0 ms longer for batches than the median of the others" in said
    assert "Photos.read (read) takes 21.0 ms of a sample there, and 1.00 ms on the median of the others." in said
    assert all(len(line) <= 80 for line in _text(found).splitlines())


def test_a_rank_that_works_longer_is_told_from_one_that_waits() -> None:
    found = compared(2, [_rank(0, 1, work_ms=5), _rank(1, 1, work_ms=15, read_s=0.5)])
    assert (found.straggler, found.part, found.stage) == (1, "work", None)
    assert found.cost_share == pytest.approx(0.2)


def test_ranks_that_take_turns_are_not_called_stragglers() -> None:
    first, second = _rank(0, 1), _rank(1, 1)
    for number in range(STEPS):
        late = (first, second)[number % 2].steps
        late[number] = StepOfRank(number, 11 * MS, 5 * MS)  # type: ignore[index]
    found = compared(2, [first, second])
    assert found.straggler is None and found.cost_share == pytest.approx(0.2)
    assert "No single rank causes it" in " ".join(_text(found).split())


def test_equal_ranks_cost_nothing() -> None:
    found = compared(2, [_rank(0, 1), _rank(1, 1)])
    assert found.straggler is None and found.cost_s == 0
    assert "None holds the others up" in _text(found)


def test_a_few_steps_name_nobody() -> None:
    found = compared(2, [_rank(0, 1, steps=8), _rank(1, 50, steps=8)])
    assert found.steps == 7 and found.straggler is None


def test_ranks_without_a_common_step_are_not_compared() -> None:
    found = compared(2, [_rank(0, 1), Rank(1, 101, (), NOTHING)])
    assert (found.steps, found.cost_s, found.straggler) == (0, 0, None)
    assert "they are not compared" in " ".join(_text(found).split())


def test_ranks_on_other_machines_are_said() -> None:
    assert "2 of 8 ranks were seen here" in _text(compared(8, [_rank(4, 1), _rank(5, 1)]))


def test_kept_steps_stand_for_all_steps_and_all_ranks_keep_the_same() -> None:
    for most in (1 << STEP_BITS, 5 << STEP_BITS, 64 << STEP_BITS):
        kept = [one for one in range(most) if thinned(one, STEP_BITS)]
        assert sum(weight(one, STEP_BITS) for one in kept) == pytest.approx(most, rel=0.01)
        assert len(kept) < 5_000


def test_a_cost_in_thinned_steps_counts_for_all_of_them() -> None:
    many = 4 << STEP_BITS

    def rank(number: int, wait_ms: int) -> Rank:
        own = [StepOfRank(one, wait_ms * MS, 0) for one in range(many) if thinned(one, STEP_BITS)]
        return Rank(number, number, own, replace(NOTHING, iterations=many))

    found = compared(2, [rank(0, 0), rank(1, 10)])
    assert found.cost_s == pytest.approx(many * 0.01, rel=0.01)
    assert found.cost_share == pytest.approx(0.2, rel=0.01)
