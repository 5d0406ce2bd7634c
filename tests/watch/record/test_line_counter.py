"""How often lines of the user's own code run, as Python tells it."""

from __future__ import annotations

import sys
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


def _counted(work: Callable[[], object]) -> dict[int, int] | None:
    counter = LineCounter()
    assert counter.begin()
    work()
    lines = counter.end()
    assert sys.gettrace() is None and not counter.begun
    return None if lines is None else {one.line: one.runs for one in lines if one.file == __file__}


def _line(function: Callable[..., object], at: int) -> int:
    return function.__code__.co_firstlineno + at


def test_lines_in_loops_in_comprehensions_and_in_generators_count_each_time() -> None:
    found = _counted(lambda: loops(20)) or {}
    assert (found[_line(loops, 3)], found[_line(loops, 4)]) == (20, 10)
    assert found[_line(loops, 2)] in (20, 21) and found[_line(loops, 5)] in (10, 11, 12)
    found = _counted(lambda: sum(gives(30))) or {}
    assert found[_line(gives, 2)] == 30
    assert (_counted(lambda: recurses(9)) or {})[_line(recurses, 1)] == 10


def test_lines_of_a_library_and_what_runs_once_are_not_told() -> None:
    counter = LineCounter()
    assert counter.begin()
    np.vectorize(abs)(np.arange(5))
    lines = counter.end() or []
    assert all(one.file == __file__ for one in lines)
    assert not any(one.runs < 3 for one in lines)


def test_lines_of_a_loop_that_runs_already_count_too() -> None:
    counter = LineCounter()
    at = sys._getframe().f_lineno
    for turn in range(10):
        if turn == 2:
            assert counter.begin(sys._getframe())
        np.ones(turn)
    lines = counter.end() or []
    assert {one.line: one.runs for one in lines}[at + 4] == 8
    assert sys._getframe().f_trace is None


def test_too_many_lines_end_it_and_what_was_counted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_counter, "_EVENTS", 50)
    counter = LineCounter()
    assert counter.begin()
    loops(100)
    assert sys.gettrace() is None and counter.begun and not counter.counts
    assert 10 <= max(one.runs for one in counter.end() or []) <= 50
    assert not counter.whole and not counter.begun
    assert counter.begin()
    loops(4)
    assert counter.end() and counter.whole


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


def test_an_exception_passes_through() -> None:
    def fails() -> None:
        for one in range(5):
            if one == 4:
                raise ValueError

    counter = LineCounter()
    assert counter.begin()
    with pytest.raises(ValueError):
        fails()
    assert {one.line: one.runs for one in counter.end() or []}[_line(fails, 2)] == 5
