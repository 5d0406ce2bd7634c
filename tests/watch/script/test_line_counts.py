"""When lines are counted, in the loop and where batches are made."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pipebench.watch.record.sample_calls import LineRuns
from pipebench.watch.script import line_counts as of_loops
from pipebench.watch.worker import line_counts as of_samples

SECOND = 1_000_000_000


class Written(list[LineRuns]):
    """What a recording got."""

    def recording(self) -> Any:
        def write(line: object) -> None:
            if isinstance(line, LineRuns):
                self.append(line)

        return SimpleNamespace(write=write, guarded=lambda where, act, *args: act(*args), before_stop=[], fault=print)

    def parts(self) -> Counter[str]:
        return Counter(one.part for one in self)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)  # another test may have compiled a model
    yield Written()
    assert sys.gettrace() is None


def work(times: int = 5) -> None:
    for _ in range(times):
        len("abc")


class Loop:
    """A loop whose iterations have parts of some milliseconds each, in a made-up time."""

    def __init__(self, written: Written, loader: int = 1, looks: of_loops.LinesOfLoops | None = None) -> None:
        self.looks = looks or of_loops.LinesOfLoops(written.recording())
        self.loader, self.now, self.turn = loader, 0.0, 9

    def turns(self, seconds: float, **parts_ms: float) -> Loop:
        end = self.now + seconds
        while self.now < end:
            for part, spent in parts_ms.items():
                at = int(self.now * SECOND) + 1
                if at >= self.looks.asked_ns:
                    self.looks.begin(self.loader, part, self.turn, at, part == "before")  # type: ignore[arg-type]
                work()
                self.now += spent / 1000
                self.looks.stop()
        return self


@pytest.mark.parametrize(
    "parts_ms",
    [
        {"wait": 1, "before": 300}, {"wait": 1, "before": 100, "after": 900}, {"wait": 95, "before": 10, "after": 0.5},
        {"wait": 400, "before": 100, "after": 1}, {"wait": 0.1, "before": 0.2, "after": 0.1}, {"after": 2000},
    ],
)  # fmt: skip
def test_each_part_of_an_iteration_is_counted_twice_however_long_the_others_are(
    parts_ms: dict[str, float], written: Written
) -> None:
    Loop(written).turns(40, **parts_ms)
    assert written.parts() == {part: 2 for part in parts_ms}
    assert {(one.loader, one.per, one.whole) for one in written} == {(1, "iteration", True)}
    assert all(one.spent_ns > 0 and max(line.runs for line in one.lines) >= 5 for one in written)


def test_it_is_seldom_asked_once_all_is_counted(written: Written) -> None:
    loop = Loop(written).turns(20, wait=1, before=2, after=1)
    now = int(loop.now * SECOND)
    assert now < loop.looks.asked_ns <= now + SECOND // 4


def test_a_loop_that_begins_later_is_counted_too(written: Written) -> None:
    first = Loop(written).turns(20, wait=1, before=2, after=1)
    second = Loop(written, 2, first.looks)
    second.now = first.now
    second.turns(20, wait=1, before=20)
    assert Counter((one.loader, one.part) for one in written if one.loader == 2) == {(2, "wait"): 2, (2, "before"): 2}


def test_the_first_iterations_of_a_pass_are_not_counted(written: Written) -> None:
    loop = Loop(written)
    loop.turn = 2
    loop.turns(9, wait=1, before=2)
    assert not written


def test_the_model_is_not_counted_where_a_part_of_it_is_compiled(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = SimpleNamespace(counters={"frames": {"total": 1}})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", compiled)
    loop = Loop(written).turns(20, wait=1, before=2, after=1)
    assert written.parts() == {"wait": 2, "after": 2} and loop.looks.asked_ns > loop.now * SECOND


def test_the_end_of_the_recording_ends_it(written: Written) -> None:
    recording = written.recording()
    looks = of_loops.LinesOfLoops(recording)
    looks.begin(1, "after", 9, 1, model=False)
    looks.begin(1, "after", 9, 2 * SECOND, model=False)
    assert sys.gettrace() is not None
    work()
    (stop,) = recording.before_stop
    stop()
    assert len(written) == 1


def test_a_process_that_is_forked_meanwhile_counts_nothing(written: Written) -> None:
    looks = of_loops.LinesOfLoops(written.recording())
    looks.begin(1, "after", 9, 1, model=False)
    looks.begin(1, "after", 9, 2 * SECOND, model=False)
    child = os.fork()
    if not child:
        os._exit(3 if sys.gettrace() is None else 4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3 and sys.gettrace() is not None
    work()
    looks.stop()
    assert len(written) == 1


def test_what_python_calls_at_forks_keeps_nothing_to_its_end(written: Written) -> None:
    """Else objects of the script would be freed only after torch's modules are emptied."""
    held = weakref.ref(of_loops.LinesOfLoops(written.recording()))
    gc.collect()
    assert held() is None


def test_a_sample_and_what_puts_a_batch_together_are_counted_twice(written: Written) -> None:
    counts = of_samples.LinesOfSamples(written.recording(), 2, 0)
    assert [counts.due(SECOND // 10) for _ in range(3)] == [False, False, True]
    assert counts.begins()
    work()
    counts.ends(7, "sample")
    collate = counts.counted(work)
    assert collate is not work and counts.counted(work) is work
    collate(6)
    assert [(one.loader, one.per, one.part) for one in written] == [(2, "sample", ""), (2, "batch", "collate")]
    assert max(one.runs for one in written[1].lines) >= 6
    assert [counts.due(SECOND // 10) for _ in range(21)] == [False] * 20 + [True]
    assert counts.begins("samples")
    counts.ends()
    assert not any(counts.due(SECOND) for _ in range(900))


def test_beside_a_debugger_it_is_tried_again_later(written: Written) -> None:
    def debugger(frame: object, event: str, given: object) -> None: ...

    counts = of_samples.LinesOfSamples(written.recording(), 2, 0)
    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        assert counts.due(SECOND) and not counts.begins()
        assert counts.counted(work)() is None
    finally:
        sys.settrace(before)
    assert not written and counts.due(8 * SECOND) and counts.begins()
    work()
    counts.ends()
    assert len(written) == 1


def test_workers_of_later_passes_and_functions_of_libraries_are_left_out(written: Written) -> None:
    counts = of_samples.LinesOfSamples(written.recording(), 2, 3)
    assert not any(counts.due(SECOND) for _ in range(9))
    counts = of_samples.LinesOfSamples(written.recording(), 2, 0)
    assert counts.due(SECOND) and counts.counted(len) is len
