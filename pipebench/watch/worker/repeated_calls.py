"""Notices functions that give each sample the same, or one sample twice the same: once would do. Or each iteration.

In a few samples of a process, or iterations of a loop, Python tells each call (`sys.setprofile`), which takes up to a
microsecond. The first of them finds the functions that take long. In the others, what goes into these functions, and
what they give, becomes a number each. The time that this takes is not counted as theirs.
"""

from __future__ import annotations

import sys
import types
import zlib
from collections import Counter
from time import perf_counter_ns
from typing import Any, Literal

from pipebench.watch.record import profilers
from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.last_sample import text_of
from pipebench.watch.record.own_code import is_standard, line_reached, owner, plain_name
from pipebench.watch.record.patches import is_ours
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sample_calls import FunctionCalls, SampleCalls
from pipebench.watch.stages.in_place import LAZY, NAMED, VARIABLE
from pipebench.watch.worker.draws import drew_since, moved, own_generators, random_state
from pipebench.watch.worker.fingerprints import attributes_of, size_of, whole

_SAMPLES = 4
_FIRST_NS = 1_000_000_000  # of making batches, before the first of these samples; each next one comes after twice that
_PASSES = 3  # in whose workers it is looked
_EVENTS = 60_000  # of a sample
_OWN_NS = 50_000_000  # of our own work in a sample
_PART = 0.05  # of the sample, in a function that takes long
_MOST_FUNCTIONS = 16
_MOST_CALLS = 100  # in a sample, of a function that is compared
_MOST_DRAWS = 16  # of them, of which it is looked whether they draw random numbers: of others nothing is known
_TRIED = 200  # calls, to learn what it takes to be told of one
_MOST_BYTES = 64 << 20  # of arguments and results in one sample
_LEAST_BYTES = 32  # of a result: a number or two may be the same by chance
_MADE, _OF_SUPER = "__init__", "__class__"


class _Open:
    """A call that has not returned yet. What was counted up to its begin is in `events` and `own_ns`."""

    __slots__ = ("at", "began", "code", "events", "generators", "given", "made", "own_ns", "states")

    def __init__(self, code: types.CodeType, at: tuple[str, int]) -> None:
        self.code, self.at = code, at
        self.began = self.events = self.own_ns = self.given = 0
        self.states: Any = None  # of random numbers
        self.generators: list[tuple[Any, Any]] = []  # of random numbers, that the object holds
        self.made: Any = None  # the object, of an `__init__`


class _Told:
    """What is known of the calls of one function in the present sample."""

    def __init__(self, one: _Open) -> None:
        self.code, self.at = one.code, one.at
        self.calls = self.again = self.spent = self.again_ns = self.given = self.gave = self.bytes = 0
        self.known = self.results_known = True
        self.several = self.rough = False
        self.seen: set[tuple[int, int]] = set()


class RepeatedCalls:
    """Looks into some samples of one loader, or iterations over it, in one process."""

    def __init__(
        self, recording: Recording, loader: int, first_pass: int, per: Literal["sample", "iteration"] = "sample"
    ) -> None:
        self._recording, self._loader, self._per = recording, loader, per
        self._left = _SAMPLES if first_pass < _PASSES else 0
        self._busy, self._due_ns = 0, _FIRST_NS
        self._long: dict[int, types.CodeType] | None = None  # by id: a code's own hash reads all of it. None: not known
        self._unknown: set[tuple[int, bool]] = set()  # what went into a function, or came out, cannot be looked into
        self._event_ns = 0.0
        self._begin()

    def due(self, busy_ns: int) -> bool:
        """Adds the time of a batch. Returns whether the next sample is looked into."""
        self._busy += busy_ns
        if not self._left or self._busy < self._due_ns:
            return False
        self._due_ns = max(2 * self._due_ns, self._busy)
        return True

    def begins(self) -> bool:
        """Called before a sample is made. Returns whether it is looked into: not while something else is told calls."""
        if not profilers.is_free():
            return False
        self._left -= 1
        if self._long is not None:
            self._event_ns = self._learnt()
        self._begin()
        sys.setprofile(self._tells if self._long is None else self._compares)
        return True

    def ends(self, index: object, sample: object) -> None:
        """Called when a sample is made that is looked into. It is None if it failed, or if there is nothing in it."""
        now = perf_counter_ns()
        present = sys.getprofile()
        if present is None or getattr(present, "__self__", None) is not self:
            self._left = 0  # there were too many calls, or the script looks at calls itself
        else:
            sys.setprofile(None)
            if sample is not None:
                self._recording.guarded("looking at the calls of a sample", self._note, index, sample, now)
        self._begin()

    @property
    def left(self) -> int:
        """How many more are looked into, if they come."""
        return self._left

    def _begin(self) -> None:
        self._events = self._own_ns = 0
        self._open: list[_Open] = []
        self._codes: dict[int, types.CodeType] = {}
        self._within: Counter[int] = Counter()
        self._spent: Counter[int] = Counter()
        self._calls: Counter[int] = Counter()
        self._by_users: set[int] = set()  # the functions that the user's own code calls: others he cannot change
        self._found: dict[int, _Told] = {}
        self._made: list[tuple[int, Any, int]] = []  # objects that this sample has made
        self._bytes = _MOST_BYTES
        self._began = perf_counter_ns()

    def _learnt(self) -> float:
        """The nanoseconds that it takes to be told of a call that is not compared."""
        self._begin()
        sys.setprofile(self._compares)
        for _ in range(_TRIED):
            abs(0)
        sys.setprofile(None)
        return (perf_counter_ns() - self._began) / max(1, self._events)

    def _tells(self, frame: types.FrameType, event: str, given: Any) -> None:
        """Python calls this at each call and return, while it is not known which functions take long."""
        self._events += 1
        if self._events > _EVENTS:
            sys.setprofile(None)
            return
        try:
            if event == "call":
                self._enters(frame)
            elif event == "return" and self._open and self._open[-1].code is frame.f_code:
                one, key = self._open.pop(), id(frame.f_code)
                self._within[key] -= 1
                if not self._within[key]:  # else it called itself
                    self._spent[key] += perf_counter_ns() - one.began
        except RecursionError:  # the script is near the limit: that is its own matter
            sys.setprofile(None)

    def _enters(self, frame: types.FrameType) -> None:
        code = frame.f_code
        key = id(code)
        self._codes[key] = code
        one = _Open(code, ("", 0))
        one.began = perf_counter_ns()
        self._open.append(one)
        self._within[key] += 1
        self._calls[key] += 1
        lazy = code.co_flags & LAZY  # each item of a generator is told as a call
        if not lazy and key not in self._by_users and not owner(_called_at(frame)[0]):
            self._by_users.add(key)

    def _compares(self, frame: types.FrameType, event: str, given: Any) -> None:
        """The same when they are known. What a return gives is `given`; None where an exception was raised."""
        self._events += 1
        if self._events > _EVENTS or self._own_ns > _OWN_NS:
            sys.setprofile(None)
            return
        code = frame.f_code
        if self._long is None or id(code) not in self._long:
            return
        now = perf_counter_ns()
        try:
            if event == "call":
                one = _Open(code, _called_at(frame))
                if owner(one.at[0]):
                    return
                self._open.append(one)
                with forgiving():  # arguments may be objects of any kind
                    self._takes_in(one, frame)
                one.events = self._events
                self._own_ns += perf_counter_ns() - now
                one.began, one.own_ns = perf_counter_ns(), self._own_ns
            elif event == "return" and self._open and self._open[-1].code is code:
                with forgiving():
                    self._add(self._open.pop(), now, given)
                self._own_ns += perf_counter_ns() - now
        except RecursionError:
            sys.setprofile(None)

    def _takes_in(self, one: _Open, frame: types.FrameType) -> None:
        key = id(one.code)
        one.given = self._arguments(frame)
        told = self._found.get(key)
        if one.given and (told is None or told.calls < _MOST_DRAWS):
            one.states = random_state()
            one.generators = own_generators(_held(frame.f_locals.get("self")))
        if one.given and one.code.co_name == _MADE:
            one.made = frame.f_locals.get("self")

    def _add(self, one: _Open, now: int, given: Any) -> None:
        key = id(one.code)
        told = self._found.setdefault(key, _Told(one))
        if any(each.code is one.code for each in self._open):
            return  # it called itself
        of_events = self._event_ns * (self._events - one.events)
        spent = max(0, now - one.began - (self._own_ns - one.own_ns) - int(of_events))
        made = one.code.co_name == _MADE
        gave = self._gave(one, key, given)
        again = bool(one.given and gave and not made and (one.given, gave) in told.seen)
        told.seen.add((one.given, gave))
        told.calls, told.again, told.spent = told.calls + 1, told.again + again, told.spent + spent
        told.again_ns += spent * again
        told.rough = told.rough or of_events > spent
        told.known, told.results_known = told.known and bool(one.given), told.results_known and bool(gave)
        told.given, told.gave = _together(told.given, one.given), _together(told.gave, gave)
        told.bytes = max(told.bytes, size_of(given))
        told.several = told.several or one.at != told.at

    def _gave(self, one: _Open, key: int, given: Any) -> int:
        """A number for what a call gave or made; 0: it is not known, or random numbers were drawn for it."""
        if one.states is None or drew_since(one.states) or moved(one.generators):
            return 0
        if one.code.co_name != _MADE:
            return self._result(key, given)
        found = whole(one.made, self._bytes, deep=True)
        if found is None:
            return 0
        self._bytes -= found.bytes
        self._made.append((key, one.made, found.number))
        return found.number

    def _result(self, key: int, given: Any) -> int:
        if (key, True) in self._unknown:
            return 0
        found = whole(given, self._bytes)
        if found is None:
            self._is_unknown(key, True)
            return 0
        self._bytes -= found.bytes
        return found.number if found.bytes >= _LEAST_BYTES else 0

    def _is_unknown(self, key: int, result: bool) -> None:
        """What went into a function, or came out, cannot be looked into: not because others had been too large."""
        if self._bytes >= _MOST_BYTES // 2:
            self._unknown.add((key, result))

    def _arguments(self, frame: types.FrameType) -> int:
        """A number for the arguments of a call; 0: one of them is of a kind that is not looked into.

        `self` counts by its class: of an object that is made, that is the class that is called.
        """
        code, number = frame.f_code, 1
        if (id(code), False) in self._unknown:
            return 0
        count, values = _arguments_of(code), frame.f_locals
        method = "." in plain_name(getattr(code, "co_qualname", code.co_name))
        for place, name in enumerate(code.co_varnames[:count]):
            one = values.get(name)
            if place == 0 and method and name == "self":
                if code.co_name == _MADE and getattr(getattr(type(one), _MADE), "__code__", None) is not code:
                    return 0  # of a class that it inherits from
                number = _together(number, zlib.crc32(type(one).__qualname__.encode()))
                continue
            known = whole(one, self._bytes)
            if known is None:
                self._is_unknown(id(code), False)
                return 0
            self._bytes -= known.bytes
            number = _together(number, known.number)
        return number

    def _note(self, index: object, sample: object, now: int) -> None:
        spent = max(1, now - self._began - self._own_ns - int(self._event_ns * self._events))
        if self._long is None:
            self._long = {id(one): one for one in self._longest(spent)}
            if not self._long:
                self._left = 0
        for key, made, before in self._made:
            found = whole(made, _MOST_BYTES, deep=True)
            if found is None or found.number != before:
                self._found[key].results_known = False  # it was changed, so each sample needs one of its own
        functions = [_as_line(one) for one in self._found.values()]
        number = zlib.crc32((text_of(index) or "").encode("utf-8", "backslashreplace"))
        self._recording.write(SampleCalls(self._loader, number, spent, functions, size_of(sample), self._per))

    def _longest(self, whole_ns: int) -> list[types.CodeType]:
        """The functions that take a part of the sample that counts, and that can be compared.

        Before Python 3.13, who reads the arguments of a function that uses the variables of another one may set these
        back to what they were.
        """
        found = []
        for key, spent in self._spent.most_common():
            code = self._codes[key]
            shares = sys.version_info < (3, 13) and {*code.co_freevars} - {_OF_SUPER}
            left_out = key not in self._by_users or shares or is_ours(code.co_filename) or _is_made(code)
            if spent >= _PART * whole_ns and self._calls[key] <= _MOST_CALLS and not left_out:
                found.append(code)
        return found[:_MOST_FUNCTIONS]


def _held(one: Any) -> list[Any]:
    return [*(attributes_of(one) or {}).values()]


def _is_made(code: types.CodeType) -> bool:
    """Whether a function has no text of its own, or makes an object of the standard library, which may be used up."""
    if code.co_filename.startswith("<") or code.co_name.startswith("<"):
        return True
    return is_standard(code.co_filename) and code.co_name == _MADE


def _arguments_of(code: types.CodeType) -> int:
    several = bool(code.co_flags & VARIABLE) + bool(code.co_flags & NAMED)
    return code.co_argcount + code.co_kwonlyargcount + several


def _called_at(frame: types.FrameType) -> tuple[str, int]:
    """The line that calls a function, without the frames of pipebench between."""
    caller = frame.f_back
    while caller is not None and is_ours(caller.f_code.co_filename):
        caller = caller.f_back
    return (caller.f_code.co_filename, line_reached(caller)) if caller is not None else ("", 0)


def _as_line(one: _Told) -> FunctionCalls:
    code = one.code
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    place = code.co_filename, plain_name(getattr(code, "co_qualname", code.co_name)), code.co_firstlineno, last
    given, gave = one.given if one.known else 0, one.gave if one.results_known else 0
    counts = one.calls, one.again, one.spent, one.again_ns
    takes = _arguments_of(code) - (code.co_varnames[:1] == ("self",))
    return FunctionCalls(*place, *one.at, *counts, given, gave, one.bytes, one.several, one.rough, takes)


def _together(one: int, other: int) -> int:
    return zlib.crc32(other.to_bytes(4, "little"), one)
