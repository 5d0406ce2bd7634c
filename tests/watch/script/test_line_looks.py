"""When lines are counted, in the loop and where batches are made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pipebench.watch.record.sample_calls import LineRuns
from pipebench.watch.script import line_looks as of_loop
from pipebench.watch.worker import line_looks as of_worker

SECOND = 1_000_000_000


class Written(list[LineRuns]):
    """What a recording got."""

    def recording(self) -> Any:
        return SimpleNamespace(
            write=self.append, guarded=lambda where, act, *args: act(*args), before_stop=[], fault=print
        )


@pytest.fixture
def written() -> Iterator[Written]:
    yield Written()
    assert sys.gettrace() is None


def work(times: int = 5) -> None:
    for _ in range(times):
        len("abc")


def _iteration(looks: of_loop.LineLooks, now: float, part: of_loop.Part = "after", turn: int = 9) -> None:
    at = int(now * SECOND) + 1
    if at >= looks.asked_ns:
        looks.begin(1, part, turn, at, model=part == "before")
    work()
    looks.stop()


def test_two_iterations_of_a_loop_are_counted_some_seconds_apart(written: Written) -> None:
    looks = of_loop.LineLooks(written.recording())
    _iteration(looks, 0)
    _iteration(looks, 0.5)
    assert not written
    _iteration(looks, 1.1)
    _iteration(looks, 1.2)
    _iteration(looks, 1.3, "before")
    assert len(written) == 1
    _iteration(looks, 1.6, "before")
    assert [(one.loader, one.per, one.part, one.whole) for one in written] == [
        (1, "iteration", "after", True), (1, "iteration", "before", True),
    ]  # fmt: skip
    assert max(one.runs for one in written[0].lines) >= 5
    for at in range(2, 90):
        _iteration(looks, at / 2)
    assert [one.part for one in written] == ["after", "before", "after"]
    for at in range(90, 99):
        _iteration(looks, at / 2, "before")
    assert len(written) == 4


def test_the_first_iterations_of_a_pass_are_not_counted(written: Written) -> None:
    looks = of_loop.LineLooks(written.recording())
    for at in range(9):
        _iteration(looks, at, turn=2)
    assert not written


def test_the_model_is_not_counted_where_a_part_of_it_is_compiled(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = SimpleNamespace(counters={"frames": {"total": 1}})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", compiled)
    looks = of_loop.LineLooks(written.recording())
    for at in range(9):
        _iteration(looks, at, "before" if at % 2 else "after")
    assert {one.part for one in written} == {"after"}


def test_the_end_of_the_recording_ends_it(written: Written) -> None:
    recording = written.recording()
    looks = of_loop.LineLooks(recording)
    looks.begin(1, "after", 9, 1, model=False)
    looks.begin(1, "after", 9, 2 * SECOND, model=False)
    assert sys.gettrace() is not None
    work()
    (stop,) = recording.before_stop
    stop()
    assert len(written) == 1


def test_a_sample_and_what_puts_a_batch_together_are_counted_twice(written: Written) -> None:
    looks = of_worker.LineLooks(written.recording(), 2, 0)
    due = [looks.due(SECOND // 10) for _ in range(60)]
    assert [at for at, one in enumerate(due) if one] == [2, 23]
    assert looks.begins()
    work()
    looks.ends(7, "sample")
    collate = looks.counted(work)
    assert collate is not work and looks.counted(work) is work
    collate(6)
    assert [(one.loader, one.per, one.part) for one in written] == [(2, "sample", ""), (2, "batch", "collate")]
    assert max(one.runs for one in written[1].lines) >= 6


def test_workers_of_later_passes_and_functions_of_libraries_are_left_out(written: Written) -> None:
    looks = of_worker.LineLooks(written.recording(), 2, 3)
    assert not any(looks.due(SECOND) for _ in range(9))
    looks = of_worker.LineLooks(written.recording(), 2, 0)
    assert looks.due(SECOND) and looks.counted(len) is len
