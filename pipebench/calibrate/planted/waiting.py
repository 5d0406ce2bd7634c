"""A training script whose waits are known: when each batch was ready, and when the loop asked for it.

    python waiting.py TRUTH.json [--only plain|threads|launches] [--device cuda]

One worker makes batches in bursts, a slow one before four fast ones. So the loop waits for some and not for others. The
worker notes when each batch is done. The batch notes when it is unpickled in the script's process. The loop notes when
it asks. What `next()` takes before and after is known from a run that nobody watches.

- `plain`: the loop works in its own thread.
- `threads`: the loop and the worker give their work to other threads and wait for these.
- `launches`: the loop only enqueues its work. A thread (with `--device cuda`, the device) does the work later, and the
  loop waits for it in every fifth iteration.
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from pipebench.calibrate.planted.amounts import work

BATCHES = 80
SLOW_S, FAST_S = 0.045, 0.005
STEP = 120  # units: about 8 ms, longer than a fast batch takes and shorter than the average one
SCENARIOS = ("plain", "threads", "launches")
DEVICE_S = 0.008


class Bursts(Dataset[Any]):
    """Sleeps for every batch, in threads of its own if `threads` is true."""

    def __init__(self, threads: bool) -> None:
        self.threads = threads

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        spent = FAST_S if index % 5 else SLOW_S
        if self.threads:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(time.sleep, (spent, spent / 2)))
        else:
            time.sleep(spent)
        return torch.zeros(8)


class Stamp:
    """The last item of a batch. Unpickling replaces it by the moment at which it is unpickled."""

    def __reduce__(self) -> Any:
        return time.perf_counter_ns, ()


def stamped(samples: list[torch.Tensor]) -> tuple[torch.Tensor, int, Any]:
    return torch.stack(samples), time.perf_counter_ns(), Stamp()


class Launches:
    """Work that the loop only enqueues. A thread does it in order, as a device would."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.done = threading.Semaphore(0)
        self.launched = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while (units := self.waiting.get()) is not None:
            work(units)
            self.done.release()

    def step(self) -> None:
        self.waiting.put(STEP)
        self.launched += 1
        if self.launched % 5 == 0:
            for _ in range(5):
                self.done.acquire()


class OnDevice:
    """Launches kernels of known length, and knows from when on the device has nothing left to do."""

    def __init__(self) -> None:
        self.cuda: Any = torch.cuda
        self.held = torch.zeros(1, device="cuda")  # without a backward, memory tells which device it is
        self.cycles = 10_000_000
        for _ in range(3):
            begin, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
            begin.record()
            self.cuda._sleep(self.cycles)
            end.record()
            end.synchronize()
            self.cycles = int(self.cycles * DEVICE_S * 1e3 / begin.elapsed_time(end))
        self.free = 0
        self.idle: list[int] = []
        self.launched = 0

    def step(self) -> None:
        self.free = max(self.free, time.perf_counter_ns()) + int(DEVICE_S * 1e9)
        self.cuda._sleep(self.cycles)
        self.launched += 1
        if self.launched % 5 == 0:
            torch.cuda.synchronize()

    def waited(self, asked: int, got: int) -> None:
        self.idle.append(max(0, got - max(asked, self.free)))


def loop(scenario: str, step: Callable[[], Any], device: OnDevice | None) -> list[tuple[int, int, int, int, int]]:
    """(asked, began, ready, arrived, got) of every batch, in nanoseconds of the clock that all processes share.

    `began` is when torch's own code, inside `next()`, began to look for the batch.
    """
    moments = []
    batches: Any = iter(DataLoader(Bursts(scenario == "threads"), 1, collate_fn=stamped, num_workers=1))
    taking, begun = batches._next_data, [0]

    def take() -> Any:
        begun[0] = time.perf_counter_ns()
        return taking()

    vars(batches)["_next_data"] = take
    asked = time.perf_counter_ns()
    for _, ready, arrived in batches:
        got = time.perf_counter_ns()
        moments.append((asked, begun[0], ready, arrived, got))
        if device is not None:
            device.waited(asked, got)
        step()
        asked = time.perf_counter_ns()
    return moments


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("truth")
    parser.add_argument("--only", choices=SCENARIOS)
    parser.add_argument("--device")
    args = parser.parse_args()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(2)
    launches = OnDevice() if args.device else Launches()
    steps: dict[str, Callable[[], Any]] = {
        "plain": lambda: work(STEP),
        "threads": lambda: list(pool.map(work, (STEP, STEP // 2))),
        "launches": launches.step,
    }
    device = launches if isinstance(launches, OnDevice) else None
    chosen = [args.only] if args.only else SCENARIOS
    found: dict[str, Any] = {"moments": {one: loop(one, steps[one], device) for one in chosen}}
    if device is not None:
        found["idle"] = device.idle
    with open(args.truth, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
