"""Collate: a list of samples to one batch tensor.

Collating is a memory copy, so its ceiling is a memory copy. `default` stays far below it because freshly allocated
memory causes page faults. A preallocated batch, or huge pages, avoids them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.errors import SampleError
from pipebench.stages import transform
from pipebench.stages.crop import crops
from pipebench.task import RunnerSpec, Task, Unavailable, Variant, Work, Workload, task, variant

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
THP = RunnerSpec("thp", environment=(("THP_MEM_ALLOC_ENABLE", "1"),))


def _floats(workload: Workload, keys: Sequence[str]) -> list[list[Any]]:
    return [[one.clone() for one in transform.normalised(workload)]]


def _bytes(workload: Workload, keys: Sequence[str]) -> list[list[Any]]:
    return [[one.clone() for one in crops(workload, "crop/resized-224")]]


def _check(output: Any, given: list[Any]) -> None:
    wanted = (len(given), *given[0].shape)
    if tuple(output.shape) != wanted or output.dtype != given[0].dtype:
        raise SampleError("contract", f"it is {output.dtype} {tuple(output.shape)}, not {given[0].dtype} {wanted}")


def _agree(output: Any, expected: Any, variant: Variant) -> None:
    if not bool((output == expected).all()):
        raise SampleError("disagrees", "its values are not those of the reference")


def _work(given: list[Any], output: Any) -> Work:
    return Work(len(given), sum(int(one.nbytes) for one in given), int(output.nbytes))


for _id, _summary, _inputs in (
    ("collate/float32", "a list of float samples 3×224×224 to one batch", _floats),
    ("collate/uint8", "a list of uint8 samples 3×224×224 to one batch", _bytes),
):
    task(
        Task(
            id=_id,
            summary=_summary,
            groups=functools.partial(transform.batch_groups, source="crop/resized-224"),
            inputs=_inputs,
            check=_check,
            agree=_agree,
            work=_work,
            per_call=lambda workload: workload.batch_size,
        )
    )

TASKS = ("collate/float32", "collate/uint8")
Collating = Callable[[list[Any]], Any]


@variant(*TASKS, name="default")
def default(workload: Workload) -> Collating:
    """`torch.utils.data.default_collate` into fresh memory."""
    from torch.utils.data import default_collate

    return default_collate


@variant(*TASKS, name="prealloc")
def prealloc(workload: Workload) -> Collating:
    """`torch.stack` into one batch that is allocated once and reused."""
    import torch

    batches: dict[tuple[int, ...], Any] = {}

    def collate(samples: list[Any]) -> Any:
        shape = (len(samples), *samples[0].shape)
        if shape not in batches:
            batches[shape] = torch.empty(shape, dtype=samples[0].dtype)
        return torch.stack(samples, out=batches[shape])

    return collate


@variant(*TASKS, name="numpy")
def numpy(workload: Workload) -> Collating:
    """`numpy.stack` of the samples' arrays, then `torch.from_numpy`."""
    import torch

    return lambda samples: torch.from_numpy(np.stack([one.numpy() for one in samples]))


@variant(*TASKS, name="thp", runner=THP)
def thp(workload: Workload) -> Collating:
    """`default_collate` in a process that asks for transparent huge pages (`THP_MEM_ALLOC_ENABLE=1`)."""
    if not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text():
        raise Unavailable("kernel", f"transparent huge pages are off: echo madvise > {HUGE_PAGES}")
    return default(workload)


@variant(*TASKS, name="shared")
def shared(workload: Workload) -> Collating:
    """Into new shared memory, as `default_collate` does inside a worker."""
    import torch

    def collate(samples: list[Any]) -> Any:
        shape = (len(samples), *samples[0].shape)
        storage = samples[0]._typed_storage()._new_shared(samples[0].numel() * len(samples))
        return torch.stack(samples, out=samples[0].new(storage).resize_(shape))

    return collate
