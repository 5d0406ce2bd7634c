"""Transfer: a batch from host memory to the device, timed with device events. Without a device its rows are skipped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipebench.errors import SampleError
from pipebench.stages import transform
from pipebench.stages.crop import crops
from pipebench.task import Task, Unavailable, Variant, Work, Workload, task, variant


@dataclass(frozen=True)
class HostBatch:
    """The same batch in pageable and in pinned memory, as floats 0–1 and as bytes."""

    pageable: Any
    pinned: Any
    pinned_bytes: Any


def _inputs(workload: Workload, keys: Sequence[str]) -> list[HostBatch]:
    import torch

    samples = torch.stack(list(crops(workload, "crop/resized-224")))
    floats = samples.float() / 255
    return [HostBatch(floats, floats.pin_memory(), samples.pin_memory())]


def _check(output: Any, given: HostBatch) -> None:
    if not output.is_cuda or output.shape != given.pageable.shape or output.dtype != given.pageable.dtype:
        raise SampleError("contract", f"it is {output.dtype} {tuple(output.shape)} on {output.device}")


def _agree(output: Any, expected: Any, variant: Variant) -> None:
    if not bool(((output - expected).abs() < 1e-6).all()):
        raise SampleError("disagrees", "its values are not those of the reference")


def _work(given: HostBatch, output: Any) -> Work:
    return Work(len(output), int(given.pageable.nbytes), int(output.nbytes))


task(
    Task(
        id="transfer/batch",
        summary="one float batch N×3×224×224 from the host to the device",
        groups=functools.partial(transform.batch_groups, source="crop/resized-224"),
        inputs=_inputs,
        check=_check,
        agree=_agree,
        work=_work,
        per_call=lambda workload: workload.batch_size,
        on_device=True,
    )
)

Transferring = Callable[[HostBatch], Any]


def needs_device(workload: Workload) -> None:
    """Raises `Unavailable` unless the workload's device is a CUDA device and this machine has one."""
    import torch

    if not torch.cuda.is_available():
        raise Unavailable("no-device", "not measured here: no CUDA device")
    if workload.device != "cuda":
        raise Unavailable("no-device", "not measured here: the workload's device is the CPU (--device cuda)")


@variant("transfer/batch", name="pageable")
def pageable(workload: Workload) -> Transferring:
    """`.to("cuda")` from pageable memory: the driver copies through a staging buffer and the host waits."""
    needs_device(workload)
    return lambda given: given.pageable.to("cuda")


@variant("transfer/batch", name="pinned")
def pinned(workload: Workload) -> Transferring:
    """`.to("cuda")` from pinned memory, waited for."""
    needs_device(workload)
    return lambda given: given.pinned.to("cuda")


@variant("transfer/batch", name="pinned-async")
def pinned_async(workload: Workload) -> Transferring:
    """`.to("cuda", non_blocking=True)` from pinned memory: the host continues at once."""
    needs_device(workload)
    return lambda given: given.pinned.to("cuda", non_blocking=True)


@variant("transfer/batch", name="uint8")
def uint8(workload: Workload) -> Transferring:
    """uint8 batches: a quarter of the bytes, converted to float on the device."""
    needs_device(workload)
    return lambda given: given.pinned_bytes.to("cuda", non_blocking=True).float().div_(255)


@variant("transfer/batch", name="side-stream")
def side_stream(workload: Workload) -> Transferring:
    """An asynchronous copy on a separate stream; the current stream then waits for it."""
    import torch

    needs_device(workload)
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def transfer(given: HostBatch) -> Any:
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            batch = given.pinned.to("cuda", non_blocking=True)
        current.wait_stream(stream)
        batch.record_stream(current)
        return batch

    return transfer
