"""What workers that live on would save of the start of a pass: also what only a new worker does, but of no stream."""

from types import SimpleNamespace

import pytest
from planted_runs import Planted, said

from pipebench.watch.read.account import Spent, start_up_saving_ns
from pipebench.watch.read.begins import stream_begins
from pipebench.watch.read.gather import Process
from pipebench.watch.record.lines import HandedOver
from pipebench.watch.record.spent import ROWS
from pipebench.watch.record.worker_lines import WorkerInit

MS = 1_000_000
PASSES = 4


def _run(first_ms, later_ms, created_ms=0):
    created = {0: {"created_ns": created_ms * MS}}
    handed = [
        HandedOver(task, one, task, 0, took * MS, 0, took * MS, 1, 10, 1, 100, 0, 0, **created.get(task, {}))
        for one in range(PASSES)
        for task, took in enumerate((first_ms, *later_ms))
    ]
    one = SimpleNamespace(handed=handed)
    return SimpleNamespace(sums=lambda loader: [(1, one)], of_loader=lambda kind, loader: ())


def _loader(iterable):
    return SimpleNamespace(loader=1, workers=1, persistent=False, can_persist=True, iterable=iterable)


def _saved_ms(run, iterable=False):
    """The milliseconds of the later starts that could be saved: each start took 1,600 ms."""
    spent = Spent(0)
    for one in range(PASSES):
        spent.passes[1, one] = [1600 * MS if name == "start-up" else 0 for name in ROWS]
    found = start_up_saving_ns(run, _loader(iterable), spent)
    return sum(rows.get("start-up", 0) for rows in found.values()) / MS


@pytest.mark.parametrize(
    ("first_ms", "later_ms", "saved_ms"),
    [
        (20, (20, 20), 3 * 1580),  # the making of the first batch stays
        (1520, (20, 20), 3 * 1580),  # a new worker opens an archive: one that lives on does not
        (20, (60, 60), 3 * 1580),  # the first batch was a cheap one
        (1520, (), 3 * 80),  # nothing tells what it is without the archive
    ],
)
def test_what_a_later_pass_saves(first_ms, later_ms, saved_ms):
    assert _saved_ms(_run(first_ms, later_ms)) == saved_ms


def test_a_stream_begins_anew_also_in_workers_that_live_on():
    """To call iter(dataset) takes 500 ms, and to fill a buffer 1,000 ms. The start of the process takes 80 ms."""
    run = _run(1020, (20, 20), created_ms=500)
    assert _saved_ms(run, iterable=True) == 3 * 80
    found = stream_begins(run, _loader(True))
    assert (found.first_s, found.usual_s, found.more_s) == pytest.approx((1.52, 0.02, 3 * 1.5))


def test_nothing_tells_how_another_pass_begins():
    assert stream_begins(_run(1020, (20, 20)), _loader(False)) is None
    assert stream_begins(_run(1020, ()), _loader(True)) is None


@pytest.mark.parametrize(
    ("ms", "place", "text"),
    [(500, (), " In each of these workers, load (worker_init_fn) took 500 ms."),
     (500, ("/a/train.py", 4), " In each of these workers, load (worker_init_fn, train.py:4) took 500 ms."),
     (10, (), "")],
)  # fmt: skip
def test_a_function_that_each_worker_begins_with_is_named_if_it_is_much_of_the_start(ms, place, text):
    run = Planted()
    run.loader(passes=9, start_up=800, end_of_pass=100, forward=100)
    for worker in range(2):
        run.worker(worker)
        run.workers[-1] = Process([*run.workers[-1].lines, *[WorkerInit(1, worker, ms * MS, "load", *place)] * 9])
    assert f"9 passes over loader 1.{text} persistent_workers=True could save about" in said(run.account())
