"""A stream that is not divided among its workers: certain where their first batches are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Cause
from pipebench.results.next_move import NextMove
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import LoaderFound, PassEnded
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.worker_lines import OneBatch

SAME = (11, 12, 13, 14)


def _run(
    *workers: Sequence[int], how: Any = "exhausted", undivided: bool = True, unused: Sequence[int] = (0, 0)
) -> Planted:
    """Two workers or more whose first batches hold what these numbers say."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=20, workers=len(workers), iterable=True)
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoaderFound))
    run.lines[place] = replace(run.lines[place], undivided=undivided, dataset="Reviews")
    run.lines.append(PassEnded(1, how, 0))
    for number, holds in enumerate(workers):
        single = [OneBatch(nth * MS, MS, MS, 0, False, one) for nth, one in enumerate((*holds, 0))]
        run.worker(number, busy=0.1, single=single, unused=unused[number % 2])
    return run


def test_samples_that_a_pass_repeats_come_first() -> None:
    account = _run(SAME, SAME).account()
    cause = account.causes[0]
    assert (cause.code, cause.loader) == ("each-gives-all", 1)
    assert cause.s == cause.recoverable_s == pytest.approx(1.02 / 2)
    assert said(account).startswith(
        "Each of the 2 workers of loader 1 gives all samples of Reviews, so a pass has each sample 2 times: their "
        "first 4 batches are the same, and nothing in its code asks for the worker (get_worker_info). The repeated "
        "samples took 510 ms of the run's 1.12 s (45 %). As many passes with each sample once could save about 510 ms "
        "(predicted, not tried)."
    )
    larger = Cause("unequal-lengths", 0.9, 0.9, 1)
    assert next_move(move_of_run(None, [larger, *account.causes], 2.0)) == (
        "Next: let each worker of loader 1 give its own part of the stream (Reviews). In its __iter__, with info = "
        "torch.utils.data.get_worker_info(): of files, files[info.id::info.num_workers]; of samples, each "
        "info.num_workers-th one from info.id on. Without workers, info is None."
    )


def test_three_workers_repeat_two_thirds() -> None:
    assert _run(SAME, SAME, SAME).causes()["each-gives-all"].recoverable_s == pytest.approx(1.02 * 2 / 3)


@pytest.mark.parametrize(
    "run",
    [
        _run(SAME, (11, 12, 99, 14)),  # drawn, shuffled or augmented anew by each
        _run(SAME, (12, 11, 13, 14)),
        _run((11, 11, 11), (11, 11, 11)),  # all batches are the same, as of made-up data
        _run((11,), (11,)),
        _run(SAME, ()),  # nothing is known of one of them
        _run(SAME, SAME, how="left"),  # a stream without an end, of which steps take a part
        _run(SAME, SAME, undivided=False),  # something may divide it later
        _run(SAME, SAME, unused=(0, 40)),  # one gave fewer
    ],
)
def test_else_it_is_not_certain(run: Planted) -> None:
    assert "each-gives-all" not in run.causes()


@pytest.mark.parametrize(("second", "noted"), [(SAME, False), ((21, 22), True)])
def test_the_note_is_left_out_where_the_cause_says_it(second: Sequence[int], noted: bool) -> None:
    run = _run(SAME, second)
    run.account()
    found = summarise([Process(run.lines), *run.workers], WatchOptions(), 0, 4.0, Footprint(), lived=(0, run.now + MS))
    assert ("undivided" in {one.code for one in found.notes}) is noted


def test_batches_of_like_length_are_made_in_a_stream_itself() -> None:
    move = NextMove("batch-by-length", 2.0, loader=1)
    assert (next_move(move) or "").endswith(" by a batch_sampler, with the batches in random order.")
    said_so = next_move(replace(move, shards=0)) or ""
    assert "in its stream, fill a buffer with the samples of some 20 batches, sort it by length" in said_so
    assert "by a batch_sampler" not in said_so
