"""`--bound` in one of several ranks: what it may take of the machine, and how it goes on without windows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipebench.watch.bound import session
from pipebench.watch.bound.agreement import Offer
from pipebench.watch.bound.alternation import Refused
from pipebench.watch.bound.schedule import IDLE, Schedule
from pipebench.watch.bound.session import FAILED, Bound
from pipebench.watch.record.bound_lines import BoundEnded, BoundPlan, Reason
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.script.training_device import TrainingDevice

RANK = RankFound(1, 4, 1, "host:1")


class _Iterator:
    """A loader's iterator without workers, and the loop over it."""

    _num_workers = 0

    def __init__(self) -> None:
        self.given = 0

    def __next__(self) -> torch.Tensor:
        self.given += 1
        return torch.zeros(2, 4)


class _Refusing:
    """The ranks as one sees them that finds no schedule; it notes that it left."""

    def __init__(self, *_: object) -> None:
        self.offers: list[Offer] = []
        self.waited = False

    def agreed(self, offer: Offer, steps: int, begin: int) -> Schedule:
        self.offers.append(offer)
        raise Refused("bound-rank-silent", rank=0, waited_s=60.0)

    def leave_together(self) -> None:
        self.waited = True


class _Agreeing(_Refusing):
    """The ranks agree on a schedule that ends before the steps do."""

    def agreed(self, offer: Offer, steps: int, begin: int) -> Schedule:
        return AGREED


AGREED = Schedule(begin=3, rounds=2, window=4, lead=1, replays=(IDLE,))


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The statuses with which the process has left."""
    found: list[int] = []

    def leaves(status: int) -> None:
        found.append(status)
        raise SystemExit

    monkeypatch.setattr(session.os, "_exit", leaves)
    return found


@pytest.fixture
def agreeing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "present", lambda: RANK)
    monkeypatch.setattr(session, "together", lambda *_: _Agreeing())


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> _Refusing:
    found = _Refusing()
    monkeypatch.setattr(session, "present", lambda: RANK)
    monkeypatch.setattr(session, "together", lambda *_: found)
    return found


def _bound(written: list[Any], iterator: _Iterator, steps: int) -> Bound:
    settings = SimpleNamespace(bound=steps, warmup=0, loader=1, shared="")
    recording = SimpleNamespace(
        settings=settings, on=True, pid=session.os.getpid(), file=SimpleNamespace(began=0), write=written.append,
        guarded=lambda _, act: act(), fault=lambda what, error: written.append(repr(error)),
    )  # fmt: skip
    this = SimpleNamespace(loader=1, trained=True)
    loop = SimpleNamespace(
        passes={iterator: this}, recorded=lambda _: None, leave=lambda _: None, device=TrainingDevice()
    )
    return Bound(recording, loop, lambda: None)  # type: ignore[arg-type]  # stand-ins of what it uses


def _trained(bound: Bound, iterator: _Iterator) -> int:
    """How many batches the script gets until the process leaves."""
    seen: list[torch.Tensor] = []
    with pytest.raises(SystemExit):
        for _ in range(100):
            seen.append(bound.batch(iterator, next, lambda one, draw: draw(one)))
    return len(seen)


def test_a_rank_without_a_schedule_trains_on_live_and_leaves_when_the_steps_are_done(
    ranks: _Refusing, left: list[int]
) -> None:
    written: list[Any] = []
    iterator = _Iterator()
    seen = _trained(_bound(written, iterator, 8), iterator)
    assert left == [FAILED] and ranks.waited
    assert seen == 1 + 8 == iterator.given  # all of them live
    assert written == [BoundEnded(Reason("bound-rank-silent", {"rank": 0, "waited_s": 60.0}))]
    assert not any(isinstance(one, BoundPlan) for one in written)


def _fails(*_: object) -> None:
    raise MemoryError("no room for a copy")


@pytest.mark.usefixtures("agreeing")
@pytest.mark.parametrize("ours", ["copied", "same", "samples", "nbytes"])
def test_a_rank_that_fails_alone_trains_as_long_as_the_others_and_no_longer(
    ours: str, left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of our functions fails, in a window or between two: the script sees nothing of it."""
    written: list[Any] = []
    iterator = _Iterator()
    bound = _bound(written, iterator, 60)
    first = bound.batch(iterator, next, lambda one, draw: draw(one))
    assert first is not None
    monkeypatch.setattr(session.batches, ours, _fails)
    assert _trained(bound, iterator) == AGREED.end
    assert left == [FAILED]
    faults = [one for one in written if isinstance(one, str)]
    assert faults == ["MemoryError('no room for a copy')"]
    assert [one for one in written if isinstance(one, BoundEnded)] == [BoundEnded(Reason("bound-fault", {}))]


def test_a_fault_of_ours_ends_a_script_that_trains_alone(left: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "present", lambda: None)
    written: list[Any] = []
    iterator = _Iterator()
    bound = _bound(written, iterator, 60)
    monkeypatch.setattr(session.batches, "copied", _fails)
    assert _trained(bound, iterator) < 60
    assert left == [FAILED] and BoundEnded(Reason("bound-fault", {})) in written


@pytest.mark.usefixtures("agreeing")
def test_an_error_of_the_loader_is_the_script_s_own(left: list[int]) -> None:
    written: list[Any] = []
    iterator = _Iterator()
    bound = _bound(written, iterator, 60)

    def broken(one: _Iterator) -> torch.Tensor:
        if one.given == 6:
            one.given += 1
            raise ValueError("bad sample")
        return next(one)

    seen = 0
    with pytest.raises(ValueError, match="bad sample"):
        while True:
            bound.batch(iterator, broken, lambda one, draw: draw(one))
            seen += 1
    assert seen == 6 and not left and not any(isinstance(one, BoundEnded) for one in written)
    bound.batch(iterator, broken, lambda one, draw: draw(one))  # a script may go on


def test_ranks_divide_the_memory_of_their_machine(ranks: _Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    iterator = _Iterator()
    batch = torch.zeros(100)  # 400 bytes
    monkeypatch.setattr(session, "free_memory", lambda: 40_000)
    bound = _bound([], iterator, 100)
    with pytest.raises(Refused):
        bound._plan(iterator, batch, 1)
    (offer,) = ranks.offers
    assert (offer.most, offer.limit, offer.left) == (int(40_000 * 0.45 / RANK.of // 400), "memory", 40_000)
