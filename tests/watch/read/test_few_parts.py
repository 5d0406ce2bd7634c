"""Workers of a stream that get no part of it: it has fewer parts than workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import loader, worker
from planted_runs import Planted, said
from render import made_up

from pipebench.remedies.spread_evenly import CODES
from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.gather import Process
from pipebench.watch.read.makers import makers
from pipebench.watch.read.moves import in_its_words
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import FetchSums

MS = 1_000_000


def _stream(*, cpu: float = 0.3, shards: int | None = 2, made: int = 2, core_wait_ns: int = 0) -> Planted:
    """A loop of a second that waits for 900 ms for the first two of four workers, which never rest."""
    run = Planted()
    run.loader(wait_for_worker=900, forward=30, backward=70, workers=4, shards=shards)
    for number in range(4):
        if number < made:
            run.worker(number, cpu=cpu, process_cpu_ns=int(cpu * 1000 * MS), core_wait_ns=core_wait_ns)
        else:
            run.worker(number, busy=0.0, batches=0, samples=0)
            lines = run.workers[number].lines
            run.workers[number] = Process(
                [replace(one, batches=0) if one.__class__ is FetchSums else one for one in lines]
            )
    return run


def test_more_parts_are_the_step_where_some_workers_have_none() -> None:
    account = _stream().account(2)
    cause = account.causes[0]
    assert (cause.code, cause.values["idle"], cause.values["makers"]) == ("few-parts", 2, 2)
    assert cause.recoverable_s == pytest.approx(0.5), "twice as many workers work, and cores are free"
    assert (
        "Waiting for the workers of loader 1 took 900 ms of the run's 1.10 s (82 %). 2 of its 4 workers made no batch: "
        "its stream has 2 parts (shards, files). As many parts as workers could save about 500 ms"
    ) in said(account)
    move = move_of_run(None, account.causes, 2.0)
    found = replace(made_up.watched(), loaders=(loader(shards=2, workers=4),), loaders_in_loop=(1,))
    text = next_move(in_its_words(move, found)) or ""
    assert "divide the stream of loader 1 into at least as many parts (files, shards) as workers: 4." in text
    assert "Or set num_workers to 2, which is as fast as now" in text and "shuffle" not in text
    assert cause.code in CODES


def test_a_stream_that_does_not_tell_its_parts() -> None:
    text = said(_stream(shards=0).account(2))
    assert "2 of its 4 workers made no batch: its stream gives them no part. As many parts" in text


def test_where_the_cores_are_used_up_more_parts_are_no_step() -> None:
    """Two of two cores are used for 85 %: at 90 % a core is used up. So what the workers do is the cause."""
    account = _stream(cpu=0.85).account(2)
    cause = account.causes[0]
    assert cause.code not in ("few-parts", "uneven-workers") and cause.recoverable_s == pytest.approx(0.9)
    assert float(cause.values["parts_s"]) < 0.1
    assert "2 of its 4 workers made no batch: its stream has 2 parts (shards, files). num_workers=2 is as fast." in (
        said(account)
    )


def test_cores_that_the_workers_want_are_not_free() -> None:
    """Others have them: two workers use 0.6 cores, and want 0.9 more of the 1.8 that there are."""
    cause = _stream(core_wait_ns=450 * MS).account(2).causes[0]
    assert cause.values["parts_s"] == pytest.approx(1 - 1.5 / 1.8)


def test_a_stream_of_one_part_is_not_uneven_work() -> None:
    assert _stream(made=1, shards=1).account(4).causes[0].code == "few-parts"


@pytest.mark.parametrize("how", [{"shards": None}, {"made": 4}])
def test_workers_that_have_none_of_a_sampler_or_all_have_a_part(how: Any) -> None:
    assert "idle" not in _stream(**how).account(2).causes[0].values


def test_all_workers_count_where_none_made_a_batch() -> None:
    none = [worker(number, batches=0) for number in range(2)]
    assert makers(loader(shards=1), none) == none


@pytest.mark.parametrize(("shards", "how"), [(8, "in equal parts"), (None, "shuffled, or split evenly")])
def test_shuffling_moves_nothing_between_the_workers_of_a_stream(shards: int | None, how: str) -> None:
    run = Planted()
    run.loader(wait_for_worker=900, forward=30, backward=70, shards=shards)
    run.worker(0, cpu=0.3)
    run.worker(1, cpu=0.3, busy=0.1, batches=5)
    account = run.account(4)
    assert account.causes[0].code == "uneven-workers"
    assert f"Work that is spread evenly ({how}) could save" in said(account)
    found = replace(made_up.watched(), loaders=(loader(shards=shards),), loaders_in_loop=(1,))
    text = next_move(in_its_words(move_of_run(None, account.causes, 4.0), found)) or ""
    assert ("shuffle the data" in text) == (shards is None)


def test_spreading_work_saves_no_more_than_the_cores_allow() -> None:
    """One worker uses 1.2 cores of 1.8 that are there."""
    run = Planted()
    run.loader(wait_for_worker=900, forward=30, backward=70)
    run.worker(0, process_cpu_ns=1200 * MS)
    run.worker(1, busy=0.01, process_cpu_ns=1 * MS, batches=5)
    assert run.account(2).causes[0].recoverable_s == pytest.approx(1 / 3, rel=0.01)
