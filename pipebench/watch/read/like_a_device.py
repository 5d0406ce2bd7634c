"""Tells work in the loop that may be a wait for a device, as in `loss.item()`, from callbacks and logging. Pure."""

from __future__ import annotations

import itertools
from statistics import median, quantiles

from pipebench.watch.read.device_idle import besides_share, in_waits
from pipebench.watch.read.gather import Run
from pipebench.watch.read.in_loop import on_host
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.record_file import OTHER

_FEWEST = 8  # single iterations
_SPREAD = 0.25  # of the median, from the 10th to the 90th percentile: callbacks scatter more, or come now and then
_ON_CPU = 0.5


def like_a_device(run: Run, loader: int) -> bool:
    """Whether the work besides training takes about as long in each iteration, and hardly needs a core.

    The process's CPU time in whole iterations is the most that this work can have used. With CUDA, the device's own
    clock tells it; without that, it is always so: the host's clock does not tell a wait for the device from work.
    Where the script trains on no device, it is never so.
    """
    if on_host(run.looks(loader)):
        return False
    turns = run.turns(loader)
    if in_waits(turns) is not None:
        return besides_share(run, loader) is None
    single = [
        (one.phases_ns[OTHER], one.process_cpu_ns - before.process_cpu_ns)
        for before, one in itertools.pairwise(turns)
        if one.turns == 1 and one.first and one.trained and follows(before, one)
    ]
    spent = [other for other, _ in single]
    if len(spent) < _FEWEST or not sum(spent):
        return False
    tenths = quantiles(spent, n=10)
    return sum(cpu for _, cpu in single) <= _ON_CPU * sum(spent) and tenths[-1] - tenths[0] <= _SPREAD * median(spent)


def follows(before: LoopSums, one: LoopSums) -> bool:
    """Whether the iterations of `one` come right after those of `before`, in the same pass."""
    return before.number_of_pass == one.number_of_pass and before.first + before.turns == one.first
