"""`pipebench run --engine ray`: the reference pipeline under another engine, beside the DataLoader."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipebench.commands._keeping import Kept, Progress, kept_and_shown
from pipebench.errors import UsageError


@dataclass(frozen=True)
class Asked:
    """What `run` was asked for that an engine has to do with."""

    address: str | None
    workers: int | None
    steps: int | None
    device: str | None
    simulated_s: float | None
    consumer: float | str | None
    length: Any


def check(engine: str, address: str | None, without: dict[str, bool], workers: int | None) -> None:
    """Raises UsageError for options that do not go together; PipebenchError if Ray is missing or does not answer.

    `without` has the options that an engine leaves no sense to, and whether they were given. Torch is not imported.
    """
    if engine == "torch":
        if address is not None:
            raise UsageError("--ray-address needs --engine ray", "add --engine ray, or leave out --ray-address")
        return
    for name, given in without.items():
        if given:
            raise UsageError(f"--engine ray and {name} exclude each other", f"leave out {name}")
    if workers == 0:
        raise UsageError("--engine ray needs a worker", "name --workers 1 or more")
    from pipebench.reference.ray_there import check_reached, need_ray

    need_ray()
    if address is not None:
        check_reached(address)


def measured(
    asked: Asked, workload: Any, loading: Any, style: str, export_json: Path | None, export_html: Path | None
) -> int:
    """Measures, saves after every round, and shows what there is, also after Ctrl-C. Returns the exit status."""
    from pipebench.host import machine
    from pipebench.lab.whole_run import chosen_device, storage_of
    from pipebench.reference.engine import measure_engine
    from pipebench.results.report import new
    from pipebench.stages import read

    workers = asked.workers if asked.workers is not None else max(1, math.floor(machine.usable_cores()) - 1)
    rate, step = (None, asked.consumer) if isinstance(asked.consumer, str) else (asked.consumer, None)

    def measure(advance: Progress, kept: Kept) -> None:
        listed = read.load(workload, advance)
        advance(0, 0, "importing torch")
        measure_engine(
            replace(workload, device=chosen_device(asked.device)),
            replace(loading, workers=workers),
            asked.length,
            address=asked.address,
            steps=asked.steps,
            simulated_s=workload.batch_size / rate if rate else asked.simulated_s,
            step=step,
            progress=advance,
            keep=lambda found, bad: kept(
                new(storage_of(listed), engine=found, bad_samples=listed.problems + bad, partial=True)
            ),
        )

    return kept_and_shown(measure, style, export_json, export_html)
