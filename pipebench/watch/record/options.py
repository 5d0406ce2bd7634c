"""What the person at the terminal asked `watch` to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WatchOptions:
    """How to watch: none of these but `bound` changes what the script does.

    `steps` ends recording after so many iterations (`None`: never); `warmup` iterations at the start stay out of the
    tables; `loader` limits them to the N-th loader iterated (from 1); `module` means that the first argument names a
    module, as in `python -m`. `every` is how many batches lie between two whose spans are kept in full: high values
    keep less. `records` is the folder for the records of each process (`None`: a temporary one, removed at the end).
    `bound` measures how fast the loop would be without any data work. It does change what the script does: its weights
    are not to be kept, and it is ended after `steps` iterations.
    """

    steps: int | None = None
    warmup: int = 0
    loader: int | None = None
    module: bool = False
    export_trace: Path | None = None
    functions: tuple[str, ...] = ()
    every: int = 50
    records: Path | None = None
    bound: bool = False
