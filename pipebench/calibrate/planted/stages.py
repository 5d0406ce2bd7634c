"""What `samples.py` plants inside a loader: reading, decoding, transforms, `__getitem__`, collate and the hand-off.

Reading and decoding are lazy, as Pillow does them, with an image format of our own.
"""

from __future__ import annotations

import io
import multiprocessing.queues
import time
from typing import Any, NamedTuple

import torch
from PIL import Image, ImageFile
from torch.utils.data import Dataset, get_worker_info
from torchvision.transforms import Compose

from pipebench.calibrate.planted.amounts import NOTHING, REFERENCE, Amount, Ledger, work

_HEAD = b"PLANTED!"
inside = Ledger()  # for the thread that fetches: a worker's, or the script's own


def _units(units: int) -> int:
    """`units`, or more for later workers if the dataset is skewed.

    The dataset carries this setting, because spawned workers inherit nothing.
    """
    info: Any = get_worker_info()
    return units * (1 + info.id) if info is not None and info.dataset.skew else units


class Head(io.BytesIO):
    """A file in memory. Reading begins, innermost, with Pillow's first call on it."""

    opened = False

    def seek(self, *where: int) -> int:
        if not self.opened:
            self.opened = True
            inside.begin()
        return super().seek(*where)


class PlantedDecoder(ImageFile.PyDecoder):
    def decode(self, buffer: Any) -> tuple[int, int]:
        PlantedImage.cpu = work(_units(5))
        self.set_as_raw(bytes(16))
        return -1, 0


class PlantedImage(ImageFile.ImageFile):
    format = "PLANTED"
    cpu = 0

    def _open(self) -> None:
        self._mode, self._size = "L", (4, 4)
        self.tile = [ImageFile._Tile("planted", (0, 0, 4, 4), 0, ())]
        cpu = work(_units(2))
        time.sleep(0.0003)
        inside.end("read", _units(2), cpu)

    def load_prepare(self) -> None:
        inside.begin()
        super().load_prepare()

    def load_end(self) -> None:
        super().load_end()
        inside.end("decode", _units(5), PlantedImage.cpu)


class Reference:
    """The work that shows what a unit costs."""

    def __call__(self, image: Any) -> Any:
        inside.around(REFERENCE, lambda: inside.plant(REFERENCE, _units(5)))
        return image


class Work:
    """CPU work. It is the first transform that needs pixels, so decoding happens inside it."""

    def __call__(self, image: Any) -> Any:
        return inside.around("work", lambda: self.act(image))

    @staticmethod
    def act(image: Any) -> Any:
        inside.around("decode", image.load)
        inside.plant("work", _units(4))
        return image


class Sleep:
    def __call__(self, image: Any) -> torch.Tensor:
        slept: torch.Tensor = inside.around("sleep", self.act)
        return slept

    @staticmethod
    def act() -> torch.Tensor:
        inside.begin()
        time.sleep(0.0005)
        made = torch.zeros(8)
        inside.end("sleep")
        return made


class Planted(Dataset[Any]):
    def __init__(self, length: int, skew: bool) -> None:
        self.length = length
        self.skew = skew
        self.transform = Compose([Reference(), Work(), Sleep()])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return inside.around("getitem", self.act)

    def act(self) -> Any:
        inside.begin()
        head = Head(_HEAD)
        inside.end("getitem", _units(2), work(_units(2)))
        return self.transform(inside.around("read", lambda: Image.open(head)))


class Mark:
    """The first item of a batch that is pickled: here the hand-off begins, innermost."""

    began = 0

    def __reduce__(self) -> Any:
        Mark.began = time.perf_counter_ns()
        return Mark, ()


class Parcel:
    """The last item of a batch. Pickling it takes a fixed amount of work, in the thread that pickles."""

    def __init__(self, units: int, amount: Amount = NOTHING) -> None:
        self.units, self.amount = units, amount

    def __reduce__(self) -> Any:
        cpu = work(self.units)
        self.amount = (self.units, time.perf_counter_ns() - Mark.began, cpu, 1)
        return Parcel, (0, self.amount)


def _collated(samples: list[torch.Tensor]) -> torch.Tensor:
    inside.begin()
    batch = torch.stack(samples)
    cpu = work(_units(10))
    time.sleep(0.0005)
    inside.end("collate", _units(10), cpu)
    return batch


class PlantedBatch(NamedTuple):
    """What the loop needs besides tensors: which worker made the batch, what was planted, and when it was done."""

    mark: Mark
    tensor: torch.Tensor
    worker: int
    amounts: dict[str, Amount]
    handed_off: list[tuple[int, int]]
    ready: int


handed_off: list[tuple[int, int]] = []


def collate(samples: list[torch.Tensor]) -> tuple[PlantedBatch, Parcel]:
    tensor = inside.around("collate", lambda: _collated(samples))
    info = get_worker_info()
    before = handed_off[:]
    handed_off.clear()
    number = info.id if info is not None else 0
    return PlantedBatch(Mark(), tensor, number, inside.take(), before, time.perf_counter_ns()), Parcel(_units(10))


def watch_pickling() -> None:
    """Notes, in a plain run, what the queue's feeder thread takes for a batch besides the parcel in it."""
    queues: Any = multiprocessing.queues
    plain: Any = queues._ForkingPickler

    class Clocked(plain):  # type: ignore[misc]  # a class known only when it runs
        @classmethod
        def dumps(cls, obj: Any, protocol: Any = None) -> Any:
            parcel = obj[1][1] if isinstance(obj, tuple) and isinstance(obj[1], tuple) and len(obj[1]) == 2 else None
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            data = plain.dumps(obj, protocol)
            cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
            if isinstance(parcel, Parcel):
                handed_off.append((wall - parcel.amount[1], cpu - parcel.amount[2]))
            return data

    queues._ForkingPickler = Clocked


def _register() -> None:
    """Registers the format first in line, in every process: Pillow asks no other plugin before it and imports none."""
    Image.init()
    Image.register_open("PLANTED", PlantedImage, lambda head: head.startswith(_HEAD))
    Image.ID.remove("PLANTED")
    Image.ID.insert(0, "PLANTED")
    Image.register_decoder("planted", PlantedDecoder)


_register()
