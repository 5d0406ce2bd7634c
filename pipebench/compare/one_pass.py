"""One pass of a benchmark whose outputs are looked at and not timed.

This file runs inside a side of a comparison (`round_process` reads it by its path) and uses the standard library only.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Outputs = Callable[[], Iterator[Any]]
SEEDS = 1 << 32  # NumPy takes no larger ones


def seed(number: int) -> None:
    """Seeds `random`, and the generators of NumPy and torch if they are imported. Workers are seeded by torch."""
    number %= SEEDS
    random.seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(number)


@dataclasses.dataclass(frozen=True)
class Pass:
    """The outputs of one pass: over the inputs that are timed, and over others that no timed call gets.

    `samples` counts the samples of an output. `given` are the timed inputs, where they can be shown.
    """

    seen: Outputs
    unseen: Outputs | None
    samples: Callable[[Any], int]
    given: Callable[[], Sequence[Any]] | None = None


def of_call(call: Any) -> Pass | None:
    """The pass of a callable that has its inputs bound; None if it does not show its outputs."""
    if not hasattr(call, "outputs"):
        return None
    return Pass(call.outputs, call.unseen, call.samples, call.given)


def of_task(task: Any, call: Callable[[Any], Any], workload: Any, keys: Sequence[str]) -> Pass:
    """The pass of a variant of the lab, which is given the inputs of its task."""
    given = task.inputs(workload, keys)

    def outputs(inputs: Sequence[Any]) -> Iterator[Any]:
        for one in inputs:
            output = call(one)
            yield list(output) if task.lazy else output

    def unseen() -> Iterator[Any]:
        return outputs(other_inputs(task, workload, keys))

    return Pass(lambda: outputs(given), unseen, lambda output: 0)


def other_inputs(task: Any, workload: Any, keys: Sequence[str]) -> list[Any]:
    """Inputs of the same kind, with another seed, and of other samples if the listing has any."""
    other = dataclasses.replace(workload, seed=workload.seed + 1)
    known = set(keys)
    names = [key for group in task.groups(other) for key in group if key not in known][: len(keys)]
    made: list[Any] = task.inputs(other, tuple(names) or tuple(keys))
    return made


def values(task: Any, call: Callable[[Any], Any], workload: Any, keys: Sequence[str]) -> list[Any]:
    """Copies of the outputs for both kinds of inputs, divided as the task compares them."""
    made = []
    for given in [*task.inputs(workload, keys), *other_inputs(task, workload, keys)]:
        output = call(given)
        output = list(output) if task.lazy else output
        made += [copy.deepcopy(one) for _, one in (task.split(given, output) if task.split else [(keys, output)])]
    return made


def shown(leaves: Any, one: Pass, number: int, again: Any) -> dict[str, Any]:
    """Takes the outputs of a pass apart into `leaves`, each pass after the same seed `number`.

    Returns plain data. `repeated` says of how many unseen inputs the second time took fewer steps than the first, and
    gave the same output: those answers came from a cache. `again` takes the outputs of the second time.
    """
    for index, given in enumerate(one.given() if one.given else ()):
        leaves.add("input", f"[{index}]", given)
    seed(number)
    samples = 0
    for index, output in enumerate(one.seen()):
        samples += one.samples(output)
        leaves.add("output", f"[{index}]", output)
        del output  # a loader's batch, and the next one, need not both be kept
    repeated = _repeated(leaves, one.unseen, number, again) if one.unseen else (0, 0)
    return {
        "leaves": leaves.found, "samples": samples, "repeated": repeated,
        "unread": sorted(leaves.unread), "contents": leaves.contents,
    }  # fmt: skip


def _repeated(leaves: Any, unseen: Outputs, number: int, again: Any) -> tuple[int, int]:
    """How many answers came from a cache, and of how many. The outputs must be equal, so that chance is excluded."""
    steps: list[list[int]] = []
    digests: list[list[Any]] = []
    for taken in (leaves, again):
        seed(number)
        steps.append([])
        digests.append([])
        for count, output in _counted(unseen()):
            place, before = f"[{len(steps[-1])}]", len(taken.found)
            taken.add("unseen", place, output)
            digests[-1].append(tuple(taken.found[before:]))
            steps[-1].append(count)
    fewer = [
        later < first and same == other
        for first, later, same, other in zip(*steps, *digests, strict=False)  # a stream may end earlier
    ]
    return sum(fewer), len(fewer)


def _counted(outputs: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Each output with the number of steps that it took: lines, and calls of Python and of built-in functions.

    Steps do not depend on the load of the machine, as seconds do. After the same seed, the same work takes as many.
    """
    while True:
        with Steps() as steps:
            try:
                output = next(outputs)
            except StopIteration:
                return
        yield steps.count, output


class Steps:
    """Counts what the interpreter does within a `with` block, in this thread."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Steps:
        self._kept = sys.gettrace(), sys.getprofile(), gc.isenabled()
        gc.disable()  # what is collected may run code of its own
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        trace, profile, collecting = self._kept
        sys.settrace(trace)
        sys.setprofile(profile)
        if collecting:
            gc.enable()

    def _trace(self, frame: Any, event: str, argument: Any) -> Any:
        self.count += event in ("call", "line")
        return self._trace

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        self.count += event == "c_call"
