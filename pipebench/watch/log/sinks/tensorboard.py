"""TensorBoard, by torch's own writer."""

from __future__ import annotations

from pipebench.errors import PipebenchError, install
from pipebench.watch.log.sinks import Point

PLACE = "DIR"


class Sink:
    def __init__(self, place: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as missing:
            raise PipebenchError("--log tensorboard needs the package tensorboard", install("tensorboard")) from missing
        self._writer = SummaryWriter(place)

    def write(self, point: Point) -> None:
        for name, value in point.named().items():
            self._writer.add_scalar(name, value, point.iteration, point.at_s)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
