"""The line in which the script's process says how one of its workers ended too early."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WorkerGone:
    """A worker that had ended before its loader told it to.

    `status` is its exit status; that of a worker that was ended by signal n is -n.
    """

    pid: int
    status: int
