"""Weights & Biases: a run of its own, beside the script's. Offline unless WANDB_MODE says otherwise.

Only the series are logged: neither the command line, nor code, nor what the machine is.
"""

from __future__ import annotations

import os
from typing import Any

from pipebench.errors import UsageError, install
from pipebench.watch.log.sinks import Point

PLACE = ""
_STEP = "pipebench/iteration"
_OF_THE_SCRIPT = (
    "WANDB_RUN_ID",
    "WANDB_NAME",
    "WANDB_RESUME",
    "WANDB_SERVICE",
    "WANDB_SWEEP_ID",
    "WANDB_SWEEP_PARAM_PATH",
)


def library() -> Any:
    try:
        import wandb
    except ImportError as missing:
        raise UsageError("--log wandb needs the package wandb", install("wandb")) from missing
    return wandb


class Sink:
    def __init__(self, place: str) -> None:
        for name in _OF_THE_SCRIPT:  # two processes must not write one run
            os.environ.pop(name, None)
        wandb = library()
        quiet = wandb.Settings(
            silent=True, console="off", host="-", save_code=False, disable_code=True, disable_git=True,
            disable_job_creation=True, x_save_requirements=False, x_disable_meta=True, x_disable_machine_info=True,
            x_disable_stats=True,
        )  # fmt: skip
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "pipebench"),
            job_type="pipebench watch",
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=quiet,
        )
        self._run.define_metric(_STEP)
        self._run.define_metric("pipebench/*", step_metric=_STEP)

    def write(self, point: Point) -> None:
        self._run.log({**point.named(), _STEP: point.iteration})

    def close(self) -> None:
        self._run.finish()
