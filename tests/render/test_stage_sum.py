"""The sum of the stages beside a loader without workers, with planted figures."""

from dataclasses import replace

import pytest

from pipebench.render import stage_sum, tables
from pipebench.results.loading import LoaderRow
from pipebench.results.measurement import Measurement
from pipebench.results.report import Report
from pipebench.stats import Speedup, Summary
from pipebench.task import Work, Workload

ONE = Speedup(1.0, 1.0, 1.0, 1.0)


def measured(task, variant, milliseconds, spread=0.01, over=ONE):
    """A stage whose samples take so long, in batches of 16."""
    call_s = 16 * milliseconds / 1e3
    summary = Summary(call_s, call_s * (1 - spread), call_s * (1 + spread), 0.96, 16 / call_s)
    return Measurement(
        task.partition("/")[0], task, variant, Workload(), (call_s,), None, 1, Work(16, 1, 1), summary, over
    )


STAGES = (
    measured("read/image", "open", 1.0),
    measured("crop/resized-224", "tensor-first", 2.0),
    measured("transform/flip-normalise", "v1-sample", 1.5),
    measured("collate/float32", "shared", 1.0),
    measured("collate/float32", "default", 0.5, over=Speedup(2.0, 1.9, 2.1, 0.96)),
)


def loader(rate, half=0.01, batch=16):
    return LoaderRow("map", "float32", 0, batch, "none", (0.1,), (16,), rate, rate * (1 - half), rate * (1 + half))


def verdict(*rows):
    return tables.verdict(Report(2, measurements=STAGES, loader=rows))


def test_a_gap_that_the_intervals_do_not_explain_is_said():
    said = verdict(loader(180.0))  # the sum of the first three and `default` is 5 ms: 200 samples/s
    assert "One core: 182 samples/s through" in said  # with the reference, `shared`
    assert said.endswith(
        "The loader with 0 workers does the same in one process, batch 16: 180 samples/s, 10 % below the 200 of the "
        "sum with its own collate (default). The gap is larger than their intervals: trust the loader."
    )


@pytest.mark.parametrize(("rate", "half", "explained"), [(197, 0.01, True), (197, 0.001, False), (203, 0.01, True)])
def test_the_intervals_of_both_decide(rate, half, explained):
    assert ("The gap is within their intervals." in verdict(loader(rate, half))) == explained


def test_a_loader_that_is_faster_than_the_sum_is_said_too():
    assert "220 samples/s, 10 % above the 200 of the sum" in verdict(loader(220.0))


@pytest.mark.parametrize("row", [loader(180.0, batch=64), replace(loader(180.0), workers=2), loader(180.0, batch=4)])
def test_a_loader_of_other_batches_or_with_workers_is_not_compared(row):
    assert "The loader with 0 workers" not in verdict(row)


def test_transforms_are_measured_in_smaller_batches_than_the_loader_makes():
    of_64 = replace(Workload(), batch_size=64)
    stages = tuple(one if one.stage == "transform" else replace(one, workload=of_64) for one in STAGES)
    said = tables.verdict(Report(2, measurements=stages, loader=(loader(180.0, batch=64),)))
    assert "The loader with 0 workers does the same in one process, batch 64: 180 samples/s, 10 % below" in said


def test_without_its_own_collate_there_is_no_sum():
    assert stage_sum.gap((), (loader(180.0),)) == ""
    assert "loader with 0" not in tables.verdict(Report(2, measurements=STAGES[:4], loader=(loader(180.0),)))
