"""Errors as values: a problem that the user can solve, and a sample that cannot be used."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass

FULL = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES = {  # of errors of the system, by number (errno(3)); {else} is what else helps, there where it happened
    errno.EMFILE: "raise the limit of open files of a process (ulimit -n)",
    errno.ENFILE: "end other programs: this machine has as many files open as it may (sysctl fs.file-max)",
    errno.ENOMEM: "free some memory, or raise the limit of this process (ulimit -v)",
    errno.ENOSPC: "free some space or inodes there (df -h, df -i), or {else}",
    errno.EDQUOT: "free some space there, as your quota is used up (quota -s), or {else}",
    errno.EROFS: "{else}, as that one is mounted read-only",
    errno.EACCES: "give your user the right to it (ls -ld), or {else}",
    errno.EPERM: "give your user the right to it (ls -ld), or {else}",
    errno.EIO: "{else}, as that disk fails (dmesg says more)",
    errno.ENAMETOOLONG: "choose shorter names",
}

_NEAR = 0.7  # of difflib's ratio: below it lie words that share letters only, such as "nope" and "opencv"


class PipebenchError(Exception):
    """A problem that the user can solve: the problem in one line and the remedy in another."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"


class UsageError(PipebenchError):
    """The command line asks for something that does not exist. The exit status is 2."""


def remedy_of(error: OSError, otherwise: str) -> str:
    """What helps where the system refuses something. `otherwise`: what helps if its number does not tell."""
    return _REMEDIES.get(error.errno or 0, "{else}").replace("{else}", otherwise)


def install(extras: str) -> str:
    """The command that brings the packages of some extras, such as "lab,ray".

    pip takes the pipebench that is installed, also if it came from a checkout, and adds what the extras ask for.
    """
    return f"pip install 'pipebench[{extras}]'"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question for the known name that is nearest to `name`, to be put before a remedy. Empty if none is near.

    Capitals make no difference.
    """
    import difflib  # late: watched scripts import this module

    names = {one.lower(): one for one in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=_NEAR)
    return f"did you mean {names[near[0]]}? " if near else ""


class SampleError(Exception):
    """One training example cannot be used. `kind` is a short stable word for it (`empty`, `truncated`, ...)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


def kind_of(error: Exception) -> str:
    """One word for why a sample cannot be used: the kind of a `SampleError`, `vanished` or `unreadable` if the system
    refused its file, else the name of the exception."""
    if isinstance(error, SampleError):
        return error.kind
    if isinstance(error, FileNotFoundError):
        return "vanished"
    return "unreadable" if isinstance(error, OSError) and error.errno is not None else type(error).__name__


def said_by(error: Exception) -> str:
    """What an exception says, in its first line that is not blank. Of OpenCV's, without the place in its sources."""
    reason = getattr(error, "err", None)  # of cv2.error: what was asserted
    if isinstance(reason, str) and reason:
        return f"{getattr(error, 'func', '')}: {reason}".removeprefix(": ")
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


@dataclass(frozen=True)
class BadSample:
    """The record in the report of a sample that raised `SampleError` or any exception of a library.

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
    reference_did: bool = False  # the reference did this sample, so its file is not known to be broken
