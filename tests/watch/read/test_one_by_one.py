"""Many small tensors in a batch that workers made: each crosses by itself, and the cause and the move say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_loop import loader, result, worker
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.hand_off import HandOff
from pipebench.results.watched import StageResult, WaitPart
from pipebench.watch.read.gather import Process
from pipebench.watch.read.hand_off import one_by_one
from pipebench.watch.read.verdict import diagnose
from pipebench.watch.record.lines import Arrival, HandedOver, Pickled
from pipebench.watch.record.worker_lines import Carried

MANY = HandOff(0.1, 0.1, 100_000.0, 50, tensors_per_batch=1540.0, storages_per_batch=1538.0, shared_bytes_per_batch=1e6)
FEWER = (
    "with a few tensors in place of 1,538: torch.stack or torch.cat in collate_fn, with lengths or offsets where they "
    "differ. Or hand over NumPy arrays or lists, which cross together."
)


@pytest.mark.parametrize(
    "other",
    [
        {"storages_per_batch": 31.0},  # a few
        {"storages_per_batch": 1.0},  # all are views of one memory, as unbind() gives them
        {"storages_per_batch": None},  # no batch was followed
        {"pipe_bytes_per_batch": 50e6},  # strings, arrays or other objects take longer
        {"shared_bytes_per_batch": 2e9},  # large tensors: what is copied takes longer
    ],
)
def test_only_tensors_that_take_most_of_the_hand_off_are_told(other: dict[str, float | None]) -> None:
    assert one_by_one(MANY) == 1538.0
    assert one_by_one(replace(MANY, **other)) is None  # type: ignore[arg-type]


def test_the_sentence_says_why_batches_take_long_to_receive() -> None:
    run = Planted()
    run.loader(**TRAINS, unpickle=3000, arrived=[Arrival(0, 1, 0, 0, MS, 0, 0, 0)])
    handed = [HandedOver(0, 0, 1, 0, MS, 0, MS, 1, 100_000, 1538, 10_000, 0, 0, storages=1538)]
    run.worker(busy=0.1, pickled=Pickled(MS, MS, 50, 5_000_000), handed=handed)
    assert said(run.account()).startswith(
        "Receiving and unpickling batches took 3.00 s of the run's 4.10 s (73 %). A batch has 1,538 tensors, and each "
        "crosses in shared memory of its own. To hand over a few tensors in their place could save about 3.00 s "
        "(predicted, not tried)."
    )


def test_what_objects_in_a_batch_bring_is_told() -> None:
    run = Planted()
    run.loader(**TRAINS, unpickle=3000, arrived=[Arrival(0, 1, 0, 0, MS, 0, 0, 0)])
    run.worker(
        busy=0.1,
        pickled=Pickled(MS, MS, 50, 2_500_000_000),
        handed=[HandedOver(0, 0, 1, 0, MS, 0, MS, 1, 9, 1, 9, 0, 0)],
    )
    run.workers[0] = Process([*run.workers[0].lines, Carried(1, "Scan.cloud", 97, 100)])
    assert (
        "a batch brings 50.0 MB through the pipe. 97 % of its arrays are Scan.cloud, as objects in a batch cross with "
        "all that they hold: what training does not use can be left out. Leaving it out could save about"
    ) in said(run.account())


def test_the_move_is_to_hand_over_fewer_tensors() -> None:
    parts = (WaitPart("receive", 0.001, 0.1), WaitPart("unpickle", 0.010, 0.9))
    workers = (worker(0, busy_share=0.3),)
    _, move = diagnose(result(loader(workers=1), workers=workers, wait_parts=parts, hand_off=MANY))
    assert next_move(move) == (
        f"Next: make batches faster to receive, {FEWER[:-1]}. Now this takes 11.0 ms of each iteration."
    )
    few = replace(MANY, storages_per_batch=2.0)
    carrying = replace(few, carried="Scan.cloud", carried_share=0.97)
    _, move = diagnose(result(loader(workers=1), workers=workers, wait_parts=parts, hand_off=carrying))
    assert (next_move(move) or "").startswith(
        "Next: hand over no Scan.cloud, if training does not use it: objects in a"
    )
    _, move = diagnose(result(loader(workers=1), workers=workers, wait_parts=parts, hand_off=few))
    assert (next_move(move) or "").startswith("Next: make batches faster to receive and unpickle. Now")


def test_so_it_is_where_the_feeder_thread_of_a_worker_takes_longest() -> None:
    stages = (
        StageResult("Photos.__getitem__", "getitem", 1, 400, 0.0001, 0.98),
        StageResult("pickling", "serialise", 1, 400, 0.02, 0.0),
    )
    _, move = diagnose(result(loader(workers=1), workers=(worker(0),), stages=stages, hand_off=MANY))
    assert next_move(move) == f"Next: make batches cheaper to pickle, {FEWER}"
