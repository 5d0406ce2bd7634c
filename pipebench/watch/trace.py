"""The spans that were kept in full, as a Chrome trace: one track for each process and thread, on one clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipebench.units import printable
from pipebench.watch.gather import Process, Record
from pipebench.watch.loop import PHASES

_MICROSECONDS = 1e-3


def write_trace(processes: list[Process], path: Path) -> None:
    """Writes a file that Perfetto and chrome://tracing open."""
    events = [event for process in processes for event in _events(process)]
    with path.open("w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def _events(process: Process) -> Iterator[dict[str, Any]]:
    who = "script" if process.role == "script" else f"loader {process.loader} worker {process.worker}"
    yield {"ph": "M", "name": "process_name", "pid": process.pid, "tid": process.pid, "args": {"name": who}}
    for record in process.spans:
        yield from _batch(process, record) if "stages" in record else _iteration(process, record)


def _slice(process: Process, tid: int, name: str, begin: int, end: int, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X", "name": printable(name), "pid": process.pid, "tid": tid, "ts": begin * _MICROSECONDS,
        "dur": (end - begin) * _MICROSECONDS, "args": args,
    }  # fmt: skip


def _batch(process: Process, record: Record) -> Iterator[dict[str, Any]]:
    """One batch and, inside it, its stages one after the other (exclusive, so they do not nest)."""
    tid = process.pid
    about = {"loader": record["loader"], "batch": record["batch"], "pass": record["round"]}
    yield _slice(process, tid, "batch", record["begin"], record["end"], **about)
    log = record["stages"]
    ends = [*log[2::2], record["end"]]
    for begin, stage, end in zip(log[::2], log[1::2], ends, strict=True):
        kind, name, _ = process.stages.get(stage, ("getitem", f"stage {stage}", False))
        if stage and end > begin:
            yield _slice(process, tid, name, begin, end, kind=kind)


def _iteration(process: Process, record: Record) -> Iterator[dict[str, Any]]:
    tid = record["tid"]
    about = {"loader": record["loader"], "turn": record["turn"]}
    yield _slice(process, tid, "iteration", record["begin"], record["end"], **about)
    log = record["phases"]
    for begin, end, phase in zip(log[::3], log[1::3], log[2::3], strict=True):
        if end > begin >= record["begin"]:
            yield _slice(process, tid, PHASES[phase], begin, end)
