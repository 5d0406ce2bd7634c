"""What needs an NVIDIA GPU: `make test-cuda` runs all of these."""

import pytest

from pipebench import stage
from pipebench.lab.timing import Plan, measure
from pipebench.runner import LocalRunner, Runners
from pipebench.stages import video
from pipebench.task import Workload

pytestmark = pytest.mark.cuda
WORKLOAD = Workload(data="tiny", batch_size=16, device="cuda", quick=True)


@pytest.mark.parametrize("task_id", ["transfer/batch", "step/small", "step/resnet18"])
def test_every_variant_runs_on_the_device_agrees_and_is_timed_by_its_events(task_id):
    task = next(one for one in stage.tasks() if one.id == task_id)
    with Runners() as runners:
        result = measure(
            task,
            stage.variants(task_id),
            WORKLOAD,
            runners=runners,
            plan=Plan.quick(),
            ceilings=stage.ceilings(task_id, WORKLOAD),
        )
    for row in result.measurements:
        assert row.skipped is None and row.failed is None and row.samples_failed == 0, row.variant
        assert len(row.readings_s) >= 5 and min(row.readings_s) > 0
    assert {one.resource for one in result.ceilings if one.readings_s} == (
        {"pinned-copy", "pageable-copy"} if task_id == "transfer/batch" else set()
    )


@pytest.mark.parametrize("task_id", ["decode/on-device", "crop/on-device", *video.TASKS])
def test_every_row_of_a_device_that_is_installed_agrees_with_one_core(task_id):
    """A library that is missing here is a skipped row; NVDEC may lack the libraries of FFmpeg or an engine."""
    task = next(one for one in stage.tasks() if one.id == task_id)
    with Runners() as runners:
        result = measure(task, stage.variants(task_id), WORKLOAD, runners=runners, plan=Plan.quick())
    assert [(one.variant, one.sample, one.message) for one in result.bad_samples] == []
    for row in result.measurements:
        assert row.failed is None, row.variant
        if row.skipped is None:
            assert len(row.readings_s) >= 5 and min(row.readings_s) > 0, row.variant
        else:
            assert "no CUDA device" not in row.skipped.reason, row.variant


@pytest.mark.parametrize("identity", ["decode/on-device/torchvision", "crop/on-device/torchcodec"])
def test_a_row_gives_the_memory_of_the_device_back(identity):
    import torch

    runner = LocalRunner()
    task, _ = stage.find(identity)
    if runner.prepare(identity, WORKLOAD).skip_code == "not-installed":
        pytest.skip("its library is missing here")
    keys = tuple(key for group in task.groups(WORKLOAD) for key in group)
    runner.arm(identity, WORKLOAD, keys)
    runner.reading(identity, 3)
    before = torch.cuda.memory_allocated()
    runner.reading(identity, 10)
    assert torch.cuda.memory_allocated() <= before


def test_pinned_copies_of_the_ring_s_batches_keep_their_values():
    import torch
    from test_ring import BATCH, SAMPLES, loader

    batches = [images for images, _ in loader(pin_memory=True)]
    assert all(one.is_pinned() for one in batches)
    assert [float(one[0].mean()) for one in batches] == list(range(0, SAMPLES, BATCH))
    on_device = [images.to("cuda", non_blocking=True) for images, _ in loader(pin_memory=True)]
    torch.cuda.synchronize()
    assert [float(one[0].mean()) for one in on_device] == list(range(0, SAMPLES, BATCH))


def test_device_time_covers_work_that_the_host_does_not_wait_for():
    import torch

    from pipebench.host.clock import DeviceClock, WallClock

    first = torch.randn(4096, 4096, device="cuda")

    def queue():
        for _ in range(20):
            torch.mm(first, first)

    queue()
    torch.cuda.synchronize()
    host = WallClock().elapsed(queue)
    torch.cuda.synchronize()
    assert DeviceClock().elapsed(queue) > 2 * host
