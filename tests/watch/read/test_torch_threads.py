"""Torch with one thread in the script's process, beside idle cores, or with more than it has cores for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import host, loader, result, worker

from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.beginning import beginning
from pipebench.results.host_use import ThreadPool
from pipebench.watch.read.gather import NO_LOADER, Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.torch_threads import few_threads, many_threads, other_threads
from pipebench.watch.record import thread_pools
from pipebench.watch.record.lines import LibraryThreads, LoopSums, ProcessStarted
from pipebench.watch.record.program_lines import RankFound


def _seen(
    *, threads: int = 1, number: int = 1, script: float = 1.0, worker_cores: float = 0.1, wants: float = 0.0,
    foreign: float | None = 0.1, waits: float = 1.0, copied: float = 0.0, turns: int = 100, cores: float = 2.0,
    ranks: tuple[int, int | None] = (1, 1), own: float = 1.3, waited: float = 0.0, helped: float = 2.0,
    variables: tuple[str, ...] = ("OMP_NUM_THREADS=1",), **more: Any,
) -> Seen:  # fmt: skip
    """A run of 12 s, 10 s of them in loops of `turns` iterations. The rest of the loops is training."""
    trained = 10.0 - waits - copied
    rows = [
        AccountRow("before-loops", 2.0), AccountRow("wait-for-worker", waits, number),
        AccountRow("host-to-device", copied, number), AccountRow("forward", 0.4 * trained, number),
        AccountRow("backward", 0.6 * trained, number),
    ]  # fmt: skip
    pools = (ThreadPool("script", "torch", threads, "torch.set_num_threads(1)"), ThreadPool("workers", "torch", 1, ""))
    used = replace(host(foreign or 0.0, 2), pools=pools, foreign_cores=foreign, machine_cores=int(cores), own_cores=own)
    one = loader(loader=number, workers=int(number > 0), script_cores=script, iterations=turns)
    made = [worker(0, cores=worker_cores, busy_s=10.0, core_wait_s=10 * wants, process_cpu_s=1.0)] if number else []
    found = result(one, cores=cores, loaders_in_loop=(number,), workers=made, host=used, **more)
    lines: list[Any] = [
        ProcessStarted(1, "script", 0), LoopSums(number, 0, 0, 0, 0, 0, [0] * 6, process_cpu_ns=1),
        LoopSums(
            number, 0, 0, 0, turns, turns, [0, 0, 1, 1, 1, 0], process_cpu_ns=2, core_wait_ns=int(waited * 1e9),
            helper_wait_ns=int(helped * 1e9),
        ),
        RankFound(0, ranks[0], here=ranks[1]), LibraryThreads(variables=list(variables)),
    ]  # fmt: skip
    account = Account(12.0, tuple(rows), script_cpu_s=12.0)
    return Seen(Run([Process(lines)], ShownTime(), (number,)), found, account, {})


def test_the_most_that_idle_cores_allow_is_told() -> None:
    (cause,) = few_threads(_seen())
    assert (cause.s, cause.recoverable_s) == pytest.approx((9.0, 9.0 * (1 - 1 / 1.8)))
    assert SENTENCES[cause.code](cause, cause.values, "9.00 s") == (
        "Training took 9.00 s, all on one core: torch has 1 thread in the script's own process (OMP_NUM_THREADS=1 is "
        "set), while 0.8 of 2 cores are idle. 2 threads could save at most about 4.00 s, and less where its operations "
        "are small (not tried)."
    )
    assert next_move(move_of_run(None, [cause], 2.0)) == (
        "Next: let torch use 2 threads in the script's own process: torch.set_num_threads(2) there, or "
        "OMP_NUM_THREADS=2 where the job is started, in place of what sets one."
    )


def test_beside_it_something_is_worth_a_change() -> None:
    seen = _seen()
    causes = tuple(few_threads(seen))
    verdict = type("Verdict", (), {"limit": "training"})()
    found = replace(seen.result, verdict=verdict, account=replace(seen.account, causes=causes))
    assert not beginning(found).nothing and beginning(found).causes == causes


def test_a_loop_without_a_loader() -> None:
    (cause,) = few_threads(_seen(number=NO_LOADER))
    assert "process (OMP_NUM_THREADS=1 is set), while" in SENTENCES[cause.code](cause, cause.values, "9.00 s")


def test_ranks_of_one_machine_share_the_idle_cores() -> None:
    """13 cores are idle besides this rank and its worker, where two other ranks use one each."""
    (cause,) = few_threads(_seen(cores=16.0, foreign=2.0, ranks=(3, 3)))
    assert cause.values["to_threads"] == 1 + round(12.9 / 3)
    assert "are idle, shared by 3 ranks." in SENTENCES[cause.code](cause, cause.values, "9.00 s")


@pytest.mark.parametrize(
    "how",
    [
        {"threads": 2},
        {"variables": ()},  # a call sets it
        {"script": 1.4},  # another library computes with threads of its own
        {"script": 0.3},  # it waits for a device that nobody knows, or for other ranks
        {"worker_cores": 0.9},  # workers use the other core,
        {"wants": 0.6},  # or want more of it than they get
        {"foreign": 0.7},  # others use it
        {"foreign": None},  # or it is not known whether they do
        {"own": 2.0},  # further processes of the script use it
        {"waits": 6.0},
        {"copied": 0.1},  # training is on a device
        {"turns": 9000},  # operations are short
        {"ranks": (2, 2)},  # the other rank needs it
        {"ranks": (2, None)},
    ],
)
def test_nothing_is_said_where_threads_may_not_help(how: dict[str, Any]) -> None:
    assert [*few_threads(_seen(**how))] == []


def test_the_variable_that_is_set_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert thread_pools.library_threads().variables == ["OMP_NUM_THREADS=1"]


def test_threads_that_wait_for_one_another_are_told_with_who_uses_the_cores() -> None:
    (cause,) = many_threads(_seen(threads=2, waited=3.0, worker_cores=0.4, foreign=0.5))
    assert (cause.s, cause.recoverable_s, cause.values["to_threads"]) == (3.0, 2.0, 1)
    assert SENTENCES[cause.code](cause, cause.values, "3.00 s") == (
        "torch has 2 threads in the script's own process and they wait for one another: some of them had no core for "
        "3.00 s. Cores in use, of 2: other processes 0.5, its 1 worker 0.4, the script's own process 1.0. 1 thread "
        "could save about 2.00 s, and more where operations are small (not tried)."
    )
    assert next_move(move_of_run(None, [cause], 2.0)) == (
        "Next: let torch use 1 thread in the script's own process, beside what else uses its cores: "
        "torch.set_num_threads(1) there, or OMP_NUM_THREADS=1 where the job is started."
    )


def test_more_threads_than_cores_wait_for_one_another_beside_nobody() -> None:
    (cause,) = many_threads(_seen(threads=16, waited=3.0, worker_cores=0.0, foreign=0.0, cores=4.0, script=3.9))
    assert cause.values["to_threads"] == 4
    assert ", for 4 cores, and they" in SENTENCES[cause.code](cause, cause.values, "3.00 s")


def test_others_leave_so_many_threads() -> None:
    """Of 16 cores, the worker wants 1 in all, and others use 3.2; two ranks share them."""
    told = {"threads": 16, "waited": 3.0, "worker_cores": 0.5, "wants": 0.9, "cores": 16.0}
    (cause,) = many_threads(_seen(foreign=3.2, script=9.0, **told))
    assert cause.values["to_threads"] == 12
    (cause,) = many_threads(_seen(foreign=0.0, script=7.0, ranks=(2, 2), **told))
    assert cause.values["to_threads"] == 7


@pytest.mark.parametrize(
    "how",
    [
        {"threads": 1},
        {"waited": 1.0},  # large operations beside a worker wait so long, too
        {"script": 1.6},  # they may need their threads
        {"worker_cores": 0.0, "foreign": 0.0},  # nobody uses their cores
        {"helped": 0.1},  # no helper has work: they train on one thread
        {"copied": 0.1},  # training is on a device
        {"ranks": (2, None)},
    ],
)
def test_nothing_is_said_where_fewer_threads_may_not_help(how: dict[str, Any]) -> None:
    assert [*many_threads(_seen(**{"threads": 2, "waited": 3.0, "worker_cores": 0.5, **how}))] == []


def test_where_only_a_trial_can_tell_the_sentence_on_training_says_so() -> None:
    """A script that uses more cores than would be left, and one thread by a call in the script."""
    beside = _seen(threads=2, waited=3.0, worker_cores=0.5, script=1.6)
    assert [*many_threads(beside)] == [] and other_threads(beside)["to_threads"] == 1
    told = SENTENCES["training"](
        _training(**other_threads(beside)), _training(**other_threads(beside)).values, "9.00 s"
    )
    assert told.endswith("Some of torch's 2 threads had no core for 3.00 s: `pipebench advise` tries 1.")
    called = other_threads(_seen(variables=()))
    told = SENTENCES["training"](_training(**called), _training(**called).values, "9.00 s")
    assert told.endswith(
        "torch has 1 thread in the script's own process, by a call there, while 0.8 of 2 cores are idle: `pipebench "
        "advise` tries 2."
    )
    assert other_threads(_seen()) == other_threads(_seen(threads=2, waited=0.5)) == {}


def _training(**values: Any) -> Cause:
    return Cause("training", 9.0, values={"phase": "backward", "phase_s": 5.0, **values})
