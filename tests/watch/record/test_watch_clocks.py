"""What a sample costs in system calls: none. There the kernel takes the core away, so rows must hold none."""

from __future__ import annotations

import gc
import io
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from in_memory import encoded
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose

from pipebench import watching
from pipebench.watch.record import spent
from pipebench.watch.record.kernel_counts import CoreWait
from pipebench.watch.record.patches import is_ours
from pipebench.watch.worker import fetching

SYSTEM = {"time", "posix", "_io", "io", "_thread", "_posixsubprocess", "select", "_signal", "resource", "mmap"}


class Photos(Dataset[Any]):
    """Everything that is timed for each sample: opening, lazy decoding, and the entries of a Compose."""

    def __init__(self) -> None:
        self.jpeg = encoded(Image.new("RGB", (16, 16)))
        self.transform = Compose([lambda image: image.convert("L"), lambda image: image.size[0]])

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(io.BytesIO(self.jpeg)))


def _webdataset() -> Any:
    wds: Any = pytest.importorskip("webdataset")
    return wds.DataPipeline([[(number,) for number in range(64)]], wds.map(lambda sample: sample), wds.shuffle(2))


def _calls(dataset: Any, samples: int) -> Counter[str]:
    """The functions of C by which our own code may enter the kernel, while one batch of so many samples is made."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and is_ours(frame.f_code.co_filename) and called.__module__ in SYSTEM:
            found[f"{called.__module__}.{called.__name__}"] += 1

    with watching() as seen:
        batches = iter(DataLoader(dataset, samples))
        gc.disable()
        sys.setprofile(note)
        try:
            next(batches)
        finally:
            sys.setprofile(None)
            gc.enable()
    assert seen.result.loaders[0].samples == samples
    return found


@pytest.mark.parametrize("make", [Photos, _webdataset])
def test_a_sample_has_no_system_call_of_ours(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spent, "shortest_ns", lambda age: 10**18)  # a line of the clock's belongs to no sample
    monkeypatch.setattr(CoreWait, "now", lambda _: 0)  # for a batch, and only where the thread had left its core
    few, many = _calls(make(), 2), _calls(make(), 32)
    grown = {name for name in many if many[name] > few[name]}
    assert grown == {"time.perf_counter_ns"}, (few, many)
    assert many["time.perf_counter_ns"] >= few["time.perf_counter_ns"] + 2 * 30


def test_programs_that_a_sample_starts_count_as_its_cpu_time_up_to_the_wall_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a fetch and after it: the second pair is of a program that uses more than one core."""
    monkeypatch.setattr(fetching, "thread_time_ns", lambda: 0)
    used = iter([0, 5_000, 5_000, 10**18])
    monkeypatch.setattr(fetching, "children_cpu_ns", lambda: next(used))
    with watching() as seen:
        for _ in DataLoader(Photos(), 32):
            pass
    loader = seen.result.loaders[0]
    assert loader.sample_cpu_s is not None and loader.sample_s is not None
    assert 0 < loader.sample_cpu_s <= 1.01 * loader.sample_s


@pytest.mark.parametrize("figure", ["thread_time_ns", "core_wait"])
def test_the_kernel_is_asked_twice_a_batch_and_outside_the_rows(monkeypatch: pytest.MonkeyPatch, figure: str) -> None:
    read: list[bool] = []

    def planted() -> int:
        timer = fetching.local.timer
        read.append(timer is not None and timer.busy)
        return 1_000 * len(read)

    is_cpu = figure == "thread_time_ns"
    monkeypatch.setattr(fetching, "thread_time_ns", planted if is_cpu else lambda: 0)
    monkeypatch.setattr(CoreWait, "now", lambda _: 0 if is_cpu else planted())
    monkeypatch.setattr(fetching, "children_cpu_ns", lambda: 0)
    with watching() as seen:
        for _ in DataLoader(Photos(), 16):
            pass
    assert read == [False] * 2 * 4
    loader = seen.result.loaders[0]
    assert loader.sample_cpu_s == pytest.approx(4 * 1_000e-9 / 64 if is_cpu else 0)
    assert loader.sample_s is not None and loader.sample_s > 0
