"""pipebench measures what each stage of a PyTorch input pipeline costs, and how far it is from the machine's limits.

The names below are the whole Python interface; docs/python.md shows each of them. `import pipebench` imports neither
torch nor any other package: a function imports what it needs when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pipebench.batch_into import BatchInto
from pipebench.native.region import crop_stream, decode_and_crop
from pipebench.native.resized import EncodedCrop
from pipebench.native.transforms import RandomCropFromBytes, RandomResizedCropFromBytes
from pipebench.ring import RingCollate
from pipebench.syncpoints.examine import syncs
from pipebench.watch.stages.labels import span

if TYPE_CHECKING:
    from pipebench.lab.one_task import Cost, TaskCosts
    from pipebench.results.report import Report
    from pipebench.watch.in_lightning import InLightning
    from pipebench.watch.in_transformers import InTransformers
    from pipebench.watch.with_block import Watching

__version__ = "0.1.0"
__all__ = [
    "BatchInto",
    "EncodedCrop",
    "RandomCropFromBytes",
    "RandomResizedCropFromBytes",
    "RingCollate",
    "crop_stream",
    "decode_and_crop",
    "lightning_callback",
    "load",
    "measure",
    "span",
    "syncs",
    "transformers_callback",
    "watching",
]


def watching(*, functions: str | Sequence[str] = (), warmup: int = 0, every: int = 50) -> Watching:
    """A `with` block that watches the DataLoaders inside it. Afterwards its `result` says where the time went.

    `functions` names one more function to time, or several, each as `module:function`. The first `warmup` iterations
    are left out of the result. The spans of one batch in `every` are kept in full. Raises `UsageError` for a `warmup`
    below 0 or an `every` below 1.
    """
    from pipebench.watch.with_block import Watching

    return Watching(functions=functions, warmup=warmup, every=every)


def lightning_callback(*, functions: str | Sequence[str] = ()) -> InLightning:
    """A Lightning `Callback` that watches `fit`: the loggers of the trainer get the figures of the loop, as series.

    `functions` as in `watching`. Afterwards the callback's `watched.result` says where the time went. Raises
    `PipebenchError` if Lightning is not installed.
    """
    from pipebench.watch.in_lightning import InLightning

    return InLightning(functions)


def transformers_callback(
    log: Callable[[dict[str, float]], object], *, functions: str | Sequence[str] = ()
) -> InTransformers:
    """A Transformers `TrainerCallback` that watches `train`: whenever the trainer logs, `log` gets the figures.

    `log` is `trainer.log`, so the callback is added to the finished trainer. `functions` as in `watching`. Afterwards
    the callback's `watched.result` says where the time went. Raises `PipebenchError` if Transformers is not installed.
    """
    from pipebench.watch.in_transformers import InTransformers

    return InTransformers(log, functions)


def load_ipython_extension(shell: Any) -> None:
    """Gives a notebook the cell magic `%%pipebench`. IPython calls it for `%load_ext pipebench`."""
    from pipebench.watch import notebook

    notebook.load(shell)


def load(report: str | os.PathLike[str]) -> Report:
    """Reads a saved report back, typed. Raises `PipebenchError` if the file is not a report of pipebench."""
    from pipebench.results import report as reports

    return reports.load(Path(report))


@overload
def measure(
    task: str,
    variant: str,
    *,
    data: str | os.PathLike[str] = ...,
    limit: int | None = ...,
    batch_size: int = ...,
    device: Literal["cpu", "cuda"] | None = ...,
    quick: bool = ...,
) -> Cost: ...


@overload
def measure(
    task: str,
    variant: None = ...,
    *,
    data: str | os.PathLike[str] = ...,
    limit: int | None = ...,
    batch_size: int = ...,
    device: Literal["cpu", "cuda"] | None = ...,
    quick: bool = ...,
) -> TaskCosts: ...


def measure(
    task: str,
    variant: str | None = None,
    *,
    data: str | os.PathLike[str] = "photos",
    limit: int | None = None,
    batch_size: int = 16,
    device: Literal["cpu", "cuda"] | None = None,
    quick: bool = False,
) -> Cost | TaskCosts:
    """Measures the cost of one variant of a task beside the task's reference. Without `variant`, measures all variants.

    `task` and `variant` are names from `pipebench run --list`. `data` is the name of a data set, a folder, a tar file,
    or shards. At most `limit` of its samples are used. `device` is the device for transfers and steps; by default it is
    the CUDA device if there is one. `quick` takes the fewest readings that support a confidence of 95 %.

    It measures in this process, with one torch thread as in a worker, and restores the number of threads afterwards.
    Raises `UsageError` for an unknown name, and `PipebenchError` if the data or `variant` cannot be used.
    """
    from pipebench.lab import one_task
    from pipebench.lab.turns import Plan
    from pipebench.task import Workload

    workload = Workload(os.fspath(data), limit, batch_size, quick=quick)
    plan = Plan.quick() if quick else Plan()
    if variant is None:
        return one_task.of_task(task, workload, plan, device)
    return one_task.of_variant(task, variant, workload, plan, device)
