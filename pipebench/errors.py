"""What can go wrong, as values: an error for the person at the terminal, and a bad sample."""

from __future__ import annotations

from dataclasses import dataclass


class PipebenchError(Exception):
    """Something the user can mend: the problem in one line and the remedy in another."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"


class UsageError(PipebenchError):
    """The command line asks for something that there is not; the exit status is 2."""


class SampleError(Exception):
    """One training example cannot be used. `kind` is a short stable word for it (`empty`, `truncated`, ...)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


def kind_of(error: Exception) -> str:
    """The word for what kept a sample from being used: that of a `SampleError`, else `vanished` or `unreadable` where
    the system refused its file, else the exception's own name."""
    if isinstance(error, SampleError):
        return error.kind
    if isinstance(error, FileNotFoundError):
        return "vanished"
    return "unreadable" if isinstance(error, OSError) and error.errno is not None else type(error).__name__


@dataclass(frozen=True)
class BadSample:
    """The record that a `SampleError`, or any exception a library raised on one sample, leaves in the report.

    `sample` and `message` are inert text (see `units.printable`); `seconds_lost` is the time the attempt took.
    """

    stage: str
    sample: str
    variant: str | None
    kind: str
    message: str
    seconds_lost: float
    worker: int | None = None
    task: str | None = None
