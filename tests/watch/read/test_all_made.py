"""Workers of a stream that each make all of its samples: told by how often decoders and transforms ran for a sample."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.watch.read.all_made import times_made
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.lines import (
    BatchInFull,
    FetchSums,
    LoaderFound,
    NewStage,
    PassBegun,
    ProcessStarted,
    StageName,
)

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


def _stream(workers: int, first: list[int], later: int, opened: int = 0, also: str = "") -> Run:
    """Streams without decoders. A sample takes `later` calls of `encode`, a worker's first one those of `first`.

    Each call runs `ngrams`, and `also` once in each sample. A file is `opened` in so many samples of a batch.
    """
    names = {
        0: StageName("getitem", "fetch"),
        1: StageName("getitem", "Log.__iter__"),
        2: StageName("function", "Log.encode"),
        3: StageName("function", "ngrams"),
        4: StageName("function", "open_file"),
        5: StageName("function", also),
        6: StageName("collate", "collate"),
    }

    def sample(calls: int, more: list[int]) -> list[int]:
        return [1, *more, *[2, 3, 2, 1] * calls, *([5, 1] if also else []), 0]

    def batch(number: int, one: int) -> BatchInFull:
        begun = sample(first[one] if number == 0 else later, [])
        rest = [stage for nth in range(3) for stage in sample(later, [4, 1] if nth < opened else [])]
        return BatchInFull(1, 0, number, 0, 9, [part for stage in (*begun, *rest, 6, 0) for part in (0, stage)])

    made = [
        Process(
            [
                ProcessStarted(20 + one, "worker", 0, 1, one, "fork"),
                *(NewStage(*pair) for pair in names.items()),
                *(batch(number, one) for number in range(3)),
            ]
        )
        for one in range(workers)
    ]
    script = Process([ProcessStarted(1, "script", 0), LoaderFound(1, "Log", workers, BATCH, "fork", 2)])
    return Run([script, *made], ShownTime(), (1,))


@pytest.mark.parametrize(
    ("run", "times"),
    [
        (_stream(2, [1, 2], 2), 2.0),
        (_stream(3, [1, 2, 3], 3), 3.0),
        (_stream(2, [1, 2], 2, opened=1), 2.0),
        (_stream(2, [2, 2], 2), None),  # a sample is a pair of texts
        (_stream(2, [1, 1], 1), None),  # each makes its own part
        (_stream(2, [1, 2], 2, also="joined"), None),  # of two texts, but for the very first one
        (_stream(2, [900, 900], 1), None),  # a buffer fills at first
        (_stream(2, [0, 0], 0), None),
    ],
)
def test_without_decoders_the_first_sample_tells(run: Run, times: float | None) -> None:
    assert times_made(run, 1) == times


def test_it_is_the_cause_of_waits_for_busy_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipebench.watch.read.in_vain.times_made", lambda run, loader: 2.0)
    run = Planted()
    run.loader(wait_for_worker=600, **TRAINS)
    for number in range(2):
        run.worker(number)
    account = run.account()
    assert account.causes[0].code == "each-makes-all" and account.causes[0].recoverable_s == pytest.approx(0.6)
    assert "what makes a sample runs 2.0 times for each. More workers bring nothing then." in said(account)


def _chain(*gave: list[tuple[str, str, int]]) -> Run:
    """Workers of a stream that makes its own batches. Each has the stages of its chain: kind, name, items given on."""
    made = [
        Process(
            [
                ProcessStarted(20 + one, "worker", 0, 1, one, "fork"),
                *(NewStage(number, StageName(kind, name)) for number, (kind, name, _) in enumerate(chain, 1)),
                *(FetchSums(1, 0, 9, gave=half(chain, 0)), FetchSums(1, 9, 19, gave=half(chain, 1))),
            ]
        )
        for one, chain in enumerate(gave)
    ]
    script = Process(
        [ProcessStarted(1, "script", 0), LoaderFound(1, "Pipe", len(gave), None, "fork", 2), PassBegun(1, 0, 0)]
    )
    return Run([script, *made], ShownTime(), (1,))


def half(chain: list[tuple[str, str, int]], odd: int) -> dict[int, int]:
    return {number: (count + odd) // 2 for number, (_, _, count) in enumerate(chain, 1)}


def _usual(made: int, kept: int, divider: str = "split_by_worker", kind: str = "read") -> list[tuple[str, str, int]]:
    return [
        ("read", "tarfile_samples", made),
        ("transform", "to_example", made),
        (kind, divider, kept),
        ("getitem", "shuffle", max(0, kept - 100)),
        ("collate", "batched", kept // 32),
    ]


@pytest.mark.parametrize(
    ("run", "times"),
    [
        (_chain(_usual(1024, 512), _usual(1024, 512)), 2.0),
        (_chain(_usual(1025, 512), _usual(1024, 513)), 2.0),  # an odd number
        (_chain(*[_usual(400, 100, "every_nth", "transform")] * 4), 4.0),  # a function of the script
        (_chain(_usual(400, 390), _usual(400, 10)), None),  # each its own part: some files hold less that is wanted
        (_chain(_usual(512, 512), _usual(512, 512)), None),  # divided before
        (_chain(_usual(1024, 512, "select"), _usual(1024, 512, "select")), None),  # refuses every second sample
        (_chain(_usual(1024, 470, "good", "transform"), _usual(1024, 560, "good", "transform")), None),
        (_chain(_usual(30, 15), _usual(30, 15)), None),  # too few to tell
        (_chain(*[[("decode", "Decoder", 640), ("collate", "batched", 40), ("transform", "as_dict", 40)]] * 16), None),
        (_chain(*[[("decode", "Decoder", 640), ("getitem", "select", 320), ("getitem", "to_tuple", 320)]] * 2), None),
        (_chain(*[[("transform", "<lambda>", 640), ("transform", "tidied", 320)]] * 2), None),  # two with one count
        (_chain(*[_usual(3200, 3200)] * 32), None),  # batches of as many as there are workers
        (_chain([("read", "split_by_worker", 4), ("transform", "to_example", 512)]), None),  # one worker
    ],
)
def test_of_a_chain_the_items_that_each_stage_gave_tell(run: Run, times: float | None) -> None:
    assert times_made(run, 1) == times
