"""How the passes over a loader begin: what its sampler and its stream do anew, and the first batch. Pure."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from pipebench.watch.read.gather import Place, Run
from pipebench.watch.record.lines import HandedOver, LoaderFound, PassBegun

_NS = 1e-9


def begins_twice_s(run: Run, loader: int) -> float:
    """What the sampler took in later passes before torch began it again: workers that live on would save it."""
    begun = (one for process in run.of_script() for one in process.of(PassBegun))
    return sum(one.twice_ns for one in begun if one.loader == loader and one.number) * _NS


class StreamBegins(NamedTuple):
    """How later passes over a stream begin, in seconds.

    `first_s` is the mean of what it took to begin the stream and to make the first batch, and `usual_s` the median of
    the other batches. `more_s` is what all later passes took more for it.
    """

    first_s: float
    usual_s: float
    more_s: float


def stream_begins(run: Run, one: LoaderFound) -> StreamBegins | None:
    """None: the dataset is no iterable one, or too few batches are known."""
    first = [ns for (_, number), ns in _firsts_ns(run, one.loader).items() if number]
    usual = _usual_ns(run, one.loader)
    if not (one.iterable and first and usual is not None):
        return None
    more = sum(max(0.0, ns - usual) for ns in first)
    return StreamBegins(sum(first) / len(first) * _NS, usual * _NS, more * _NS)


def first_made_ns(run: Run, one: LoaderFound) -> dict[Place, int]:
    """How long workers that live on would take to make the first batch of a pass, until it had been sent.

    They make it like their other batches: what only a new worker does, as to open an archive, is saved. But torch
    begins a stream anew in each pass, also in a worker that lives on: of that, nothing is known to be saved.
    """
    most = None if one.iterable else _usual_ns(run, one.loader)
    firsts = _firsts_ns(run, one.loader)
    return firsts if most is None else {place: min(ns, int(most)) for place, ns in firsts.items()}


def _firsts_ns(run: Run, loader: int) -> dict[Place, int]:
    handed = (one for _, sums in run.sums(loader) for one in sums.handed)
    return {(loader, one.number_of_pass): one.created_ns + _made_ns(one) for one in handed if one.task == 0}


def _usual_ns(run: Run, loader: int) -> float | None:
    later = [_made_ns(one) for _, sums in run.sums(loader) for one in sums.handed if one.nth]
    return median(later) if later else None


def _made_ns(one: HandedOver) -> int:
    return max(one.sent, one.done) - one.began
