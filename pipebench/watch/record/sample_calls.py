"""What a process noted of the calls in one of its samples: see `worker/repeated_calls.py`."""

from __future__ import annotations

from typing import NamedTuple

from pipebench.watch.record.line import line


class FunctionCalls(NamedTuple):
    """The calls of one function in a sample, in nanoseconds with all that it calls, without what it takes to look.

    The function is in lines `first` to `last` of `file`; its first call was at `at_line` of `at_file`. `given` and
    `gave` are numbers for what went into its calls and for what they gave, in their order (0: not known). `again`
    counts the calls that had the same arguments and the same result as an earlier one of the sample, which took
    `again_ns`. The tensors and arrays in its largest result have `result_bytes`. `several`: other lines call it,
    too. `rough`: what it took to be told of the calls inside was more than what they took, so `spent_ns` is rough.
    It `takes` so many arguments besides `self`.
    """

    file: str
    name: str
    first: int
    last: int
    at_file: str
    at_line: int
    calls: int
    again: int
    spent_ns: int
    again_ns: int
    given: int
    gave: int
    result_bytes: int
    several: bool
    rough: bool
    takes: int


class LineCalls(NamedTuple):
    """How often, in a sample, a line of the user's own code called what it calls most often."""

    file: str
    line: int
    calls: int


@line
class SampleCalls:
    """The calls in one sample, which took `spent_ns` and holds tensors and arrays of `sample_bytes`.

    `sample` is a number for its index.

    The first of a process has `lines`; the others have the functions that took long in the first.
    """

    loader: int
    sample: int
    spent_ns: int
    functions: list[FunctionCalls]
    lines: list[LineCalls]
    sample_bytes: int = 0
