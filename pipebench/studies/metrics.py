"""Metrics: torchmetrics updated at every step, and fixes that keep the host from waiting (Rand, part 7, 2025).

The metrics are the mean loss, the mean time of a step, and accuracy, precision, recall and F1 over 1000 classes. The
model is ResNet-18.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pipebench.errors import PipebenchError, install
from pipebench.studies import Study, counting

CLASSES = 1000
SIZES = {"small": (4, 64), "full": (128, 224)}
"""Batch and edge in pixels; `full` is the author's own."""


@dataclass(frozen=True)
class Habits:
    """How the metrics are kept and fed. Each fix turns one of the habits on."""

    weight_as_tensor: bool = False
    nan_check_dropped: bool = False
    clock_on_host: bool = False
    loss_as_tensor: bool = False


@dataclass(frozen=True)
class Step:
    """One row of the study: what it changes, the author's figure, and the habits of its training step."""

    name: str
    what: str
    author: str
    habits: Habits

    def build(self, size: str = "small") -> TrainingStep:
        """A training step with its metrics, on CUDA if present."""
        return build(self.habits, size)


@dataclass
class TrainingStep:
    """A training step that updates its metrics; `results` returns the metrics' values so far."""

    train: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    labels: torch.Tensor
    update_loss: Callable[[torch.Tensor], None]
    update_time: Callable[[float], None]
    classes: Any
    loss: Any
    seconds: Any
    began_s: float = field(default_factory=time.perf_counter)

    def __call__(self) -> None:
        scores, loss = self.train()
        self.classes.update(scores, self.labels)
        self.update_loss(loss)
        now_s = time.perf_counter()
        self.update_time(now_s - self.began_s)
        self.began_s = now_s

    def results(self) -> dict[str, float]:
        values = {**self.classes.compute(), "loss": self.loss.compute(), "seconds": self.seconds.compute()}
        return {name: float(value) for name, value in values.items()}


def _library() -> Any:
    try:
        import torchmetrics
    except ImportError as error:
        raise PipebenchError("The study of metrics needs torchmetrics.", install("metrics")) from error
    return torchmetrics


def _network(device: str) -> nn.Module:
    from torchvision.models import resnet18

    network: nn.Module = resnet18(num_classes=CLASSES)
    return network.to(device)


def _training(batch: int, edge: int, device: str) -> tuple[Callable[[], tuple[torch.Tensor, torch.Tensor]], Any]:
    network = _network(device)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.001)
    images = torch.rand(batch, 3, edge, edge).to(device)
    labels = torch.randint(0, CLASSES, (batch,)).to(device)

    def train() -> tuple[torch.Tensor, torch.Tensor]:
        optimiser.zero_grad(set_to_none=True)
        scores = network(images)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
        optimiser.step()
        return scores.detach(), loss.detach()

    return train, labels


def _classes(library: Any, device: str, scores: torch.Tensor, labels: torch.Tensor) -> Any:
    """The four metrics over classes. A first update, which is reset, shows torchmetrics which of them share a state."""
    names = {"accuracy": "Accuracy", "precision": "Precision", "recall": "Recall", "f1": "F1Score"}
    metrics = {
        name: getattr(library, kind)(task="multiclass", num_classes=CLASSES).to(device) for name, kind in names.items()
    }
    collection = library.MetricCollection(metrics)
    collection.update(scores, labels)
    collection.reset()
    return collection


def build(habits: Habits, size: str = "small", seed: int = 0) -> TrainingStep:
    library = _library()
    batch, edge = SIZES[size]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    train, labels = _training(batch, edge, device)
    # With the check disabled, torchmetrics 1.9 ignores the weights too. The means still agree: all batches are alike.
    nan = "disable" if habits.nan_check_dropped else "warn"
    loss = library.MeanMetric(nan_strategy=nan).to(device)
    seconds = library.MeanMetric(nan_strategy=nan)
    seconds = seconds if habits.clock_on_host else seconds.to(device)
    weight = torch.full((), float(batch), device=device) if habits.weight_as_tensor else float(batch)
    return TrainingStep(
        train=train,
        labels=labels,
        update_loss=lambda value: loss.update(value if habits.loss_as_tensor else value.item(), weight),
        # The metric is on the host, so it gets a tensor on the host. The type of this argument decides whether the
        # host waits, also on a machine without a device.
        update_time=lambda value: seconds.update(torch.tensor(value) if habits.clock_on_host else value),
        classes=_classes(library, device, torch.zeros(batch, CLASSES, device=device), labels),
        loss=loss,
        seconds=seconds,
    )


STEPS: tuple[Step, ...] = (
    Step(
        "baseline",
        "scalars, scalar weights and NaN checks, all on the device",
        "8 a step, 10 % of throughput",
        Habits(),
    ),
    Step("weight-as-tensor", "the weight is a tensor on the device, made once", "", Habits(True)),
    Step("no-nan-check", "NaN checks dropped", "", Habits(True, True)),
    Step("clock-on-host", "the metric of host time stays on the host", "", Habits(True, True, True)),
    Step("tensors", "the loss goes in as a tensor, not as a number", "0 a step", Habits(True, True, True, True)),
)


def _outcome(step: Any) -> dict[str, float]:
    """The metrics after one step, without the time that the step took."""
    step()
    return {name: value for name, value in step.results().items() if name != "seconds"}


STUDY: Study = Study(
    "metrics",
    "Metrics that make the host wait",
    'Chaim Rand, "PyTorch Model Performance Analysis and Optimization, Part 7" (2025); one GPU, batch 128',
    lambda size, progress: counting(STUDY, STEPS, SIZES, _outcome, size, progress),
)
