"""The next move names no more workers than the device, the data and the memory have use for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made
from made_up_loop import host, loader, result, worker

from pipebench.render.watch_verdict import next_move
from pipebench.results.batches import DeviceIdle
from pipebench.results.host_use import HostUse
from pipebench.results.next_move import NextMove
from pipebench.results.watched import WatchResult
from pipebench.stats import Speedup
from pipebench.watch.read.moves import among_ranks, in_its_words
from pipebench.watch.read.verdict import diagnose

COMPUTING = tuple(worker(one, cpu_s=0.95, cores=0.95) for one in range(4))
SLEEPING = tuple(worker(one, cpu_s=0.02, cores=0.02) for one in range(2))
SLEEPS = made(blocked=0.4, step=0.02, workers=2, iteration_s=0.2)


def _move(run: WatchResult) -> tuple[NextMove, str]:
    found, move = diagnose(run)
    move = in_its_words(move, replace(run, verdict=found))
    assert move is not None
    return move, next_move(move) or ""


def _asleep(used: HostUse | None = None, workers: Any = SLEEPING, **more: Any) -> WatchResult:
    costs = replace(SLEEPS, turns=more.pop("turns", None))
    return result(loader(script_cores=0.1, **more), cores=8.0, workers=workers, costs=(costs,), host=used)


def test_a_gpu_that_works_while_the_host_waits_is_no_reason_for_more_workers() -> None:
    """The host starts work for 4 ms, and the GPU does it in 80 of the 100 ms of an iteration."""
    costs = made(cpu=0.4, step=0.004, workers=4, iteration_s=0.1, device_s=0.08)
    run = result(loader(workers=4, script_cores=0.1), cores=32.0, workers=COMPUTING, costs=(costs,))
    move, said = _move(replace(run, device_idle=DeviceIdle(0.020, 0.2, 100)))
    assert move.action == "raise-num-workers" and move.predicted is not None
    assert move.predicted.speedup == pytest.approx(1.25, rel=0.01) and move.predicted.high < 1.4
    assert said.endswith(" as fast; this was not tried, and such figures were not verified on a GPU.")


@pytest.mark.parametrize(("shards", "to"), [(8, 8), (3, 3), (12, 12), (None, 32)])
def test_more_workers_than_shards_are_not_named(shards: int | None, to: int) -> None:
    move, said = _move(_asleep(shards=shards))
    assert (move.action, move.to_workers) == ("raise-num-workers", to) and ", if" not in said


def test_where_each_shard_has_a_worker_the_stage_is_to_become_cheaper() -> None:
    move, said = _move(_asleep(shards=2, sample_s=0.0051))
    assert move.action == "make-stage-cheaper" and move.predicted is None
    assert said.endswith("of a sample. More workers would get no samples: its stream has 2 shards.")


def test_a_stream_that_does_not_say_its_parts_comes_with_a_condition() -> None:
    move, said = _move(_asleep(shards=0))
    assert said.startswith("Next: raise num_workers from 2 to 32, if its stream has at least 32 parts (files, ")
    few = next_move(replace(move, to_workers=None, predicted=None)) or ""
    assert few.startswith("Next: raise num_workers above 2, if its stream has as many parts (files, shards) and div")
    alike = next_move(replace(move, undivided=True)) or ""  # then it is to be divided first
    assert ", if its stream" not in alike and "First let each worker give its own part" in alike
    first = next_move(replace(move, action="set-num-workers", workers=0, to_workers=1)) or ""
    assert first.startswith("Next: set num_workers to 1. Now")


@pytest.mark.parametrize(
    ("method", "took", "to"),
    [("fork", 20.0, 32), ("spawn", 0.05, 32), ("spawn", 2.0, 16), ("spawn", 20.0, 4), ("spawn", 200.0, None)],
)
def test_workers_that_start_slowly_are_fewer_or_no_step(method: str, took: float, to: int | None) -> None:
    move, said = _move(_asleep(turns=200, start_method=method, startup_s=took))
    if to is None:
        assert (move.action, move.lacks) == ("make-stage-cheaper", "starts")
        assert said.endswith("More workers would take longer to start than they save in a pass.")
    else:
        assert (move.action, move.to_workers) == ("raise-num-workers", to)


def test_a_dataset_with_processes_of_its_own_gets_no_workers() -> None:
    run = result(loader(workers=0, own_processes=True, sample_s=0.005), cores=8.0, costs=(replace(SLEEPS, workers=0),))
    move, said = _move(run)
    assert (move.action, move.lacks) == ("make-stage-cheaper", "processes")
    assert said.endswith(
        "Its dataset starts processes of its own, which a worker may not: more of these may help (not tried)."
    )


def test_workers_that_mostly_wait_need_not_be_busy_all_the_time() -> None:
    rest = tuple(replace(one, busy_share=0.85) for one in SLEEPING)
    move, said = _move(_asleep(workers=rest))
    assert move.action == "raise-num-workers" and "The workers are busy 85 % of the time. Of" in said
    computing = tuple(replace(one, busy_share=0.85) for one in COMPUTING)
    assert diagnose(_asleep(workers=computing))[1] is None


def test_of_several_loaders_the_one_that_is_meant_is_named() -> None:
    run = _asleep()
    other = replace(run.loaders[0], loader=2)
    assert _move(replace(run, loaders=(*run.loaders, other)))[1].startswith(
        "Next: raise num_workers of loader 1 from 2"
    )


def test_what_is_gained_only_without_other_processes_is_said_first() -> None:
    move, _ = _move(_asleep())
    slow, alone = Speedup(1.01, 0.8, 1.3, 0.95), Speedup(1.53, 1.2, 2.0, 0.95)
    said = next_move(replace(move, predicted=slow, alone=alone)) or ""
    assert (
        "Without the other processes, the loop is predicted to be 1.53× (1.20–2.00) as fast, and beside them 1.01×"
        in said
    )


def test_of_short_passes_each_begin_counts_and_each_batch_has_one_worker_at_most() -> None:
    """Two workers take 2.44 s for 12 batches, and twelve 0.64 s. In one long pass, they would be 6 times as fast."""
    move, said = _move(_asleep(turns=12))
    assert move.to_workers == 12 and move.predicted is not None
    assert move.predicted.speedup == pytest.approx(2.44 / 0.64, rel=0.01)
    assert "as fast in passes of 12 batches, without the start of workers; this was not tried. The work" in said
    endless, said = _move(_asleep(turns=10_000))
    assert endless.to_workers == 32 and "passes" not in said


def test_of_numbers_that_bring_as_much_the_smallest_is_named_also_between_two_doublings() -> None:
    """With room for eleven workers, eight or six of them make 12 batches in two turns."""
    workers = [replace(one, pss_bytes=1_000_000_000) for one in SLEEPING]
    move, _ = _move(_asleep(replace(host(0.0, 8), free_bytes=18_000_000_000), workers, turns=12))
    assert move.to_workers == 6


@pytest.mark.parametrize("cores", [6, 12])
def test_as_many_workers_as_cores_are_looked_at(cores: int) -> None:
    """Each computes, so neither 4 nor 8 of them are best on 6 cores."""
    costs = made(cpu=0.4, step=0.001, workers=2, iteration_s=0.2)
    busy = tuple(worker(one, cpu_s=0.95, cores=0.95) for one in range(2))
    move, _ = _move(result(loader(script_cores=0.1), cores=float(cores), workers=busy, costs=(costs,)))
    assert (move.action, move.to_workers) == ("raise-num-workers", cores)


def test_where_each_batch_of_a_pass_has_a_worker_no_more_of_them_help() -> None:
    move, said = _move(_asleep(turns=2))
    assert move.action == "make-stage-cheaper"
    assert said.endswith("More workers would have no batch to make: a pass has no more batches than workers.")


def test_workers_for_which_there_is_no_memory_are_not_named() -> None:
    """A worker takes 1 GB. Half of 13 GB is for more of them."""
    workers = [replace(one, pss_bytes=1_000_000_000) for one in SLEEPING]
    used = replace(host(0.0, 8), free_bytes=13_000_000_000)
    move, _ = _move(_asleep(used, workers))
    assert move.to_workers == 8
    none, said = _move(_asleep(replace(used, free_bytes=1_900_000_000), workers))
    assert none.action == "make-stage-cheaper"
    assert said.endswith("More workers would take more than half of the free memory.")


def test_ranks_share_the_free_memory() -> None:
    workers = [replace(one, pss_bytes=1_000_000_000) for one in SLEEPING]
    one = _asleep(replace(host(0.0, 8), free_bytes=13_000_000_000), workers)
    found, move = diagnose(one)
    alone = replace(one, verdict=found, next_move=move)
    shared = among_ranks(alone, [alone], 0.0, 8.0).next_move
    assert shared is not None and shared.to_workers == 4


@pytest.mark.parametrize(("cores_used", "waits", "taken"), [(0.1, True, False), (0.6, True, True), (1.8, False, True)])
def test_what_workers_wait_for_and_what_they_take_from_others_are_said_apart(
    cores_used: float, waits: bool, taken: bool
) -> None:
    """Workers that hardly compute take no cores from other processes, however busy these are."""
    move, _ = _move(_asleep(host(0.3, 8)))
    said = next_move(replace(move, cores_used=cores_used, foreign_cores=0.3)) or ""
    assert ("what they wait for serves more of them" in said, "taken from other processes" in said) == (waits, taken)
    quiet = next_move(replace(move, cores_used=1.8, foreign_cores=0.1)) or ""
    assert "taken from" not in quiet
