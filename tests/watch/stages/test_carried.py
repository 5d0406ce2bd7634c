"""What objects in a batch carry along is noted: they cross from the worker with all that they hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.record.worker_lines import Carried
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace
from pipebench.watch.worker.contents import Carrying, carried


@dataclass
class Scan:
    site: str
    cloud: Any


@dataclass
class Crop:
    label: int
    scan: Scan


class Odd:
    __slots__ = ("cloud",)

    def __init__(self) -> None:
        self.cloud = numpy.zeros(10_000)


class Fails:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("it is asked")


def _batch(crops: list[Any]) -> Any:
    return torch.zeros(4, 10), {"crops": crops, "names": ["a", "b"]}


def test_the_attribute_that_holds_most_of_a_batch_is_named() -> None:
    scan, other = Scan("hall", numpy.zeros(1_000)), Scan("yard", torch.zeros(500, dtype=torch.float64))
    batch = _batch([Crop(1, scan), Crop(2, scan), Crop(3, other)])
    assert carried(batch) == Carrying("Scan.cloud", 12_000, 12_160)


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(4, 10),
        _batch([numpy.zeros(1_000)]),
        _batch([Crop(1, Scan("hall", numpy.zeros(10)))]),  # less than half
        _batch([Odd(), Fails(), Scan]),
        [[]],
        None,
    ],
)
def test_else_nothing_is(batch: Any) -> None:
    assert carried(batch) is None


@pytest.mark.parametrize(("worker", "first_pass", "noted"), [(0, 0, 1), (1, 0, 0), (None, 0, 0), (0, 1, 0)])
def test_the_first_worker_notes_it_once(worker: int | None, first_pass: int, noted: int, tmp_path: Path) -> None:
    recording = Recording(Settings(str(tmp_path)), "worker", first_pass, loader=1, worker=worker, start_method="fork")
    written: list[object] = []
    recording.write = lambda *lines: written.extend(lines)  # type: ignore[method-assign]
    sums = Sums(recording, WorkerPlace(1, worker, first_pass, 0))
    for at in range(5):
        sums.look_into(_batch([Crop(1, Scan("hall", numpy.zeros(1_000)))]))
        sums.batch(at, at + 1, 0, 0, False)
        sums.number += 1
    assert written.count(Carried(1, "Scan.cloud", 8_000, 8_160)) == noted
