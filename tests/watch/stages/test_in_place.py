"""A function that is timed where it is stays what it is for the script: the same object, with the same arguments."""

from __future__ import annotations

import inspect
import pickle
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fetched_rows import CLOCK

from pipebench.watch.record import exclusive_time
from pipebench.watch.record.exclusive_time import StageTimer, local
from pipebench.watch.record.own_code import Function, Place, own_place
from pipebench.watch.record.patches import Patches, without_our_frames
from pipebench.watch.stages import in_place

STAGE = 7


@pytest.fixture
def patches() -> Iterator[Patches]:
    found = Patches()
    yield found
    found.undo()


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Iterator[StageTimer]:
    monkeypatch.setattr(exclusive_time, "perf_counter_ns", CLOCK)
    local.timer = found = StageTimer()
    found.begin()
    yield found
    local.timer = None


SOUNDS = """
import sys
def load(path):
    return _read(path)
def _read(path):
    stack.extend(frames(sys._getframe()))
"""


def test_a_look_at_a_librarys_function_finds_the_line_that_calls_it(timer: StageTimer, patches: Patches) -> None:
    """The frames around a function that is timed are the library's, ours, and the user's, in this order."""

    def frames(frame: types.FrameType | None) -> Iterator[Function]:
        while frame is not None:
            yield Function(frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno)
            frame = frame.f_back

    def item(library: dict[str, Any]) -> None:
        library["load"]("a.wav")

    stack: list[Function] = []
    library: dict[str, Any] = {"stack": stack, "frames": frames}
    exec(compile(SOUNDS, "/v/site-packages/sounds/reading.py", "exec"), library)
    for timed in (False, True):
        if timed:
            in_place.watch(library["load"], STAGE, patches)
        stack.clear()
        item(library)
    line = item.__code__.co_firstlineno + 1
    assert own_place(stack) == Place(__file__, item.__qualname__, line, "sounds.load")


def simple(one: Any, two: Any = 2) -> Any:
    """What it does."""
    CLOCK.burn(10)
    return one, two


def every_kind(a: Any, /, b: Any, c: Any = 3, *args: Any, d: Any, e: Any = 5, **kwargs: Any) -> Any:
    return a, b, c, args, d, e, kwargs


def only_named(*, one: Any = 1, two: Any) -> Any:
    return one, two


def nothing() -> int:
    return 0


def enclosing(more: int) -> Callable[[int], int]:
    def inner(one: int) -> int:
        nonlocal more
        more += 1
        return one + more

    return inner


class Base:
    def method(self, one: int) -> int:
        return one


class Above(Base):
    def method(self, one: int) -> int:
        return super().method(one) + 1


CALLS: list[tuple[Any, Callable[[Any], Any]]] = [
    (simple, lambda f: [f(1), f(1, 3), f(one=4), f(*[5], **{"two": 6})]),
    (every_kind, lambda f: [f(1, 2, d=4), f(1, b=2, d=4, a=7), f(1, 2, 3, 4, 5, d=6, e=7, g=8)]),
    (only_named, lambda f: [f(two=2), f(one=3, two=4)]),
    (nothing, lambda f: [f()]),
    (lambda *one, **two: (one, two), lambda f: [f(1, 2, three=3)]),
    (Above.method, lambda f: [f(Above(), 1), Above().method(2)]),
]


def _seen_of(function: Any) -> list[Any]:
    """What a script may ask of a function."""
    code, full = function.__code__, inspect.getfullargspec(function)
    names = code.co_name, code.co_qualname, code.co_firstlineno, code.co_varnames[: code.co_argcount]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_freevars
    texts = function.__name__, function.__doc__, inspect.getsource(function)
    return [texts, dict(vars(function)), inspect.signature(function), full, names, counts]


@pytest.mark.parametrize(("function", "call"), CALLS)
def test_it_looks_and_acts_as_before(
    function: Any, call: Callable[[Any], Any], patches: Patches, timer: StageTimer
) -> None:
    before, code = (_seen_of(function), call(function)), function.__code__
    in_place.watch(function, STAGE, patches)
    assert function.__code__ is not code and not in_place.can_be_timed(function)
    timer.sums[STAGE] = -1
    assert (_seen_of(function), call(function)) == before
    with pytest.raises(TypeError) as wrong:
        function(1, 2, 3, unknown=4) if function is not CALLS[4][0] else function(**{1: 2})  # type: ignore[dict-item]
    assert "pipebench" not in str(wrong.value)
    patches.undo()
    assert function.__code__ is code


def test_what_it_encloses_is_shared(patches: Patches, timer: StageTimer) -> None:
    function = enclosing(10)
    assert function(1) == 12
    in_place.watch(function, STAGE, patches)  # type: ignore[arg-type]
    assert function(1) == 13
    patches.undo()
    assert function(1) == 14


def test_it_is_pickled_by_its_name(patches: Patches) -> None:
    before = pickle.dumps([simple])
    in_place.watch(simple, STAGE, patches)  # type: ignore[arg-type]
    assert pickle.dumps([simple]) == before and pickle.loads(before)[0] is simple


def test_its_time_is_in_its_stage(patches: Patches, timer: StageTimer) -> None:
    in_place.watch(simple, STAGE, patches)  # type: ignore[arg-type]
    simple(1)
    CLOCK.burn(5)
    assert timer.sums[STAGE] == 10 and timer.current == 0
    local.timer = None
    simple(1)
    assert timer.sums[STAGE] == 10


def failing() -> None:
    warnings.warn("mind", stacklevel=2)
    raise KeyError(sys._getframe().f_code.co_name)


def test_warnings_and_tracebacks_show_the_same_places(patches: Patches, timer: StageTimer) -> None:
    def shown() -> Any:
        with warnings.catch_warnings(record=True) as said, pytest.raises(KeyError) as error:
            warnings.simplefilter("always")
            failing()
        without_our_frames(error.value)
        lines = [(one.filename, one.lineno, one.name) for one in traceback.extract_tb(error.value.__traceback__)]
        return [(one.filename, one.lineno) for one in said], lines, str(error.value)

    before = shown()
    in_place.watch(failing, STAGE, patches)  # type: ignore[arg-type]
    assert shown() == before


def deep(levels: int) -> int:
    CLOCK.burn(1)
    return 1 + deep(levels - 1) if levels else 0


def deep_by_another(levels: int) -> int:
    CLOCK.burn(1)
    return another(levels)


def another(levels: int) -> int:
    CLOCK.burn(1)
    return 1 + deep_by_another(levels - 1) if levels else 0


@pytest.mark.parametrize(("first", "second", "spent"), [(deep, deep, 1), (deep_by_another, another, 2)])
def test_what_calls_itself_takes_no_more_of_the_stack(
    first: Any, second: Any, spent: int, patches: Patches, timer: StageTimer
) -> None:
    levels = (sys.getrecursionlimit() - len(inspect.stack())) // spent - 40
    for function in {first, second}:
        in_place.watch(function, STAGE, patches, whole=True)
    for _ in range(3):
        assert first(levels) == levels
    assert timer.sums[STAGE] == 3 * spent * (levels + 1)
    assert timer.whole[STAGE] == timer.sums[STAGE]
    patches.undo()
    assert in_place.can_be_timed(first) and in_place.can_be_timed(second)


def test_it_can_be_left_for_good(patches: Patches, timer: StageTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "_TRIED", 1)
    in_place.watch(simple, STAGE, patches, whole=True)  # type: ignore[arg-type]
    timer.switch(STAGE + 1)
    simple(1)
    assert in_place.can_be_timed(simple) and timer.sums[STAGE] == 10 and timer.left == {STAGE: STAGE + 1}


def test_what_somebody_exchanges_later_stays(patches: Patches, timer: StageTimer) -> None:
    plain = nothing.__code__
    in_place.watch(nothing, STAGE, patches)
    watched, nothing.__code__ = nothing.__code__, simple.__code__
    patches.undo()
    assert nothing.__code__ is simple.__code__
    nothing.__code__ = plain
    assert types.FunctionType(watched, {})() == 0


def test_a_pickle_of_its_code_holds_the_function_alone(patches: Patches) -> None:
    dill = pytest.importorskip("dill")
    function = enclosing(10)
    in_place.watch(function, STAGE, patches)  # type: ignore[arg-type]
    sent = dill.dumps(function, recurse=True)
    assert b"pipebench.watch" not in sent and dill.loads(sent)(1) == 12


def test_what_numba_compiles_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_place.can_be_timed(simple)
    monkeypatch.setitem(sys.modules, "numba", types.ModuleType("numba"))
    assert in_place.can_be_timed(simple)
    compiled = type("CPUDispatcher", (), {"__module__": "numba.core.registry", "py_func": staticmethod(simple)})()
    monkeypatch.setitem(globals(), "compiled", compiled)
    assert not in_place.can_be_timed(simple) and in_place.can_be_timed(nothing)


class Base:
    def doubled(self, one: int) -> int:
        return 2 * one


class Derived(Base):
    def doubled(self, one: int) -> int:
        return super().doubled(one) + len(_local_names())


def _local_names() -> list[list[str]]:
    """The names of the variables of every frame, as a debugger or a traceback with variables reads them."""
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(sorted(frame.f_locals))
        frame = frame.f_back
    return found[:1]


def test_the_variables_of_each_frame_can_be_read(timer: StageTimer, patches: Patches) -> None:
    """Also those of a function that uses variables of the one around it, and of a method that calls `super()`."""

    def around(more: int) -> Callable[[int], int]:
        def inner(one: int) -> int:
            return one + more + len(_local_names())

        return inner

    inner = around(3)
    for one in (inner, Derived.doubled):
        in_place.watch(one, STAGE, patches)
    assert (inner(1), Derived().doubled(4)) == (5, 9)
    assert inner.__code__.co_freevars == ("more",) and Derived.doubled.__code__.co_freevars == ("__class__",)


def test_a_function_that_no_text_can_make_is_left_alone(timer: StageTimer, patches: Patches) -> None:
    def plain(one: int) -> int:
        return one

    odd = types.FunctionType(plain.__code__.replace(co_varnames=("a b",)), {}, "odd")
    code = odd.__code__
    in_place.watch(odd, STAGE, patches)
    assert odd.__code__ is code and odd(3) == 3
