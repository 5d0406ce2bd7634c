"""What a process noted of calls in one sample or iteration, and of lines that run: see `worker/repeated_calls.py`."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pipebench.watch.record.line import line


class FunctionCalls(NamedTuple):
    """The calls of one function in a sample, in nanoseconds with all that it calls, without what it takes to look.

    The function is in lines `first` to `last` of `file`; its first call was at `at_line` of `at_file`. `given` and
    `gave` are numbers for what went into its calls and for what they gave, in their order (0: not known). `again`
    counts the calls that had the same arguments and the same result as an earlier one of the sample, which took
    `again_ns`. The tensors, arrays and bytes in its largest result have `result_bytes`. `several`: other lines call it,
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


@line
class SampleCalls:
    """The calls in one sample, which took `spent_ns` and holds tensors and arrays of `sample_bytes`.

    `sample` is a number for its index. `functions` are those that took long in the first such sample of the process.
    Or the same `per` iteration of a loop: from its batch, or the step before it, to its backward.
    """

    loader: int
    sample: int
    spent_ns: int
    functions: list[FunctionCalls]
    sample_bytes: int = 0
    per: Literal["sample", "iteration"] = "sample"


class LineRun(NamedTuple):
    """How often a line of the user's own code ran."""

    file: str
    line: int
    runs: int


@line
class LineRuns:
    """How often lines ran in a sample, in a batch or in an iteration: that is what they are counted `per`.

    It is a `part` of that. Of an iteration: the "wait" for its batch, what comes "before" the backward, or "after" the
    last step. Of a batch: its "samples" where these are made in one call, or what puts them together ("collate").
    They took `spent_ns`, with what it takes to count them. Not `whole`: there were too many to count all of them.
    `lines` are those that ran most often.
    """

    loader: int
    per: Literal["sample", "batch", "iteration"]
    part: Literal["", "wait", "before", "after", "samples", "collate"]
    whole: bool
    spent_ns: int
    lines: list[LineRun]
