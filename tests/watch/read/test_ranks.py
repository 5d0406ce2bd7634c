"""Which rank the others wait for, from planted times: every figure is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_trials import LOADER

from pipebench.render import layout, screen
from pipebench.render.layout import Line
from pipebench.render.ranks import parts
from pipebench.results.batches import BatchContent
from pipebench.results.ranks import Ranks, StepOfRank
from pipebench.results.watched import PhaseResult, StageResult, Verdict, WatchResult, WorkerResult
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


def _worker(number: int, busy_s: float, cpu_s: float, core_wait_s: float = 0.0) -> WorkerResult:
    return WorkerResult(1, number, (), 50, 100, 0, busy_s, cpu_s, 1.0, 0.0, 0, True, core_wait_s=core_wait_s)


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


@pytest.mark.parametrize(
    ("slow", "said"),
    [
        ((2.5, 0.5), "20.0 ms longer for a sample: 20.0 ms blocked (storage, a network, a lock, sleep)."),
        ((2.5, 0.5, 2.0), "20.0 ms longer for a sample: 20.0 ms without a core."),
        ((2.5, 2.5), "20.0 ms longer for a sample: 20.0 ms computing."),
        ((2.5, 1.0, 1.3), "20.0 ms longer for a sample: 5.00 ms computing, 13.0 ms without a core, 2.00 ms blocked"),
    ],
    ids=["slow storage", "fewer cores", "heavier samples", "all of them"],
)
@pytest.mark.parametrize("of", [2, 4])
def test_slow_storage_fewer_cores_and_heavier_samples_are_told_apart(of: int, slow: Any, said: str) -> None:
    ranks = [_rank(number, 21 if number == 1 else 1) for number in range(of)]
    for number, one in enumerate(ranks):
        workers = (_worker(0, *(slow if number == 1 else (0.5, 0.5))),)
        ranks[number] = replace(one, watched=replace(one.watched, workers=workers))
    found = compared(of, ranks)
    assert found.straggler == 1
    assert said in " ".join(_text(found).split())


def test_the_one_slow_worker_of_a_rank_is_named() -> None:
    ranks = [_rank(0, 1), _rank(1, 21)]
    for by_worker_s, worker in (((0.001, 0.041, 0.001), 1), ((0.021, 0.021, 0.021), None), ((0.021,), None)):
        stage = replace(_stage("Photos.read", 0.021), by_worker_s=by_worker_s)
        ranks[1] = replace(ranks[1], watched=replace(NOTHING, stages=(stage,)))
        found = compared(2, ranks)
        assert found.stage is not None and found.stage.worker == worker
        assert ("Worker 1 causes it, with 41.0 ms." in " ".join(_text(found).split())) == (worker == 1)


def test_what_a_straggler_costs_a_day_is_said() -> None:
    found = compared(4, [_rank(0, 1), _rank(1, 1), _rank(2, 1), _rank(3, 21)])
    assert found.saved_share == pytest.approx(0.4)
    assert found.hours_a_day == pytest.approx(9.6)
    said = "In all, rank 3 costs the job 40 % of its time: 9.6 h of each day would be saved"
    assert said in " ".join(_text(found).split())
    stage = replace(_stage("Photos.read", 0.021), by_worker_s=(0.001, 0.041, 0.001))
    slow = _rank(3, 21)
    slow = replace(slow, watched=replace(slow.watched, stages=(stage,)))
    found = compared(4, [_rank(0, 1), _rank(1, 1), _rank(2, 1), slow])
    assert "In all, rank 3 (worker 1, Photos.read) costs the job 40 %" in " ".join(_text(found).split())


def test_only_the_stragglers_own_part_counts_for_a_day() -> None:
    found = compared(4, [_rank(0, 1), _rank(1, 1), _rank(2, 16), _rank(3, 21)])
    assert (found.straggler, found.cost_share) == (3, pytest.approx(0.4))
    assert found.saved_share == pytest.approx(0.1)  # without it the others wait for rank 2


def test_what_any_rank_would_cost_by_chance_is_taken_off() -> None:
    """The straggler is last by 10 ms in three steps of four, the other in the rest."""
    first, second = _rank(0, 1), _rank(1, 1)
    for number in range(1, STEPS):
        late = first if number % 4 == 0 else second
        late.steps[number] = StepOfRank(number, 11 * MS, 5 * MS)  # type: ignore[index]
    found = compared(2, [first, second])
    assert found.straggler == 1
    assert found.saved_share == pytest.approx((75 - 24) / 99 * 0.2)


def test_what_a_day_would_gain_is_not_said_below_what_the_report_can_tell() -> None:
    found = compared(4, [_rank(0, 1), _rank(1, 1), _rank(2, 20.5), _rank(3, 21)])
    assert found.straggler == 3 and found.saved_share == pytest.approx(0.01)
    assert "a day" not in _text(found)


@pytest.mark.parametrize(
    ("cores", "said"),
    [((2.0, 1.0), "It may use 1 core, and the other rank 2."), ((2.0, 2.0), ""), ((1.0, 2.0), "")],
)
def test_a_rank_with_fewer_cores_is_explained_by_them(cores: tuple[float, float], said: str) -> None:
    ranks = [_rank(0, 1), _rank(1, 21)]
    for number, one in enumerate(cores):
        ranks[number] = replace(ranks[number], watched=replace(NOTHING, usable_cores=one))
    found = compared(2, ranks)
    assert found.straggler == 1 and (found.fewer_cores is not None) == bool(said)
    text = " ".join(_text(found).split())
    assert said in text and ("may use" in text) == bool(said)


def test_workers_that_are_no_slower_are_not_spoken_of() -> None:
    ranks = [_rank(0, 1), _rank(1, 1, work_ms=25)]
    for number, one in enumerate(ranks):
        ranks[number] = replace(one, watched=replace(NOTHING, workers=(_worker(0, 0.5 + number / 50, 0.5),)))
    found = compared(2, ranks)
    assert (found.straggler, found.longer) == (1, None)
    assert "Its workers" not in _text(found)


@pytest.mark.parametrize(
    ("workers", "collate_s", "said"),
    [
        ((3, 1), 0.000187, "It loads with 1 worker, and the other rank with 3."),
        ((2, 0), 0.000187, "It loads without workers, and the other rank with 2."),
        ((3, 3), 0.000187, ""),
        ((1, 3), 0.000187, ""),
        ((1, 1), 0.0071, "default_collate (collate) takes 7.10 ms of a sample there, and 150 µs on the other rank."),
        ((3, 3), 0.0041, "default_collate"),  # each worker makes a third of the samples of a step
    ],
)
def test_fewer_workers_are_told_and_a_stage_that_explains_little_is_not(
    workers: tuple[int, int], collate_s: float, said: str
) -> None:
    ranks = [_rank(0, 1), _rank(1, 21)]
    for number, (count, s) in enumerate(zip(workers, (0.00015, collate_s), strict=True)):
        loader = replace(LOADER, training=True, workers=count)
        stages = (replace(_stage("default_collate", s), kind="collate", samples=400),)
        ranks[number] = replace(ranks[number], watched=replace(NOTHING, loaders=(loader,), stages=stages))
    found = compared(2, ranks)
    text = " ".join(_text(found).split())
    assert found.straggler == 1 and ("with" in said) == (found.fewer_workers is not None)
    assert (found.stage is not None) == (said.startswith("default_collate") and said in text)
    assert said in text and ("It loads" in text) == ("It loads" in said)


def test_a_rank_that_works_longer_is_told_from_one_that_waits() -> None:
    found = compared(2, [_rank(0, 1, work_ms=5), _rank(1, 1, work_ms=15, read_s=0.5)])
    assert (found.straggler, found.part, found.stage) == (1, "work", None)
    assert found.cost_share == pytest.approx(0.2)


@pytest.mark.parametrize(("tokens", "said"), [(120.0, "Rank 1 loaded 6,000 tokens, and rank 0 5,000."), (101.0, "")])
def test_uneven_tokens_are_said_where_samples_are_even(tokens: float, said: str) -> None:
    ranks = [_rank(0, 1), _rank(1, 1)]
    for number, each in enumerate((100.0, tokens)):
        loader = replace(LOADER, training=True, samples=200, batches=50, content=BatchContent(1.0, each))
        ranks[number] = replace(ranks[number], watched=replace(NOTHING, loaders=(loader,)))
    found = " ".join(_text(compared(2, ranks)).split())
    assert said in found and ("tokens" in found) == bool(said) and "loaded" not in found.replace(said, "")


@pytest.mark.parametrize(("tokens", "wait", "said"), [(300.0, 1, True), (105.0, 1, False), (300.0, 21, False)])
def test_longer_samples_explain_longer_work(tokens: float, wait: float, said: bool) -> None:
    ranks = [_rank(0, 1), _rank(1, wait, 15.0)]
    for number, each in enumerate((100.0, tokens)):
        loader = replace(LOADER, training=True, samples=200, batches=50, content=BatchContent(1.0, 4 * each))
        workers = (_worker(0, 1.0 + number, 1.0 + number),)  # longer, too, but nobody waits
        ranks[number] = replace(ranks[number], watched=replace(NOTHING, loaders=(loader,), workers=workers))
    found = compared(2, ranks)
    assert (found.straggler, found.part) == (1, "work" if wait == 1 else "wait")
    assert found.tokens == ((300.0, 100.0) if said else None) and (found.longer is None) == (wait == 1)
    text = " ".join(_text(found).split())
    longer = "A sample has 300 tokens there, and 100 on the other rank: that is more work for its model."
    assert (longer in text) == said


def test_a_rank_that_loads_the_batches_of_all_is_no_straggler() -> None:
    """As with accelerate's `dispatch_batches`: the others cannot be like it, nor it like them."""

    def of(loads: tuple[int, ...], steps: int = STEPS) -> Ranks:
        ranks = [_rank(number, 21 if number in loads else 0, steps=steps) for number in range(4)]
        found = replace(LOADER, training=True, samples=800)
        loading = [replace(one, watched=replace(one.watched, loaders=(found,))) for one in ranks]
        return compared(4, [loading[one.rank] if one.rank in loads else one for one in ranks])

    one = of((0,))
    assert (one.straggler, one.cost_s, one.readers) == (None, 0.0, (0,)) and one.rows[0].cost_s == 0.0
    said = " ".join(_text(one).split())
    assert "Rank 0 loads the batches of all of them and hands them over, so the ranks are not compared." in said
    assert "costs" not in said
    assert "Some ranks (2 of 4) load the batches of all of them and hand them over" in " ".join(
        _text(of((0, 2))).split()
    )
    assert of((0, 1, 2, 3)).readers == of((0,), steps=5).readers == ()


def test_ranks_that_take_turns_are_not_called_stragglers() -> None:
    first, second = _rank(0, 1), _rank(1, 1)
    for number in range(STEPS):
        late = (first, second)[number % 2].steps
        late[number] = StepOfRank(number, 11 * MS, 5 * MS)  # type: ignore[index]
    found = compared(2, [first, second])
    assert found.straggler is None and found.cost_share == pytest.approx(0.2)
    assert "No single rank is shown to cause it." in " ".join(_text(found).split())


def test_equal_ranks_cost_nothing() -> None:
    found = compared(2, [_rank(0, 1), _rank(1, 1)])
    assert found.straggler is None and found.cost_s == 0
    assert "None holds the others up" in _text(found)


def test_a_few_steps_name_nobody() -> None:
    found = compared(2, [_rank(0, 1, steps=8), _rank(1, 50, steps=8)])
    assert found.steps == 7 and found.straggler is None
    assert "So few steps (7) do not tell which rank causes it." in " ".join(_text(found).split())


def test_where_no_length_of_a_step_is_known_nothing_is_said_of_the_cost() -> None:
    """As where each step makes an iterator of its own: no pass has a second iteration."""
    unknown = replace(NOTHING, loop=(), iterations=0)
    found = compared(2, [replace(_rank(0, 1), watched=unknown), replace(_rank(1, 50), watched=unknown)])
    said = " ".join(_text(found).split())
    assert (found.straggler, found.step_s) == (None, 0)
    assert "How long a step takes was not recorded, so what the last of them costs is not known." in said
    assert "holds the others up" not in said and "Own part of a step, over 99 steps" in said


def test_ranks_without_a_common_step_are_not_compared() -> None:
    found = compared(2, [_rank(0, 1), Rank(1, 101, (), NOTHING)])
    assert (found.steps, found.cost_s, found.straggler) == (0, 0, None)
    assert "they are not compared" in " ".join(_text(found).split())
    assert "Own part" not in _text(found)  # nobody knows it


@pytest.mark.parametrize(("of", "slow"), [(4, 3), (12, 11)])
def test_a_screen_that_is_short_of_rows_has_that_of_the_straggler(of: int, slow: int) -> None:
    found = compared(of, [_rank(number, 21 if number == slow else 1) for number in range(of)])
    other = [Line(f"line {number}") for number in range(screen.LINES)]
    said = layout.text(screen.fitted([*parts(found), *other], 80, "more"), width=80)
    assert f"Rank {slow} comes last" in " ".join(said.split())
    rows = [line for line in said.splitlines() if line.strip().startswith(f"{slow} ")]
    assert len(rows) == 1 and "more row" in said
    in_full = layout.text(parts(found, full=True), width=80)
    assert [int(line.split()[0]) for line in in_full.splitlines() if line[:4].strip().isdigit()] == list(range(of))


def test_ranks_on_other_machines_are_said() -> None:
    assert "2 of 8 ranks were seen here. None" in _text(compared(8, [_rank(4, 1), _rank(5, 1)]))
    killed = " ".join(_text(compared(4, [_rank(0, 1), _rank(2, 1)])).split())
    assert "2 of 4 ranks were seen here, without rank 1 and 3." in killed
    alone = " ".join(_text(compared(4, [_rank(3, 1)])).split())
    assert alone == "1 of 4 ranks was seen here, so there is none to compare it with."


def test_kept_steps_stand_for_all_steps_and_all_ranks_keep_the_same() -> None:
    for most in (1 << STEP_BITS, 5 << STEP_BITS, 64 << STEP_BITS):
        kept = [one for one in range(most) if thinned(one, STEP_BITS)]
        assert sum(weight(one, STEP_BITS) for one in kept) == pytest.approx(most, rel=0.01)
        assert len(kept) < 5_000


def test_a_step_is_as_long_with_a_warm_up_as_without() -> None:
    """Steps are counted from the start, so the iterations that are not shown count, too."""

    def ranks(warmup: int) -> list[Rank]:
        shown = replace(NOTHING, iterations=STEPS - warmup, warmup_iterations=warmup)
        return [replace(_rank(number, 40.0 * number), watched=shown) for number in range(2)]

    whole, later = compared(2, ranks(0)), compared(2, ranks(80))
    assert later.step_s == whole.step_s == pytest.approx(0.05)
    assert (whole.steps, later.steps) == (99, 20) and later.straggler == whole.straggler == 1


def test_the_steps_of_the_warm_up_are_not_compared() -> None:
    """A rank is slow in its first 30 steps, of two iterations each."""

    def found(warmup: int) -> Ranks:
        ranks = [_rank(0, 1), _rank(1, 1)]
        for number in range(30):
            ranks[1].steps[number] = StepOfRank(number, 500 * MS, 5 * MS)  # type: ignore[index]
        shown = replace(NOTHING, iterations=2 * STEPS - warmup, warmup_iterations=warmup)
        return compared(2, [replace(one, watched=shown) for one in ranks])

    assert (found(0).steps, found(0).rows[1].wait_s > 0.1) == (99, True)
    assert (found(59).steps, found(60).steps, found(61).steps) == (70, 70, 69)
    assert found(60).rows[1].wait_s == pytest.approx(0.001)


def test_a_stage_of_two_loaders_is_compared_within_each() -> None:
    """Both read, and only the first one reads slowly on one rank."""
    ranks = []
    for number, slow_s in enumerate((0.001, 0.021)):
        stages = (_stage("read", slow_s), replace(_stage("read", 0.005), loader=2))
        watched = replace(NOTHING, stages=stages, loaders_in_loop=(1, 2))
        ranks.append(replace(_rank(number, 1 + 20 * number), watched=watched))
    found = compared(2, ranks).stage
    assert found is not None and (found.s, found.others_s) == (0.021, 0.001)


def test_a_cost_in_thinned_steps_counts_for_all_of_them() -> None:
    many = 4 << STEP_BITS

    def rank(number: int, wait_ms: int) -> Rank:
        own = [StepOfRank(one, wait_ms * MS, 0) for one in range(many) if thinned(one, STEP_BITS)]
        return Rank(number, number, own, replace(NOTHING, iterations=many))

    found = compared(2, [rank(0, 0), rank(1, 10)])
    assert found.cost_s == pytest.approx(many * 0.01, rel=0.01)
    assert found.cost_share == pytest.approx(0.2, rel=0.01)


def test_a_rank_that_is_slow_from_some_step_on_counts_by_all_steps() -> None:
    """Most steps of a long run are thinned: slow in seven of eight, it is in three of eight of those that are kept."""
    many = 64 << STEP_BITS

    def rank(number: int) -> Rank:
        kept = [one for one in range(many) if thinned(one, STEP_BITS)]
        own = [StepOfRank(one, 20 * MS if number == 2 and one >= many // 8 else 0, MS) for one in kept]
        return Rank(number, number, own, replace(NOTHING, iterations=many))

    found = compared(4, [rank(number) for number in range(4)])
    row = found.rows[2]
    assert found.straggler == 2 and row.last_share == pytest.approx(7 / 8, rel=0.01)
    assert row.wait_s == pytest.approx(0.0175, rel=0.01)
    assert found.cost_share == found.saved_share == pytest.approx(0.35, rel=0.01)


@pytest.mark.parametrize("ended", ["ended", "failed", "cut"])
def test_samples_of_ranks_that_ended_early_are_not_called_uneven(ended: str) -> None:
    """What a rank that was killed had loaded since its last line is in no record."""
    ranks = [replace(_rank(0, 1), ended="failed" if ended != "ended" else ended), replace(_rank(1, 1), ended=ended)]
    for number, samples in enumerate((48, 28)):
        loader = replace(LOADER, training=True, samples=samples)
        ranks[number] = replace(ranks[number], watched=replace(NOTHING, loaders=(loader,)))
    said = " ".join(_text(compared(2, ranks)).split())
    assert ("Rank 0 loaded 48 samples, and rank 1 28." in said) == (ended == "ended")
    assert ("28+ +: the records of this rank have no end, so it may have loaded more." in said) == (ended == "cut")
