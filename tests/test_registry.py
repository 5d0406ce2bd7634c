"""One contract for every variant: it runs on real images, agrees with its reference, and says what it is."""

import functools

import numpy as np
import pytest
from PIL import Image

from pipebench import stage
from pipebench.lab import whole_run
from pipebench.lab.timing import Plan, measure
from pipebench.runner import Runners
from pipebench.stages.decode import TURNED
from pipebench.task import Workload

WORKLOAD = Workload(data="tiny", batch_size=4, quick=True)
TASKS = {task.id: task for task in stage.tasks()}
VARIANTS = [one for task_id in TASKS for one in stage.variants(task_id)]
LOSSY = {
    "pillow-draft", "opencv-reduced", "draft-crop", "cv-uint8", "cv-uint8-threads-0", "cv-uint8-threads-default",
    "default", "numpy", "thp",
}  # fmt: skip
INEXACT = {
    f"crop/resized-224/{name}"
    for name in ("region", "region-packed", "opencv", "opencv-threads-0", "opencv-threads-default")
}
MAY_BE_SKIPPED = {"no-device", "not-built", "kernel", "unsupported-cpu", "no-compiler"}
MAY_BE_MISSING = ("FFmpeg", "'nvidia")  # what the rows of `not-installed` may lack: no package of `dev` brings it

EXPECTED = {
    "read/image": [
        "open", "pread", "torchvision", "mmap", "tarfile", "tar-index", "webdataset", "parquet", "parquet-random",
        "arrow-ipc", "hf-datasets",
    ],
    "read/all-members": ["open", "pread", "torchvision", "mmap", "tarfile", "tar-index", "webdataset"],
    "decode/rgb": [
        "pillow", "pillow-draft", "pillow-simd", "opencv", "opencv-reduced", "torchvision", "torchcodec", "simplejpeg",
        "dali", "nvimagecodec",
    ],
    "decode/on-device": [
        "pillow", "simplejpeg", "torchvision", "torchvision-single", "torchcodec", "torchcodec-single", "dali",
        "nvimagecodec", "nvimagecodec-single",
    ],
    "crop/fixed-256": [
        "tensor-first", "float-tensor-first", "pil-crop", "draft-crop", "opencv", "torchvision-v2", "region",
        "region-packed", "crop-stream+simplejpeg",
    ],
    "crop/resized-224": [
        "tensor-first", "float-tensor-first", "pil-crop", "draft-crop", "opencv", "torchvision-v2", "region",
        "region-exact", "region-packed", "crop-stream+simplejpeg", "dali-roi", "nvimagecodec-roi",
    ],
    "crop/on-device": ["tensor-first", "region-exact", "torchcodec", "dali", "dali-roi", "nvimagecodec-roi"],
    "transform/dilate": ["conv", "bool-or", "cv-dilate"],
    "transform/mask": ["masked-fill", "where", "multiply", "numpy-and", "opencv-and"],
    "transform/yuv": ["per-sample", "batch-matmul", "into-batch", "cv-uint8"],
    "transform/flip-normalise": ["v1-sample", "v2-sample", "v2-batch", "into-batch"],
    "collate/float32": ["shared", "ring", "default", "numpy", "thp"],
    "collate/uint8": ["shared", "ring", "default", "numpy", "thp"],
    "transfer/batch": ["pageable", "pinned", "pinned-async", "uint8", "side-stream"],
    "step/small": ["eager"],
    "step/resnet18": ["eager"],
    "video/sequential": ["opencv", "pyav", "torchcodec", "torchcodec-approximate", "torchcodec-cuda"],
    "video/random": [
        "opencv", "pyav", "torchcodec", "torchcodec-approximate", "torchcodec-at-once", "torchcodec-cuda",
        "torchcodec-cuda-at-once",
    ],
    "video/clip": ["opencv", "pyav", "torchcodec", "torchcodec-approximate", "torchcodec-cuda"],
}  # fmt: skip


def test_the_tasks_come_in_the_order_in_which_a_sample_flows():
    assert list(TASKS) == list(EXPECTED)


@pytest.mark.parametrize("task_id", EXPECTED)
def test_the_variants_have_their_names_and_the_first_is_the_reference(task_id):
    names = [one.name for one in stage.variants(task_id)]
    assert names[0] == EXPECTED[task_id][0]
    assert [name for name in names if name in EXPECTED[task_id]] == EXPECTED[task_id]


@functools.cache
def _result(task_id):
    """Every variant of a task tried on the whole of `tiny`, and timed as briefly as can be."""
    with Runners() as runners:
        plan = Plan(rounds=1, least_rounds=1, budget_s=0.0, reading_s=0.0)
        task, found = TASKS[task_id], stage.variants(task_id)
        return measure(task, found, WORKLOAD, runners=runners, plan=plan, ceilings=stage.ceilings(task_id, WORKLOAD))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.id)
def test_a_variant_keeps_the_contract_of_its_task_and_agrees_with_the_reference(variant):
    result = _result(variant.task)
    row = next(one for one in result.measurements if one.variant == variant.name)
    if row.skipped:
        lacks = row.skipped.code == "not-installed" and any(one in row.skipped.reason for one in MAY_BE_MISSING)
        assert lacks or row.skipped.code in MAY_BE_SKIPPED, row.skipped.reason
        assert row.readings_s == () and row.summary is None
        pytest.skip(row.skipped.reason)  # the reason is the row's own, and the code is one of those that may be
    assert row.failed is None
    bad = [(one.sample, one.message) for one in result.bad_samples if one.variant == variant.name]
    assert (row.samples_failed, bad) == (0, [])
    assert row.samples_attempted > 0 and len(row.readings_s) == 1
    assert row.work.samples > 0 and row.work.input_bytes > 0


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.id)
def test_a_variant_says_what_it_is_and_what_it_gives_up(variant):
    assert variant.doc
    lossy = variant.name in LOSSY or variant.id in INEXACT
    assert (variant.gives_up is not None) == lossy


BOUNDED = (
    "read/image",
    "decode/rgb",
    "crop/fixed-256",
    "transform/dilate",
    "transform/mask",
    "transform/yuv",
    "collate/float32",
)


@pytest.mark.parametrize("task_id", BOUNDED)
def test_what_is_bounded_has_its_ceiling_measured_beside_it(task_id):
    result = _result(task_id)
    assert any(one.readings_s and one.bytes_per_s for one in result.ceilings)
    for row in result.measurements:
        partial = row.variant in ("region", "region-packed", "crop-stream+simplejpeg")
        has_none = row.skipped is not None or row.gives_up is not None or partial
        assert (row.fraction_of_ceiling is None) == has_none, row.variant


@pytest.mark.parametrize(
    ("orientation", "size"), [(2, (64, 48)), (3, (64, 48)), (4, (64, 48)), (6, (64, 48)), (8, (48, 48))]
)
def test_a_decoder_that_turns_a_photograph_as_its_exif_says_is_said_to(tmp_path, orientation, size):
    """Upside down and mirrored too, where the shape of what comes out shows nothing."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(tmp_path / "a.jpg", exif=exif, quality=95)
    workload = Workload(data=str(tmp_path), quick=True)
    found = [one for one in stage.variants("decode/rgb") if one.name in ("pillow", "opencv", "torchcodec")]
    with Runners() as runners:
        plan = Plan(rounds=1, least_rounds=1, budget_s=0.0, reading_s=0.0)
        result = measure(TASKS["decode/rgb"], found, workload, runners=runners, plan=plan)
    skipped = {one.variant: one.skipped.reason for one in result.measurements if one.skipped}
    assert skipped == {"torchcodec": "not made for this data: 1 is " + TURNED.removeprefix("it is ")}
    assert result.bad_samples == ()


@pytest.mark.parametrize(
    ("names", "quick", "found"),
    [((), False, True), ((), True, False), (("thp",), True, True), (("ring",), True, False)],
)
def test_a_quick_run_starts_no_process_for_other_environment_variables_unless_asked_to(names, quick, found):
    kept = {one.name for one in whole_run.select(["collate"], names, quick).variants}
    everything = {one.name for one in whole_run.select(quick=True).variants}
    assert ("thp" in kept) == found and "pillow-simd" in everything
