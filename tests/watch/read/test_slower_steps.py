"""Phases of a loop that take longer and longer: told from what changes in steps, from larger batches, from noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from planted_runs import MS, Planted, said

from pipebench.render import layout, watch_account, watch_verdict
from pipebench.results.account import Account, Cause
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import FetchSums, HandedOver, LoopLooks, LoopSums
from pipebench.watch.record.trial_lines import LineLooks
from pipebench.watch.record.worker_lines import Content

Cost = Callable[[float], float]
_STEADY: dict[str, float] = {"forward": 5.0, "backward": 5.0, "optimiser": 2.0, "other": 1.0}


def _always(size: float) -> Cost:
    return lambda at: size


_SIZE, _SAMPLES = _always(1000), _always(4)


def _run(
    *, turns: int = 400, passes: int = 2, each_line: int = 1, cpu: Cost | None = None, no_core: Cost | None = None,
    size: Cost | None = _SIZE, columns: Cost | None = None, samples: Cost = _SAMPLES, looks: Sequence[Any] = (),
    **phases: Cost,
) -> Account:  # fmt: skip
    """Two passes. Each cost is of an iteration, in ms, by its place in the run: 0 at the begin, 1 at the end."""
    costs = {name: phases.get(name, _always(cost)) for name, cost in _STEADY.items()}
    cpu = cpu or (lambda at: sum(cost(at) for cost in costs.values()))
    lines, sums, used, waited = list[LoopSums](), list[FetchSums](), 0.0, 0.0
    each = turns // passes
    run = Planted()
    now = run.now
    for turn in range(turns):
        at = turn / turns
        spent = {name: int(cost(at) * MS) for name, cost in costs.items()}
        used, waited = used + cpu(at) * MS, waited + (no_core(at) if no_core else 0.0) * MS
        if turn % each in (0, 1) or (turn % each) % each_line == 0:
            zeros = [0] * 7
            lines.append(LoopSums(1, turn // each, turn % each, now, phases_ns=zeros, wait_parts_ns=[0] * 9))
        line = lines[-1]
        line.turns, line.trained = line.turns + 1, line.trained + 1
        line.phases_ns = [one + more for one, more in zip(line.phases_ns, [0, 0, *spent.values(), 0], strict=True)]
        line.process_cpu_ns, line.core_wait_ns = int(used), int(waited)
        handed = [HandedOver(turn, 0, turn, now, now, now, now, 1, 10, 1, int(size(at)), 0, 0)] if size else []
        looked = Content(1, 4, columns=int(columns(at))) if columns else Content()
        sums.append(FetchSums(1, now, now + 1, 1, int(samples(at)), handed=handed, content=looked))
        now += sum(spent.values())
    whole = {name: sum(cost(turn / turns) for turn in range(turns)) / passes for name, cost in costs.items()}
    run.loader(passes=passes, **{name: round(cost) for name, cost in whole.items()})
    run.lines = [one for one in run.lines if not isinstance(one, LoopSums)] + lines + [*looks]
    run.worker()
    run.workers = [Process([one for one in run.workers[0].lines if not isinstance(one, FetchSums)] + sums)]
    return run.account()


def _told(account: Account) -> list[Cause]:
    return [one for one in account.causes if one.code == "slower-steps"]


def _growing(at: float) -> float:
    return 5.0 + 40.0 * at


def test_other_work_that_grows_through_each_pass_is_told_with_its_place() -> None:
    account = _run(passes=4, other=lambda at: 2.0 + 40.0 * (4 * at % 1.0))
    (cause,) = (one for one in account.causes if one.code == "callbacks")
    assert (cause.values["early_s"], cause.values["late_s"]) == pytest.approx((0.014, 0.038), rel=0.03)
    assert "It takes longer and longer through each pass, as work on a list that grows: 13.8 ms" in said(account)
    assert not _told(account)


@pytest.mark.parametrize("other", [_always(40), lambda at: 2.0 + 40.0 * (4 * at % 1.0 > 0.5), lambda at: 5 + 40 * at])
def test_other_work_that_does_not_grow_through_each_pass(other: Cost) -> None:
    found = (one for one in _run(passes=4, other=other).causes if one.code == "callbacks")
    assert all("early_s" not in one.values for one in found)


def test_a_phase_that_grows_all_the_time() -> None:
    account = _run(backward=_growing)
    (cause,) = _told(account)
    # The second fifth takes 17 ms on average, and the last one 41 ms. Each later fifth has 80 iterations.
    assert cause.values == {"phase": "backward", "early_s": pytest.approx(0.017, rel=0.02),
                            "late_s": pytest.approx(0.041, rel=0.02)}  # fmt: skip
    assert cause.recoverable_s == cause.s == pytest.approx(80 * (0.008 + 0.016 + 0.024), rel=0.02)
    assert not cause.unsure and account.causes[0] == cause
    (row,) = (one for one in account.rows if one.code == "backward")
    assert row.recoverable_s == cause.s and row.reason == "less-kept"
    text = said(account)
    assert text.startswith("Backward takes longer and longer, as where the loop keeps a graph or a list that grows: ")
    assert "(2.4 times as long; waits for a core left out). What came on top since took 3.8" in text
    assert "Detaching or dropping what it keeps could save about 3.8" in text and "(predicted, not tried)." in text
    assert "is worth a change" not in text and "Other causes" not in text
    move = move_of_run(None, account.causes, 4)
    assert move is not None and "find what the loop keeps" in (watch_verdict.next_move(move) or "")
    table = layout.text(watch_account.table(account), width=80)
    assert "less" in next(line for line in table.splitlines() if "forward and backward" in line)


@pytest.mark.parametrize("phase", ["forward", "optimiser", "other"])
def test_each_phase_is_named(phase: str) -> None:
    (cause,) = _told(_run(**{phase: _growing}))
    assert cause.values["phase"] == phase


NORM, KEEPS = LineLooks("a/net.py", "Net.forward", 20, "", 0), LineLooks("a/net.py", "Memory.read", 31, "", 0)


def _looked(*, keeps: Sequence[int], norm: Sequence[int] = (20,) * 4, name: str = "forward_lines") -> Sequence[Any]:
    """Looks in each quarter of the iterations."""
    found = zip(norm, keeps, strict=True)
    return [
        LoopLooks(1, "a/train.py", 100, [], a + b, **{name: [NORM._replace(looks=a), KEEPS._replace(looks=b)]})
        for a, b in found
    ]


@pytest.mark.parametrize("phase", ["forward", "other"])
def test_the_function_in_which_most_of_the_growth_is_seen_is_named(phase: str) -> None:
    name = "forward_lines" if phase == "forward" else "besides"
    account = _run(**{phase: _growing}, looks=_looked(keeps=(5, 15, 30, 40), name=name))
    (cause,) = _told(account)
    assert {one: cause.values[one] for one in ("file", "line", "function")} == {
        "file": "a/net.py", "line": 31, "function": "Memory.read",
    }  # fmt: skip
    assert "most of it seen in Memory.read (net.py:31). Detaching or dropping" in said(account)
    told = watch_verdict.next_move(move_of_run(None, account.causes, 4)) or ""
    assert ("from one iteration to the next (Memory.read, net.py:31), and detach it" in told) == (phase == "forward")


@pytest.mark.parametrize(
    "looks",
    [
        _looked(keeps=(5, 5, 9, 9)),  # too few
        _looked(keeps=(40, 40, 50, 50)),  # they scatter
        _looked(keeps=(10, 10, 30, 30), norm=(10, 10, 32, 32)),  # both grow
        _looked(keeps=(5, 15, 30, 40), name="lines"),
        _looked(keeps=(0, 0, 0, 70))[-1:],
        (),
    ],
)
def test_else_no_function_is_named(looks: Sequence[Any]) -> None:
    (cause,) = _told(_run(forward=_growing, looks=looks))
    assert "line" not in cause.values


def test_growth_beside_noise() -> None:
    chance = random.Random(0)
    assert _told(_run(backward=lambda at: _growing(at) * chance.uniform(0.8, 1.2)))


def test_growth_beside_other_processes() -> None:
    """They take the cores for half of the time in between, so that wall times rise and fall."""
    busy: Cost = lambda at: 1.0 if 0.45 < at < 0.65 else 0.0  # noqa: E731
    whole: Cost = lambda at: 8.0 + _growing(at)  # noqa: E731
    phases: dict[str, Cost] = {
        name: lambda at, cost=cost: cost * (1 + busy(at)) for name, cost in _STEADY.items() if name != "backward"
    }  # fmt: skip
    phases |= {"no_core": lambda at: busy(at) * whole(at), "cpu": whole}
    assert _told(_run(backward=lambda at: _growing(at) * (1 + busy(at)), **phases))


def _steps(*levels: float) -> Cost:
    return lambda at: levels[int(at * len(levels))]


@pytest.mark.parametrize(
    "backward",
    [
        _always(20.0),
        lambda at: 20.0 * random.Random(at).lognormvariate(0.0, 0.7),
        _steps(5.0, 40.0),  # layers that are unfrozen half-way
        _steps(5.0, 20.0, 40.0),
        _steps(5.0, 20.0, 30.0, 40.0),
        lambda at: 40.0 - 30.0 * at,
        lambda at: 20.0 + 4.0 * at,  # too little
        lambda at: 5.0 + 40.0 * min(0.2, at),  # of the start only
        lambda at: 60.0 if 0.5 < at < 0.6 else 10.0,
    ],
    ids=["constant", "noise", "one step", "two steps", "three steps", "faster", "little", "start", "for a while"],
)
def test_what_does_not_grow_steadily(backward: Cost) -> None:
    assert not _told(_run(backward=backward))


def test_too_few_iterations() -> None:
    assert not _told(_run(turns=90, backward=_growing)) and _told(_run(turns=110, backward=_growing))


def test_growth_for_which_others_are_the_reason() -> None:
    constant: dict[str, Any] = {"cpu": _always(13.0)}
    assert not _told(_run(backward=_growing, **constant))  # no more is computed
    assert not _told(_run(backward=_growing, no_core=lambda at: 36.0 * at, cpu=lambda at: 13.0 + 4.0 * at))
    alike = {name: lambda at, cost=cost: cost * (1 + 2 * at) for name, cost in _STEADY.items()}
    assert not _told(_run(**alike))  # the processor got slower


def test_batches_that_grow() -> None:
    """By 1.75 times from the second fifth to the last one: attention then costs 3.1 times as much."""
    longer: dict[str, Cost] = {"size": lambda at: 1000 * (1 + 2 * at)}
    squared: dict[str, Cost] = {
        "forward": lambda at: 5 * (1 + 2 * at) ** 2,
        "backward": lambda at: 9 * (1 + 2 * at) ** 2,
    }
    assert not _told(_run(**squared, **longer)) and _told(_run(**squared))
    assert not _told(_run(**squared, size=None, columns=lambda at: 100 * (1 + 2 * at)))
    assert not _told(_run(**squared, samples=lambda at: 40 * (1 + 2 * at)))
    assert _told(_run(backward=lambda at: 0.5 + 200 * at * at, size=lambda at: 1000 * (1 + 0.2 * at)))


def test_batches_of_unknown_size_may_be_the_reason() -> None:
    (cause,) = _told(account := _run(backward=_growing, size=None))
    assert cause.unsure and "Other causes of the same time are possible." in said(account)


def test_lines_of_many_iterations_are_as_good() -> None:
    """Later in a run, a line covers many iterations. Too few lines tell nothing."""
    (cause,) = _told(_run(turns=2000, each_line=10, backward=_growing))
    assert cause.s == pytest.approx(400 * (0.008 + 0.016 + 0.024), rel=0.05)
    assert not _told(_run(turns=2000, each_line=400, backward=_growing))
