"""TensorBoard, by torch's own writer."""

from __future__ import annotations

from typing import Any

from pipebench.errors import UsageError, install
from pipebench.watch.log.sinks import Point

PLACE = "DIR"


def library() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise UsageError("--log tensorboard needs the package tensorboard", install("tensorboard")) from missing
    return SummaryWriter


class Sink:
    def __init__(self, place: str) -> None:
        self._writer = library()(place)

    def write(self, point: Point) -> None:
        for name, value in point.named().items():
            self._writer.add_scalar(name, value, point.iteration, point.at_s)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
