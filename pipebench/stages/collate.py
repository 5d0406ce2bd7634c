"""Collate: a list of samples to one batch tensor in shared memory, as a worker hands it to the training loop.

Collating is a memory copy, so its ceiling is a memory copy. The reference is what `default_collate` does in a worker:
each batch gets new shared memory. Most of its time goes to the kernel, which finds, clears and maps the pages. As in a
loader, the last batches stay alive while the next one is made, and the oldest is freed first.

`default`, `numpy` and `thp` make batches in ordinary memory, as a loader without workers does. A worker would have to
copy such a batch once more. Above 32 MB a batch, glibc gets new pages for each of them too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.errors import SampleError
from pipebench.ring import RingCollate
from pipebench.stages import transform
from pipebench.stages.crop import crops
from pipebench.task import RunnerSpec, Task, Unavailable, Variant, Work, Workload, task, variant

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
THP = RunnerSpec("thp", environment=(("THP_MEM_ALLOC_ENABLE", "1"),))
ALIVE = 2  # batches: with one worker and a prefetch factor of 2, one waits and one is in use while the next is made
UNSHARED = "shared memory: for a loader without workers"


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


def _lasts(collate: Callable[[list[Any]], Any], given: list[Any]) -> None:
    """Collates other samples again and again, and keeps whole batches, views of batches and pinned copies.

    Two of four batches are dropped, so that a variant may use their memory again. Those that are kept must not change.
    """
    import torch

    kept = []
    for number in range(16):
        batch = collate([torch.full_like(one, number) for one in given[:2]])
        if number % 4 == 0:
            kept.append((number, batch))
        elif number % 4 == 1:
            kept.append((number, batch[-1, ..., -1:]))
        elif number % 4 == 2 and torch.cuda.is_available():
            kept.append((number, batch.pin_memory()))
    if any(bool((one != number).any()) for number, one in kept):
        raise SampleError("contract", "a batch changes after it was handed out")


def _work(given: list[Any], output: Any) -> Work:
    return Work(len(given), sum(int(one.nbytes) for one in given), int(output.nbytes))


for _id, _summary, _inputs in (
    ("collate/float32", "a list of float samples 3×224×224 to one shared batch", _floats),
    ("collate/uint8", "a list of uint8 samples 3×224×224 to one shared batch", _bytes),
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
            lasts=_lasts,
            alive=ALIVE,
        )
    )

TASKS = ("collate/float32", "collate/uint8")
Collating = Callable[[list[Any]], Any]


@variant(*TASKS, name="shared")
def shared(workload: Workload) -> Collating:
    """Into new shared memory, as `default_collate` does inside a worker."""
    import torch

    def collate(samples: list[Any]) -> Any:
        shape = (len(samples), *samples[0].shape)
        storage = samples[0]._typed_storage()._new_shared(samples[0].numel() * len(samples))
        return torch.stack(samples, out=samples[0].new(storage).resize_(shape))

    return collate


@variant(*TASKS, name="ring")
def ring(workload: Workload) -> Collating:
    """`pipebench.RingCollate`: shared memory is used again when the last reference to its batch is gone."""
    return RingCollate(prefetch_factor=ALIVE)


@variant(*TASKS, name="default", gives_up=UNSHARED)
def default(workload: Workload) -> Collating:
    """`default_collate` in a loader without workers: into fresh ordinary memory."""
    from torch.utils.data import default_collate

    return default_collate


@variant(*TASKS, name="numpy", gives_up=UNSHARED)
def numpy(workload: Workload) -> Collating:
    """`numpy.stack` of the samples' arrays, then `torch.from_numpy`."""
    import torch

    return lambda samples: torch.from_numpy(np.stack([one.numpy() for one in samples]))


@variant(*TASKS, name="thp", runner=THP, gives_up=UNSHARED)
def thp(workload: Workload) -> Collating:
    """`default_collate` in a process that asks for transparent huge pages (`THP_MEM_ALLOC_ENABLE=1`)."""
    if not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text():
        raise Unavailable("kernel", f"transparent huge pages are off: echo madvise > {HUGE_PAGES}")
    return default(workload)
