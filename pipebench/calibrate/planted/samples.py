"""A training script with planted amounts in every stage and phase, for attribution.

    python samples.py TRUTH.json --workers N --batches N --batch N [--skew] [--method fork] [--carriers]

It writes what was planted, and does not know whether it is watched. `--carriers` is for a run that nobody watches: it
adds clocks around each stage, and writes what the stages take besides what is planted in them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader

from pipebench.calibrate.planted.amounts import NOTHING, Amount, Ledger, plus, work
from pipebench.calibrate.planted.stages import Planted, collate, inside, watch_pickling

PHASES = ("wait", "forward", "backward", "optimiser", "other")
outside = Ledger()


class Slow(torch.autograd.Function):
    """A sum with planted work in its backward pass."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.sum()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        outside.begin()
        work(12)
        return gradient.expand(8)


def backward_ends(weight: Any) -> None:
    outside.end("backward", 12)


class Descent(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        outside.plant("optimiser", 5)


class Loop:
    """Trains on every batch. Keeps, per iteration, the wall nanoseconds of each phase and of what was planted in it."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        leaf: Any = torch.zeros(8, requires_grad=True)
        self.weight = leaf
        leaf.register_post_accumulate_grad_hook(backward_ends)
        self.optimiser = Descent([self.weight], lr=0.1)
        self.workers = loader.num_workers
        self.batches: Any = iter(loader)
        self.taking = self.batches._next_data
        vars(self.batches)["_next_data"] = self.take
        self.began = self.arrived = 0
        self.planted: dict[int, dict[str, Amount]] = {}
        self.iterations: list[list[tuple[int, int]]] = []
        self.own: dict[str, Amount] = {}
        self.handed_off: list[tuple[int, int]] = []

    def take(self) -> Any:
        """Times the wait innermost: in torch's own code, inside `__next__`."""
        self.began = time.perf_counter_ns()
        try:
            return self.taking()
        finally:
            self.arrived = time.perf_counter_ns()

    def wait(self, asked: int, ready: int) -> int:
        """The true wait in nanoseconds.

        With workers, if the batch was not ready when the loop asked for it, the wait begins with the request, even if
        `next()` was slow to look for the batch.
        """
        return self.arrived - (asked if self.workers and ready > asked else self.began)

    def run(self) -> None:
        asked = time.perf_counter_ns()
        for batch, parcel in self.batches:
            got = time.perf_counter_ns()
            outside.plant("forward", 12)
            loss: Any = Slow.apply(self.weight)
            forward = time.perf_counter_ns()
            loss.backward()
            backward = time.perf_counter_ns()
            self.optimiser.step()
            stepped = time.perf_counter_ns()
            outside.plant("other", 5)
            self._keep(batch.worker, {**batch.amounts, "hand-off": parcel.amount})
            self.handed_off += batch.handed_off
            own = outside.take()
            self.own = {stage: plus(self.own.get(stage, NOTHING), amount) for stage, amount in own.items()}
            now = time.perf_counter_ns()
            planted = (self.wait(asked, batch.ready), forward - got, own["backward"][1], own["optimiser"][1])
            whole = (got - asked, forward - got, backward - forward, stepped - backward)
            self.iterations.append([*zip(whole, planted, strict=True), (now - stepped, now - stepped)])
            asked = time.perf_counter_ns()

    def _keep(self, worker: int, amounts: dict[str, Amount]) -> None:
        sums = self.planted.setdefault(worker, {})
        for stage, amount in amounts.items():
            sums[stage] = plus(sums.get(stage, NOTHING), amount)


def carriers(loop: Loop) -> dict[str, tuple[float, float]]:
    """Mean wall and CPU nanoseconds of each stage besides what is planted. For phases: the median, wall time only."""
    seen = {**inside.carriers, **({"hand-off": loop.handed_off} if loop.handed_off else {})}
    found = {
        stage: (statistics.mean(wall for wall, _ in both), statistics.mean(cpu for _, cpu in both))
        for stage, both in seen.items()
    }
    for place, phase in enumerate(PHASES):
        extra = statistics.median(one[place][0] - one[place][1] for one in loop.iterations[1:])
        found[phase] = (extra, 0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("truth")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--skew", action="store_true")
    parser.add_argument("--method", default="fork")
    parser.add_argument("--carriers", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    inside.outer = args.carriers and not args.workers
    if args.carriers:
        watch_pickling()
    dataset = Planted(args.batches * args.batch, args.skew)
    context = args.method if args.workers else None
    loop = Loop(
        DataLoader(dataset, args.batch, collate_fn=collate, num_workers=args.workers, multiprocessing_context=context)
    )
    loop.run()
    found: dict[str, Any] = {
        "samples": len(dataset),
        "workers": loop.planted,
        "loop": loop.own,
        "iterations": loop.iterations,
    }
    if args.carriers:
        found["carriers"] = carriers(loop)
    with open(args.truth, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
