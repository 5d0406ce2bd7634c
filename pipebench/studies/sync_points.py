"""Sync points: a segmentation loss that makes the host wait, and its three fixes (Chaim Rand, part 3, 2023).

Labels are 0 to 9 for a class and -1 for a pixel to be ignored; class 9 is background and is ignored too. A batch with
fewer than two distinct labels is skipped: its loss is 0. All four losses compute the same number and gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pipebench.studies import Study, counting

IGNORED, BACKGROUND, CHANNELS, LAYERS = -1, 9, 10, 10
SIZES = {"small": (2, 64), "full": (256, 256)}
"""Batch and edge in pixels; `full` is the author's own."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Step:
    """One row of the study: what it changes, the author's figure, and the loss of its training step."""

    name: str
    what: str
    author: str
    loss: Loss

    def build(self, size: str = "small") -> Callable[[], object]:
        """A training step (forward, loss, backward, SGD) on one batch in memory, on CUDA if present."""
        return build(self.loss, size)


def _pixels(scores: torch.Tensor) -> torch.Tensor:
    """The scores, with one row for each pixel."""
    return scores.permute(0, 2, 3, 1).reshape(-1, scores.shape[1])


def baseline_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The slow loss: `nonzero` and indexed assignment, `unique`, and two boolean masks ask the device for a size."""
    labels = labels.flatten().clone()
    labels[torch.nonzero(labels == BACKGROUND, as_tuple=True)] = IGNORED
    if torch.unique(labels).numel() < 2:
        return scores.sum() * 0
    valid = labels != IGNORED
    return functional.cross_entropy(_pixels(scores)[valid], labels[valid])


def where_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss in which `where` makes background ignored; the result of `where` has a known size."""
    labels = torch.where(labels == BACKGROUND, IGNORED, labels).flatten()
    if torch.unique(labels).numel() < 2:
        return scores.sum() * 0
    valid = labels != IGNORED
    return functional.cross_entropy(_pixels(scores)[valid], labels[valid])


def _distinct(labels: torch.Tensor) -> torch.Tensor:
    """The number of distinct labels, as a tensor that stays on the device."""
    return torch.count_nonzero(torch.diff(torch.sort(labels).values)) + 1


def sorted_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss in which sort, differences and `count_nonzero` count distinct labels; a `where` replaces the skip."""
    labels = torch.where(labels == BACKGROUND, IGNORED, labels).flatten()
    valid = labels != IGNORED
    chosen = labels[valid]
    total = functional.cross_entropy(_pixels(scores)[valid], chosen, reduction="sum")
    return torch.where(_distinct(labels) < 2, 0.0, total / max(1, chosen.numel()))


def ignore_index_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss in which `ignore_index` leaves pixels out. Nothing is selected, so no size depends on the labels."""
    labels = torch.where(labels == BACKGROUND, IGNORED, labels).flatten()
    total = functional.cross_entropy(_pixels(scores), labels, ignore_index=IGNORED, reduction="sum")
    count = torch.count_nonzero(labels != IGNORED).clamp(min=1)
    return torch.where(_distinct(labels) < 2, 0.0, total / count)


def model() -> nn.Module:
    """Ten 3×3 convolutions, each with ten output channels."""
    channels = (3, *(CHANNELS,) * LAYERS)
    return nn.Sequential(*(nn.Conv2d(a, b, 3, padding="same") for a, b in itertools.pairwise(channels)))


def build(loss: Loss, size: str = "small", seed: int = 0) -> Callable[[], object]:
    batch, edge = SIZES[size]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    network: Any = model().to(device)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.001)
    images = torch.rand(batch, 3, edge, edge).to(device)
    labels = torch.randint(IGNORED, BACKGROUND + 1, (batch, edge, edge)).to(device)

    def step() -> torch.Tensor:
        optimiser.zero_grad(set_to_none=True)
        value = loss(network(images), labels)
        value.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
        optimiser.step()
        return value.detach()

    return step


STEPS: tuple[Step, ...] = (
    Step("baseline", "nonzero, unique and boolean masks", "1.3 s a step", baseline_loss),
    Step("where", "where marks the background as ignored", "", where_loss),
    Step("count-distinct", "sort, differences and count_nonzero in place of unique", "", sorted_loss),
    Step(
        "ignore-index",
        "ignore_index in place of a boolean mask",
        "5.4 ms a step (240 times faster), no sync points",
        ignore_index_loss,
    ),
)


def _outcome(step: Callable[[], Any]) -> dict[str, float]:
    return {"loss": float(step())}


STUDY: Study = Study(
    "sync-points",
    "A loss that makes the host wait",
    'Chaim Rand, "PyTorch Model Performance Analysis and Optimization, Part 3" (2023); one GPU, batch 256',
    lambda size, progress: counting(STUDY, STEPS, SIZES, _outcome, size, progress),
)
