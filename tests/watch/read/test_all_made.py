"""Workers of a stream that each make all of its samples: told by how often decoders and transforms ran for a sample."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.watch.read.all_made import times_made
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.lines import BatchInFull, LoaderFound, NewStage, ProcessStarted, StageName

BATCH = 4


def _worker(number: int, crops: int, decodes: int, batches: int, getter: str) -> Process:
    """A worker whose batches enter the crop and the decoder so often; each entry leads back to the getter."""
    names = {1: StageName("getitem", getter), 2: StageName("decode", "load", True), 3: StageName("transform", "Crop")}
    stages = [n for stage, count in ((2, decodes), (3, crops)) for _ in range(count) for n in (0, stage, 0, 1)]
    made = [BatchInFull(1, 0, one, 0, 9, stages) for one in range(batches)]
    return Process(
        [
            ProcessStarted(20 + number, "worker", 0, 1, number, "fork"),
            *(NewStage(n, name) for n, name in names.items()),
            *made,
        ]
    )


def _run(workers: int, crops: int, decodes: int, batches: int = 3, getter: str = "Traps.__iter__") -> Run:
    made = [_worker(one, crops, decodes, batches, getter) for one in range(workers)]
    script = Process([ProcessStarted(1, "script", 0), LoaderFound(1, "Traps", workers, BATCH, "fork", 2)])
    return Run([script, *made], ShownTime(), (1,))


@pytest.mark.parametrize(
    ("run", "times"),
    [
        (_run(2, 2 * BATCH, 2 * BATCH), 2.0),
        (_run(4, 4 * BATCH, 4 * BATCH), 4.0),
        (_run(2, 2 * BATCH, 2 * BATCH - 1), 1.75),  # the last sample of a batch ends it
        (_run(2, BATCH, BATCH), None),  # each makes its own part
        (_run(2, 2 * BATCH, BATCH), None),  # two views of each image
        (_run(4, 2 * BATCH, 2 * BATCH), None),  # half of the samples are refused, say
        (_run(1, 2 * BATCH, 2 * BATCH), None),  # nothing to divide
        (_run(2, 2 * BATCH, 2 * BATCH, getter="Traps.__getitem__"), None),  # a sampler divides it
        (_run(2, 2 * BATCH, 2 * BATCH, batches=0), None),
        (_run(2, 0, 0), None),  # no row says anything
        (_run(2, 20 * BATCH, 20 * BATCH), None),  # a buffer of samples fills
    ],
)
def test_it_is_told_by_entries_of_rows(run: Run, times: float | None) -> None:
    assert times_made(run, 1) == times


def test_it_is_the_cause_of_waits_for_busy_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipebench.watch.read.causes.times_made", lambda run, loader: 2.0)
    run = Planted()
    run.loader(wait_for_worker=600, **TRAINS)
    for number in range(2):
        run.worker(number)
    account = run.account()
    assert account.causes[0].code == "each-makes-all" and account.causes[0].recoverable_s == pytest.approx(0.6)
    assert "decoders and transforms run 2.0 times for each sample. More workers bring nothing then." in said(account)
