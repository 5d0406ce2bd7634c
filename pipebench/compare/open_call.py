"""A timed callable whose outputs can be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any


class OpenCall:
    """A callable with its inputs bound. A call makes all outputs and returns the number of samples in them.

    `outputs` makes the same outputs one by one. `unseen` makes those of other inputs, which no timed call gets; None if
    there are no others. `given` returns the inputs, where the stage before made them. `samples` counts the samples of
    an output.
    """

    def __init__(
        self,
        outputs: Callable[[], Iterator[Any]],
        *,
        unseen: Callable[[], Iterator[Any]] | None = None,
        given: Callable[[], Sequence[Any]] | None = None,
        samples: Callable[[Any], int] = lambda output: 1,
    ) -> None:
        self.outputs, self.unseen, self.given, self.samples = outputs, unseen, given, samples

    def __call__(self, _: Any) -> int:
        return sum(map(self.samples, self.outputs()))
