"""Step: forward, backward and optimiser on a batch that is ready. The input pipeline must keep up with this rate.

On a CPU the batch is small. With `--quick` the images are small too. The measurement's workload states what was used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipebench.errors import SampleError
from pipebench.stages import transfer, transform
from pipebench.task import Task, Variant, Work, Workload, task, variant

CLASSES = 10


@dataclass(frozen=True)
class Replayed:
    """A batch that is already on the device, and its labels."""

    images: Any
    labels: Any


def small_model() -> Any:
    """Nine 3×3 convolutions of 30 channels, eight of them halving the image (Rand, part 4)."""
    from torch import nn

    blocks: list[Any] = [nn.Conv2d(3, 30, 3, padding="same")]
    for _ in range(8):
        blocks += [nn.Conv2d(30, 30, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
    return nn.Sequential(*blocks, nn.Conv2d(30, CLASSES, 3, padding="same"), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def resnet18_model() -> Any:
    from torchvision.models import resnet18

    return resnet18(num_classes=CLASSES)


def _inputs(workload: Workload, keys: Sequence[str], source: str) -> list[Replayed]:
    import torch

    if source == "crop/fixed-256":
        images = transform.per_sample(workload)(transform.Batch(transform.masked(workload)))
    else:
        images = transform.normalised(workload)
    if workload.crop_size:
        images = torch.nn.functional.interpolate(images, (workload.crop_size, workload.crop_size))
    labels = torch.arange(len(images)) % CLASSES
    return [Replayed(images.to(workload.device), labels.to(workload.device))]


def _check(output: Any, given: Replayed) -> None:
    if output.ndim != 0 or not math.isfinite(float(output)):
        raise SampleError("contract", "the loss is not a finite number")


def _agree(output: Any, expected: Any, variant: Variant) -> None:
    """Accepts every output: `eager` is the only variant, and each training step changes the weights."""


def _work(given: Replayed, output: Any) -> Work:
    return Work(len(given.images), int(given.images.nbytes), 0)


def _adapt(workload: Workload) -> Workload:
    if workload.device != "cpu":
        return workload
    return replace(workload, batch_size=min(4, workload.batch_size), crop_size=64 if workload.quick else None)


for _id, _summary, _source in (
    ("step/small", "forward, backward, SGD of a nine-layer convolutional network", "crop/fixed-256"),
    ("step/resnet18", "forward, backward, SGD of ResNet-18", "crop/resized-224"),
):
    task(
        Task(
            id=_id,
            summary=_summary,
            groups=functools.partial(transform.batch_groups, source=_source),
            inputs=functools.partial(_inputs, source=_source),
            check=_check,
            agree=_agree,
            work=_work,
            per_call=lambda workload: workload.batch_size,
            adapt=_adapt,
            on_device=True,
        )
    )

Stepping = Callable[[Replayed], Any]


def _eager(workload: Workload, model: Callable[[], Any]) -> Stepping:
    import torch

    if workload.device != "cpu":
        transfer.needs_device(workload)
    torch.manual_seed(workload.seed)
    network = model().to(workload.device)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)

    def step(given: Replayed) -> Any:
        optimiser.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(network(given.images), given.labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        return loss.detach()

    return step


@variant("step/small", name="eager")
def eager_small(workload: Workload) -> Stepping:
    """Eager mode, no compilation.

    On one CPU core (4 images of 64×64), 47 % of its time is forward, 51 % backward and 2 % the optimiser.
    """
    return _eager(workload, small_model)


@variant("step/resnet18", name="eager")
def eager_resnet18(workload: Workload) -> Stepping:
    """Eager mode, no compilation.

    On one CPU core (4 images of 64×64), 27 % of its time is forward, 57 % backward and 16 % the optimiser.
    """
    return _eager(workload, resnet18_model)
