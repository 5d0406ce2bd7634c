"""Which line a frame has reached, where the instruction that it stands at has none."""

from __future__ import annotations

import threading
import types
from types import SimpleNamespace
from typing import Any

import pytest

from pipebench.watch.record.own_code import line_reached
from pipebench.watch.script.loop_place import place_in
from pipebench.watch.script.own_line import line_of_sampler, own_line


def _code(*lines: tuple[int, int, int | None]) -> Any:
    """A code that says so of its lines: the first instruction, the end, and the line."""
    return SimpleNamespace(
        co_firstlineno=30, co_lines=lambda: iter(lines), co_filename="/home/me/train.py", co_qualname="metrics",
        co_name="metrics",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("at", "line", "found"),
    [(4, 33, 33), (6, None, 35), (8, None, 36), (0, None, 30)],
)
def test_an_instruction_without_a_line_has_that_of_the_last_one(at: int, line: int | None, found: int) -> None:
    code = _code((0, 2, None), (2, 4, 31), (4, 6, 35), (6, 8, None), (8, 10, 36), (10, 12, 40))
    frame: Any = SimpleNamespace(f_lineno=line, f_lasti=at, f_code=code)
    assert line_reached(frame) == found


def _without_lines(function: types.FunctionType) -> types.FunctionType:
    """The same function, of which no instruction has a line: so is what Python adds at the ends of loops."""
    code = function.__code__
    units = len(code.co_code) // 2
    table = b"".join(bytes([0x80 | 15 << 3 | (min(8, units - at) - 1)]) for at in range(0, units, 8))
    return types.FunctionType(code.replace(co_linetable=table), function.__globals__, "metrics")


def test_looks_at_such_a_frame_tell_a_line() -> None:
    def loop(gate: Any) -> None:
        for _ in range(1):
            gate()

    found: list[Any] = []

    def gate() -> None:
        def look() -> None:
            import sys

            frame = sys._current_frames()[main]
            outer = next(one for one in _outwards(frame) if one.f_code.co_name == "loop")
            assert outer.f_lineno is None
            found.extend([place_in(frame, id(outer)), own_line(outer, 0, None), line_of_sampler(outer)])

        other = threading.Thread(target=look)
        other.start()
        other.join()

    main = threading.get_ident()
    _without_lines(loop)(gate)
    place = found[0]
    assert place is not None and place.line == loop.__code__.co_firstlineno
    assert all(isinstance(line, int) for _, line in place.path)


def _outwards(frame: Any) -> Any:
    while frame is not None:
        yield frame
        frame = frame.f_back
