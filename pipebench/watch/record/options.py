"""The options of `watch`, as the user gave them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipebench.errors import UsageError
from pipebench.units import printable

_FUNCTION = re.compile(r"\w+(?:\.\w+)*:\w+(?:\.\w+)*")


@dataclass(frozen=True)
class WatchOptions:
    """How to watch. Only `bound` changes what the script does. Raises UsageError if `functions` names something else.

    - `steps` ends recording after so many iterations (`None`: never).
    - `warmup` iterations at the start are left out of the tables.
    - `loader` limits the tables to the N-th loader that is iterated (from 1).
    - `command` says that all of it is a command, whose Python processes are watched.
    - `module` says that the first argument names a module, as in `python -m`.
    - `started` is all of it as words for the shell, as `WatchResult.started` says.
    - `export_trace` is the file to which a trace is written (`None`: no trace).
    - `functions` are further functions to time, each as `module:function` or `module:Class.method`.
    - `every`: one batch in so many is recorded in full, so a high value keeps less.
    - `records` is the folder for the records of each process (`None`: a temporary folder, removed at the end).
    - `bound` measures how fast the loop would be without any data work. The script then ends after `steps` iterations
      (`None`: `bound.schedule.STEPS`), and its weights must not be used.
    - `log` names where the series go while the run goes on, each as `log.sinks` says, with a point for each `log_every`
      iterations. `show_names`: the names of stages are logged as they are, also if they hold paths.
    - `ours`: the script is a part of pipebench's own work, so what interrupts it interrupts that work.
    - `impatient`: a second Ctrl-C ends pipebench and the script at once, without a report.
    """

    steps: int | None = None
    warmup: int = 0
    loader: int | None = None
    module: bool = False
    command: bool = False
    started: str = ""
    export_trace: Path | None = None
    functions: tuple[str, ...] = ()
    every: int = 50
    records: Path | None = None
    bound: bool = False
    log: tuple[str, ...] = ()
    log_every: int = 50
    show_names: bool = False
    ours: bool = False
    impatient: bool = False

    def __post_init__(self) -> None:
        for one in self.functions:
            if not _FUNCTION.fullmatch(one) or one.partition(":")[0].endswith(".py"):
                name = re.sub(r"\W+", "", one.rpartition(":")[2]) or "function"
                raise UsageError(
                    f"{printable(one)!r} names no function to time",
                    f"write MODULE:FUNCTION, as __main__:{name} for one of the script's own",
                )
