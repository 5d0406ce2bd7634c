"""Data of the user's own in the forms in which it comes: nothing good is called bad, and each variant has its data."""

import io
import tarfile

import cv2
import numpy as np
import pytest
from in_memory import encoded
from PIL import Image

from pipebench import stage
from pipebench.errors import said_by
from pipebench.lab.timing import Plan, measure
from pipebench.runner import Runners
from pipebench.task import Workload

BRIEF = Plan(rounds=1, least_rounds=1, budget_s=0.0, reading_s=0.0)
DECODERS = ("pillow", "opencv", "opencv-reduced", "simplejpeg")  # without torch
READERS = ("open", "pread", "tarfile", "tar-index")


def image(width=96, height=64, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def write(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def measured(path, task_id, names):
    task, variants = stage.find(f"{task_id}/{names[0]}")[0], stage.variants(task_id)
    with Runners() as runners:
        wanted = [one for one in variants if one.name in names]
        return measure(task, wanted, Workload(data=str(path)), runners=runners, plan=BRIEF)


def rows(result):
    return {one.variant: one for one in result.measurements}


def test_an_image_folder(tmp_path):
    write(tmp_path, {f"{label}/{n}.jpg": encoded(image(seed=n)) for label in ("cat", "dog") for n in range(3)})
    result = measured(tmp_path, "decode/rgb", DECODERS)
    assert {one.work.samples for one in result.measurements} == {6} and result.bad_samples == ()


def test_a_mixed_folder_costs_nobody_a_sample_and_is_not_bad(tmp_path):
    formats = {"a.png": "PNG", "b.webp": "WEBP", "c.jpg": "JPEG", "d.png": "PNG", "e.bmp": "BMP"}
    write(tmp_path, {name: encoded(image(95, 63), format) for name, format in formats.items()})
    result = measured(tmp_path, "decode/rgb", DECODERS)
    found = rows(result)
    jpeg = found.pop("simplejpeg")
    assert (jpeg.skipped, jpeg.work.samples, jpeg.samples_unfit) == (None, 1, 4)
    assert {one.work.samples for one in found.values()} == {5}
    assert {one.reference_did for one in result.bad_samples} == {True}


def test_only_png(tmp_path):
    write(tmp_path, {f"{n}.png": encoded(image(33, 21, n), "PNG") for n in range(4)})
    result = measured(tmp_path, "decode/rgb", DECODERS)
    assert rows(result)["simplejpeg"].skipped.reason == "not made for this data: 4 are PNG"
    assert rows(result)["opencv-reduced"].work.samples == 4 and result.bad_samples == ()


def test_an_image_of_one_pixel_is_not_bad_and_has_no_half(tmp_path):
    write(tmp_path, {f"{n}.png": encoded(image(seed=n), "PNG") for n in range(4)})
    write(tmp_path, {"one.png": encoded(image(1, 1), "PNG"), "one.jpg": encoded(image(1, 1)), "all": b""})
    result = measured(tmp_path, "decode/rgb", ("pillow", "opencv", "opencv-reduced"))
    assert rows(result)["opencv-reduced"].failed is None
    (one,) = result.bad_samples
    assert (one.sample, one.variant, one.kind, one.message) == (
        "one.png", "opencv-reduced", "unfit", "it is one pixel wide or high",
    )  # fmt: skip


def test_what_an_exception_says_is_one_line_without_a_path_of_its_library():
    with pytest.raises(cv2.error) as raised:
        cv2.resize(np.zeros((1, 1, 3), np.uint8), (0, 0))
    assert "\n" in str(raised.value) and ".cpp" in str(raised.value)
    assert said_by(raised.value).startswith("resize: ") and len(said_by(raised.value)) < 60
    assert said_by(RuntimeError("\n\n first \n second")) == "first" and said_by(KeyError()) == ""


def test_a_broken_file_is_bad_and_a_good_one_that_a_variant_refuses_is_not(tmp_path):
    good = {f"{n:02d}.jpg": encoded(image(seed=n)) for n in range(24)}
    write(tmp_path, good | {"cut.jpg": good["00.jpg"][:-300], "cmyk.jpg": encoded(image().convert("CMYK"))})
    result = measured(tmp_path, "decode/rgb", DECODERS)
    broken = {one.sample for one in result.bad_samples if not one.reference_did}
    assert broken == {"cut.jpg"}
    assert {one.sample for one in result.bad_samples if one.reference_did} == {"cmyk.jpg"}
    assert rows(result)["opencv"].samples_unlike == 1 and rows(result)["pillow"].samples_unlike == 0


@pytest.mark.parametrize("companion", ["json", "txt"])
def test_shards_with_captions_have_a_reference_to_compare_with(tmp_path, companion):
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for n in range(4):
            for suffix, data in (("jpg", encoded(image(seed=n))), (companion, b'{"caption": "a cat"}')):
                info = tarfile.TarInfo(f"{n:04d}.{suffix}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    for task_id in ("read/image", "read/all-members"):
        found = rows(measured(tmp_path / "*.tar", task_id, READERS))
        assert found["open"].skipped and found["pread"].skipped
        assert found["tarfile"].over_reference.speedup == 1.0 and found["tar-index"].over_reference is not None
    assert {one.work.samples for one in measured(tmp_path / "s.tar", "decode/rgb", DECODERS).measurements} == {4}


@pytest.mark.long
def test_photographs_of_a_phone_are_good_whoever_turns_them(tmp_path):
    """4000×3000 with an EXIF orientation: the decoder that applies it is timed on the one that it does not turn."""
    for n, orientation in enumerate((1, 6, 3)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        write(tmp_path, {f"IMG_{n}.jpg": encoded(image(4000, 3000), quality=80, exif=exif)})
    result = measured(tmp_path, "decode/rgb", ("pillow", "opencv", "torchcodec"))
    found = rows(result)
    assert (found["torchcodec"].work.samples, found["torchcodec"].samples_unfit) == (1, 2)
    assert {found[name].work.samples for name in ("pillow", "opencv")} == {3}
    assert {one.reference_did for one in result.bad_samples} == {True}
