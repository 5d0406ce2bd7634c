"""The sum of the stages beside a loader without workers, which does the same work in the same report."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Measurement
from pipebench.units import percent


def gap(stages: Sequence[Measurement], rows: Sequence[LoaderRow]) -> str:
    """A sentence: how far the sum of `stages` is from the loader, and whether their intervals explain it.

    `stages` are the variants of which the loader with 0 workers is made. The interval of the sum goes from the sum of
    the lower ends to that of the upper ends. Empty if the report has no such loader with the batch size of the last of
    the stages, collate. (Transforms are measured on at most 16 samples: the cost of one hardly depends on the others.)
    """
    loader = next((one for one in rows if stages and _alike(one) and one.batch_size == _batch(stages[-1])), None)
    if loader is None or any(one.summary is None or one.work is None for one in stages):
        return ""
    costs = [(one.summary, one.work.samples) for one in stages if one.summary and one.work]
    cost, low, high = (
        sum(pick / samples for pick, samples in ends)
        for ends in (
            [(one.median_s, samples) for one, samples in costs],
            [(one.low_s, samples) for one, samples in costs],
            [(one.high_s, samples) for one, samples in costs],
        )
    )
    assert loader.images_per_s and loader.low and loader.high
    beyond = loader.high < 1 / high or loader.low > 1 / low
    return (
        f"The loader with 0 workers does the same in one process, batch {loader.batch_size}: "
        f"{loader.images_per_s:,.0f} samples/s, {_differs(loader.images_per_s * cost)} the {1 / cost:,.0f} of the sum "
        f"with its own collate ({stages[-1].variant}). "
        + (
            "The gap is larger than their intervals: trust the loader."
            if beyond
            else "The gap is within their intervals."
        )
    )


def _batch(one: Measurement) -> int:
    return one.workload.batch_size


def _alike(one: LoaderRow) -> bool:
    return (one.dataset, one.dtype, one.workers) == ("map", "float32", 0) and None not in (
        one.images_per_s,
        one.low,
        one.high,
    )


def _differs(ratio: float) -> str:
    return f"{percent(abs(ratio - 1))} {'above' if ratio > 1 else 'below'}"
