"""How ranks agree on their windows, by a clock that moves when all of them sleep: nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipebench.watch.bound import agreement
from pipebench.watch.bound.agreement import LEAVING_S, PATIENCE_S, Offer, Ranks, decided, ranks_here, together
from pipebench.watch.bound.alternation import Refused
from pipebench.watch.bound.schedule import BUSY, DEVICE, IDLE, Schedule
from pipebench.watch.record.bound_lines import Reason
from pipebench.watch.record.program_lines import RankFound

OFFER = Offer(1, 1000, 64, "", 0, 2, 2, [IDLE, BUSY])
STEPS, BEGIN = 400, 3


class Clock:
    """Shared by threads. It moves to the next moment at which one wakes, when all of them sleep or have ended."""

    def __init__(self, threads: int, now: float) -> None:
        self.now, self._awake = now, threads
        self._wakes: list[float] = []
        self._moved = threading.Condition()

    def __call__(self) -> float:
        return self.now

    def sleep(self, s: float) -> None:
        with self._moved:
            wake = self.now + s
            self._wakes.append(wake)
            self._rests()
            self._moved.wait_for(lambda: self.now >= wake, timeout=60)

    def ends(self) -> None:
        with self._moved:
            self._rests()

    def _rests(self) -> None:
        self._awake -= 1
        if not self._awake and self._wakes:
            self.now = min(self._wakes)
            self._awake = self._wakes.count(self.now)
            self._wakes = [one for one in self._wakes if one > self.now]
            self._moved.notify_all()


@pytest.fixture(autouse=True)
def _seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "_POLL_S", 0.5)


def _all(
    folder: Path, of: int, comes: dict[int, float], act: Callable[[Ranks], Any], began: float = 0.0
) -> tuple[dict[int, Any], dict[int, float]]:
    """What `act` returns on each rank, or why it was refused, and when; `comes` says when each rank comes to it."""
    clock = Clock(len(comes), began)
    ended: dict[int, float] = {}

    def one(rank: int) -> Any:
        try:
            if comes[rank]:
                clock.sleep(comes[rank])
            return act(Ranks(str(folder), RankFound(rank, of, rank, "host:1"), began, clock, clock.sleep))
        except Refused as error:
            return error.reason
        finally:
            ended[rank] = clock.now - began
            clock.ends()

    with ThreadPoolExecutor(len(comes)) as pool:
        found = dict(zip(comes, pool.map(one, comes), strict=True))
    return found, ended


def _agree(ranks: Ranks) -> Schedule:
    return ranks.agreed(OFFER, STEPS, BEGIN)


@pytest.mark.parametrize("comes", [{0: 0.0, 1: 0.0}, {0: 7.0, 1: 0.0}, {0: 0.0, 1: 31.0, 2: 12.0, 3: PATIENCE_S - 1}])
def test_all_ranks_have_the_schedule_that_one_process_would_have(comes: dict[int, float], tmp_path: Path) -> None:
    found, ended = _all(tmp_path, len(comes), comes, _agree)
    assert set(found.values()) == {decided([OFFER], STEPS, BEGIN)}
    assert max(ended.values()) <= max(comes.values()) + 1
    assert not list(tmp_path.glob("*.new"))


def test_the_windows_are_those_that_every_rank_can_have(tmp_path: Path) -> None:
    offers = [replace(OFFER, replays=[IDLE, BUSY, DEVICE]), replace(OFFER, most=9, limit="memory"), OFFER]
    found, _ = _all(tmp_path, 3, dict.fromkeys(range(3), 0.0), lambda one: one.agreed(offers[one.rank], STEPS, BEGIN))
    assert len(set(found.values())) == 1
    assert found[0].window == 8 and found[0].replays == (IDLE, BUSY)  # whole bursts of two


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"given": 2}, Reason("bound-ranks-differ", {})),
        (
            {"most": 1, "limit": "memory", "left": 9},
            Reason("bound-no-window", {"batch_bytes": 1000, "limit": "memory", "left": 9}),
        ),
    ],
)
def test_what_one_rank_cannot_do_no_rank_does(changed: dict[str, Any], reason: Reason, tmp_path: Path) -> None:
    def act(ranks: Ranks) -> Schedule:
        return ranks.agreed(replace(OFFER, **changed) if ranks.rank == 1 else OFFER, STEPS, BEGIN)

    found, _ = _all(tmp_path, 2, {0: 0.0, 1: 0.0}, act)
    for one in found.values():
        assert (one[0], one[1]) == reason


@pytest.mark.parametrize(
    ("of", "comes", "silent", "latest"),
    [
        (3, {0: 0.0, 1: 0.0}, 2, PATIENCE_S),  # rank 2 has died
        (3, {1: 0.0, 2: 1.0}, 0, 2 * PATIENCE_S + 1),  # the first rank has
        (2, {0: 0.0, 1: PATIENCE_S + 10}, None, 3 * PATIENCE_S + 10),  # rank 1 comes when the decision has fallen
        (2, {0: PATIENCE_S + 10, 1: 0.0}, None, 2 * PATIENCE_S + 10),  # its offer is too old: it may have gone on
    ],
)
def test_without_one_of_them_no_rank_has_windows_and_none_waits_for_ever(
    of: int, comes: dict[int, float], silent: int | None, latest: float, tmp_path: Path
) -> None:
    found, ended = _all(tmp_path, of, comes, _agree)
    assert {one[0] for one in found.values()} == {"bound-rank-silent"}
    assert silent is None or {one[1]["rank"] for one in found.values()} == {silent}
    assert max(ended.values()) <= latest + 1


def test_the_files_of_an_earlier_run_with_the_same_address_say_nothing(tmp_path: Path) -> None:
    _all(tmp_path, 2, {0: 0.0, 1: 0.0}, _agree)
    first, _ = _all(tmp_path, 2, {0: 0.0}, _agree, began=5.0)
    assert first[0][0] == "bound-rank-silent"
    alone, _ = _all(tmp_path, 2, {1: 0.0}, _agree, began=5.0 + 3 * PATIENCE_S)
    assert alone[1][0] == "bound-rank-silent"
    both, _ = _all(tmp_path, 2, {0: 2.0, 1: 0.0}, _agree, began=5.0 + 6 * PATIENCE_S)
    assert set(both.values()) == {decided([OFFER], STEPS, BEGIN)}


def test_ranks_leave_together_but_wait_for_a_dead_one_only_a_while(tmp_path: Path) -> None:
    _, ended = _all(tmp_path, 2, {0: 0.0, 1: 4.0}, Ranks.leave_together)
    assert min(ended.values()) >= 4.0 and max(ended.values()) <= 5.0
    _, ended = _all(tmp_path, 2, {0: 0.0}, Ranks.leave_together, began=100.0)
    assert LEAVING_S <= ended[0] <= LEAVING_S + 1


@pytest.mark.parametrize(
    ("names", "here"),
    [
        ({}, None),
        ({"LOCAL_WORLD_SIZE": "2", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NODEID": "0"}, 2),  # srun torchrun
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_NODEID": "0"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "2"}, 2),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "3"}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "4"}, None),
        ({"SLURM_STEP_TASKS_PER_NODE": "many", "SLURM_NODEID": "0"}, None),
    ],
)
def test_a_launcher_says_how_many_ranks_are_on_this_machine(names: dict[str, str], here: int | None) -> None:
    assert ranks_here(names) == here


def test_ranks_on_several_machines_or_without_a_folder_in_common_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = RankFound(1, 4, 1, "host:1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(Refused) as refused:
        together("/tmp", found, 0.0)
    assert refused.value.reason == Reason("bound-one-machine", {"ranks": 4, "here": 2})
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(Refused) as refused:
        together("", found, 0.0)
    assert refused.value.reason == Reason("bound-ranks-apart", {"ranks": 4})
