"""`--bound` in one of several ranks: what it may take of the machine, and how it goes on where there are no windows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipebench.watch.bound import session
from pipebench.watch.bound.agreement import Offer
from pipebench.watch.bound.alternation import Refused
from pipebench.watch.bound.schedule import Schedule
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
        guarded=lambda _, act: act(),
    )  # fmt: skip
    this = SimpleNamespace(loader=1, trained=True)
    loop = SimpleNamespace(
        passes={iterator: this}, recorded=lambda _: None, leave=lambda _: None, device=TrainingDevice()
    )
    return Bound(recording, loop, lambda: None)  # type: ignore[arg-type]  # stand-ins of what it uses


def test_a_rank_without_a_schedule_trains_on_live_and_leaves_when_the_steps_are_done(
    ranks: _Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []

    def leaves(status: int) -> None:
        left.append(status)
        raise SystemExit

    monkeypatch.setattr(session.os, "_exit", leaves)
    written: list[Any] = []
    iterator = _Iterator()
    bound = _bound(written, iterator, 8)
    seen = []
    with pytest.raises(SystemExit):
        for _ in range(100):
            seen.append(bound.batch(iterator, next, lambda one, draw: draw(one)))
    assert left == [FAILED] and ranks.waited
    assert len(seen) == 1 + 8 == iterator.given  # all of them live
    assert written == [BoundEnded(Reason("bound-rank-silent", {"rank": 0, "waited_s": 60.0}))]
    assert not any(isinstance(one, BoundPlan) for one in written)


def test_ranks_divide_the_memory_of_their_machine(ranks: _Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    iterator = _Iterator()
    batch = torch.zeros(100)  # 400 bytes
    monkeypatch.setattr(session, "free_memory", lambda: 40_000)
    bound = _bound([], iterator, 100)
    with pytest.raises(Refused):
        bound._plan(iterator, batch, 1)
    (offer,) = ranks.offers
    assert (offer.most, offer.limit, offer.left) == (int(40_000 * 0.45 / RANK.of // 400), "memory", 40_000)
