"""How often lines of the user's own code run, as Python tells it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pipebench.watch.record import line_counter
from pipebench.watch.record.line_counter import LineCounter


def loops(times: int) -> list[int]:
    found = []
    for one in range(times):
        if one % 2:
            found.append(one)
    return [each + 1 for each in found]


def gives(times: int) -> Iterator[int]:
    for one in range(times):
        yield one * 2


def recurses(times: int) -> int:
    return times and 1 + recurses(times - 1)


def in_several_lines(times: int) -> list[int]:
    found: list[int] = []
    for one in range(times):
        found.append(
            abs(one),
        )
    return found


def _ended(counter: LineCounter) -> dict[int, int]:
    counted = counter.end()
    assert sys.gettrace() is None and not counter.begun
    assert counted is None or counted.spent_ns > 0
    return {} if counted is None else {one.line: one.runs for one in counted.lines if one.file == __file__}


def _counted(work: Callable[[], object]) -> dict[int, int]:
    counter = LineCounter()
    assert counter.begin()
    work()
    return _ended(counter)


def _line(function: Callable[..., object], at: int) -> int:
    return function.__code__.co_firstlineno + at


def test_lines_in_loops_in_comprehensions_and_in_generators_count_each_time() -> None:
    found = _counted(lambda: loops(20))
    assert (found[_line(loops, 3)], found[_line(loops, 4)], found[_line(loops, 2)]) == (20, 10, 20)
    assert found[_line(loops, 5)] in (10, 11)
    assert _counted(lambda: sum(gives(30)))[_line(gives, 2)] == 30
    assert _counted(lambda: recurses(9))[_line(recurses, 1)] == 10


def test_a_statement_of_several_lines_counts_once() -> None:
    found = _counted(lambda: in_several_lines(20))
    assert (found[_line(in_several_lines, 3)], found[_line(in_several_lines, 4)]) == (20, 20)


def test_lines_of_a_library_and_what_runs_once_are_not_told() -> None:
    counter = LineCounter()
    assert counter.begin()
    np.vectorize(abs)(np.arange(5))
    counted = counter.end()
    assert counted is None or all(one.file == __file__ and one.runs >= 3 for one in counted.lines)


def test_lines_of_a_loop_that_runs_already_count_too() -> None:
    counter = LineCounter()
    at = sys._getframe().f_lineno
    for turn in range(10):
        if turn == 2:
            assert counter.begin(sys._getframe())
        np.ones(turn)
    assert _ended(counter)[at + 4] == 8
    assert sys._getframe().f_trace is None


def test_a_function_that_lives_on_is_counted_in_the_next_look_too() -> None:
    counter = LineCounter()

    def step() -> None:
        np.ones(2)
        assert _ended(counter) == {}
        assert counter.begin(sys._getframe())
        for _ in range(6):
            np.ones(3)

    assert counter.begin()
    step()
    assert _ended(counter)[_line(step, 5)] == 6


def test_too_many_lines_end_it_and_what_was_counted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_counter, "_EVENTS", 50)
    counter = LineCounter()
    assert counter.begin(sys._getframe())
    loops(100)
    assert sys.gettrace() is None and counter.begun and not counter.counts
    assert sys._getframe().f_trace is None  # nothing holds the locals of a frame any longer
    counted = counter.end()
    assert counted is not None and not counted.whole and 10 <= counted.lines[0].runs <= 50
    assert counter.begin()
    loops(4)
    counted = counter.end()
    assert counted is not None and counted.whole


def test_a_debugger_is_left_alone() -> None:
    def debugger(frame: object, event: str, given: object) -> None: ...

    counter = LineCounter()
    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        assert not counter.begin() and sys.gettrace() is debugger
        sys.settrace(None)
        assert counter.begin()
        loops(9)
        sys.settrace(debugger)  # the script sets it meanwhile
        assert counter.end() is None and sys.gettrace() is debugger
    finally:
        sys.settrace(before)


def test_another_thread_does_not_end_it() -> None:
    counter, given = LineCounter(), []
    assert counter.begin()
    loops(9)
    other = threading.Thread(target=lambda: given.append(counter.end()))
    other.start()
    other.join()
    assert given == [None] and counter.begun
    loops(9)
    assert _ended(counter)[_line(loops, 3)] == 18


def test_a_function_that_returned_is_not_held() -> None:
    class Batch:
        pass

    def takes() -> weakref.ref[Batch]:
        batch = Batch()
        assert counter.begin(sys._getframe())
        return weakref.ref(batch)

    counter = LineCounter()
    held = takes()
    gc.collect()
    assert held() is None
    _ended(counter)


def test_an_exception_passes_through() -> None:
    def fails() -> None:
        for one in range(5):
            if one == 4:
                raise ValueError

    counter = LineCounter()
    assert counter.begin()
    with pytest.raises(ValueError):
        fails()
    assert _ended(counter)[_line(fails, 2)] == 5
