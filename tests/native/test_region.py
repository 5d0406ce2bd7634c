"""Decode-and-crop: exact on sound files, an error on every other, and the boxes of torchvision."""

from __future__ import annotations

import array
import ctypes
import hashlib
import io
import json
import mmap
import multiprocessing
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import region_jpegs
import torch
from PIL import Image
from region_jpegs import KINDS, SIDES, edited, encode

from pipebench.errors import SampleError
from pipebench.native import region, transforms

HERE = Path(__file__).parent


def whole(data, scale=1):
    """What Pillow makes of the whole image, decoded at 1/scale."""
    image = Image.open(io.BytesIO(data))
    if scale != 1:  # what `draft` sets, which itself only takes a scale that leaves both sides at least as asked for
        decoder, _, offset, arguments = image.tile[0]
        image._size = (-(-image.width // scale), -(-image.height // scale))
        image.tile = [(decoder, (0, 0, *image.size), offset, arguments)]
        image.decoderconfig = (scale, 0)
    return np.asarray(image.convert("RGB"))


def cut(pixels, box, scale=1):
    left, top, width, height = box
    return pixels[top // scale : (top + height - 1) // scale + 1, left // scale : (left + width - 1) // scale + 1]


def any_box(rng, width, height):
    """A box that often touches a border."""
    wide, high = rng.randint(1, width), rng.randint(1, height)
    left = rng.choice((0, width - wide, rng.randint(0, width - wide)))
    top = rng.choice((0, height - high, rng.randint(0, height - high)))
    return left, top, wide, high


def check_exact(rng, kind, progressive, scales, boxes):
    width, height = rng.choice(SIDES), rng.choice(SIDES)
    quality, restart, at = rng.choice((30, 75, 95)), rng.choice((0, 0, 1, 5)), rng.randrange(256)
    data = encode(kind, width, height, progressive, quality, restart, at)
    for scale in scales:
        expected = whole(data, scale)
        for _ in range(boxes):
            box = any_box(rng, width, height)
            out = region.decode_and_crop(data, box, scale)
            assert out.dtype == torch.uint8 and tuple(out.shape) == (*region.scaled_size(box, scale), 3)
            assert np.array_equal(out.numpy(), cut(expected, box, scale)), (width, height, quality, restart, box, scale)


@pytest.mark.parametrize("progressive", [False, True], ids=["sequential", "progressive"])
@pytest.mark.parametrize("kind", KINDS)
def test_same_pixels_as_pillow(kind, progressive):
    rng = random.Random(f"{kind} {progressive}")
    for _ in range(40):
        check_exact(rng, kind, progressive, scales=(1,), boxes=12)


@pytest.mark.parametrize("kind", KINDS)
def test_same_reduced_pixels_as_pillow(kind):
    rng = random.Random(kind)
    for _ in range(12):
        check_exact(rng, kind, rng.random() < 0.4, scales=(2, 4, 8), boxes=6)


@pytest.mark.long
def test_same_pixels_as_pillow_at_length():
    rng = random.Random(0)
    for _ in range(4000):
        check_exact(rng, rng.choice(KINDS), rng.random() < 0.4, scales=region.SCALES, boxes=12)


@pytest.mark.parametrize("scale", region.SCALES)
@pytest.mark.parametrize("chroma", [0x11, 0x21, 0x12, 0x22])
@pytest.mark.parametrize("luma", [0x42, 0x24, 0x41, 0x14, 0x31, 0x22, 0x11])
def test_unusual_sampling_factors_are_exact_too(luma, chroma, scale):
    data = region_jpegs.resampled(luma, chroma)
    try:
        expected = whole(data, scale)
    except OSError:  # libjpeg does not upsample by one and a half
        with pytest.raises(SampleError, match=r"Fractional sampling|too large") as caught:
            region.decode_and_crop(data, (37, 18, 30, 20), scale)
        assert caught.value.kind in ("unsupported", "corrupt")
        return
    for box in ((37, 18, 30, 20), (0, 0, 97, 64), (90, 60, 7, 4), (40, 0, 1, 1)):
        assert np.array_equal(region.decode_and_crop(data, box, scale).numpy(), cut(expected, box, scale)), box


BYTES = encode("4:2:0", 101, 64)
BOX = (30, 20, 33, 17)


@pytest.mark.parametrize(
    "wrap",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: memoryview(bytearray(data)),
        lambda data: memoryview(b"".join(bytes([byte, 0]) for byte in data))[::2],
        lambda data: array.array("B", data),
        lambda data: np.frombuffer(data, np.uint8),
        lambda data: np.frombuffer(data, np.uint8).copy(),
        lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8),
        lambda data: torch.frombuffer(bytearray(b"".join(bytes([byte, 0]) for byte in data)), dtype=torch.uint8)[::2],
    ],
)
def test_takes_anything_bytes_like(wrap):
    assert torch.equal(region.decode_and_crop(wrap(BYTES), BOX), region.decode_and_crop(BYTES, BOX))


def test_takes_a_mapped_file(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(b"before" + BYTES + b"after")
    expected = region.decode_and_crop(BYTES, BOX)
    for access in (mmap.ACCESS_READ, mmap.ACCESS_COPY):
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=access) as mapped:
            with memoryview(mapped) as view, view[6:-5] as part:
                assert torch.equal(region.decode_and_crop(part, BOX), expected)
            assert region.image_size(mapped[6:-5]) == (101, 64)


def test_leaves_a_bytearray_free_to_grow():
    data = bytearray(BYTES)
    region.decode_and_crop(data, BOX)
    data.append(0)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ((90, 0, 12, 5), "reaches outside the image of 101 . 64 pixels"),
        ((0, 60, 5, 5), "outside the image"),
        ((101, 64, 1, 1), "outside the image"),
        ((-1, 0, 5, 5), "outside the image"),
        ((0, -1, 5, 5), "outside the image"),
        ((2**32, 0, 5, 5), "outside the image"),
        ((0, 0, 2**32 + 5, 5), "outside the image"),
        ((0, 0, 60_000, 60_000), "outside the image"),
        ((2**31, 2**31, 2**31, 2**31), "outside the image"),
        ((0, 0, 0, 5), "is empty"),
        ((0, 0, 5, 0), "is empty"),
        ((5, 5, -2, 3), "is empty"),
        ((0.0, 0, 5, 5), "four whole numbers"),
        ((0, 0, "5", 5), "four whole numbers"),
        ((0, 0, 5), "not 3 numbers"),
        ((0, 0, 5, 5, 5), "not 5 numbers"),
        (None, "four whole numbers"),
    ],
)
def test_a_bad_box_is_a_value_error(box, words):
    with pytest.raises(ValueError, match=words):
        region.decode_and_crop(BYTES, box)


@pytest.mark.parametrize("scale", [0, 3, 16, -1, 0.5, 2.0, None, "2"])
def test_a_bad_scale_is_a_value_error(scale):
    with pytest.raises(ValueError, match="scale must be 1, 2, 4 or 8"):
        region.decode_and_crop(BYTES, BOX, scale)


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2]])
def test_data_that_is_not_bytes_is_a_type_error(data):
    with pytest.raises(TypeError, match="bytes-like"):
        region.decode_and_crop(data, BOX)


@pytest.mark.parametrize(
    "data",
    [torch.zeros(9), torch.zeros(3, 3, dtype=torch.uint8), torch.zeros(9, dtype=torch.uint8, device="meta")],
    ids=["float", "2-D", "elsewhere"],
)
def test_a_tensor_of_another_kind_is_a_type_error(data):
    with pytest.raises(TypeError, match="1-D uint8 tensor in host memory"):
        region.decode_and_crop(data, BOX)


def many_scans():
    data = encode("4:2:0", 101, 64, progressive=True)
    last = region_jpegs.scans(data)[-1]
    return data[:last] + data[last:-2] * 200 + b"\xff\xd9"


WIDE_RGB = encode("rgb", 101, 64)
PROGRESSIVE = encode("4:2:0", 101, 64, progressive=True)
BAD_DATA = {
    "nothing": (b"", "empty", "no bytes"),
    "garbage": (random.Random(0).randbytes(5000), "not-jpeg", "Not a JPEG file"),
    "text": (b"not a picture", "not-jpeg", "Not a JPEG file"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "not-jpeg", "Not a JPEG file"),
    "one byte": (b"\xff", "truncated", "end"),
    "cut in the header": (BYTES[:100], "truncated", "end"),
    "cut in the rows of the box": (BYTES[: len(BYTES) // 4], "truncated", "end"),
    "cut progressive": (PROGRESSIVE[:-100], "truncated", "end"),
    "900 megapixels": (edited(BYTES, 1, b"\x75\x30\x75\x30"), "too-large", "the limit is 178956970"),
    "65535 pixels wide": (edited(BYTES, 1, b"\xff\xff\xff\xff"), "too-large", "65500"),
    "160 megapixels": (edited(BYTES, 1, b"\x27\x10\x3e\x80"), "truncated", "cannot hold the 16000 . 10000 pixels"),
    "160 megapixels, progressive": (edited(PROGRESSIVE, 1, b"\x27\x10\x3e\x80"), "truncated", "cannot hold"),
    "no pixels": (edited(BYTES, 1, b"\x00\x00\x00\x00"), "corrupt", "Empty"),
    "12 bits": (edited(BYTES, 0, b"\x0c"), "unsupported", "precision 12|12 bits"),
    "CMYK": (encode("cmyk", 101, 64), "unsupported", "CMYK"),
    "arithmetic": (edited(BYTES, -3, b"\xc9"), "unsupported", "arithmetic"),
    "arithmetic, progressive": (edited(PROGRESSIVE, -3, b"\xca"), "unsupported", "arithmetic"),
    "lossless": (edited(BYTES, -3, b"\xc3"), "unsupported", "0xc3|lossless"),
    "hierarchical": (edited(BYTES, -3, b"\xc5"), "unsupported", "0xc5"),
    "fractional sampling": (edited(edited(WIDE_RGB, 7, b"\x31"), 10, b"\x21"), "unsupported", "Fractional"),
    "too many scans": (many_scans(), "corrupt", "scan|progress"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_an_error_that_names_the_cause(name):
    data, kind, words = BAD_DATA[name]
    with pytest.raises(SampleError, match=words) as caught:
        region.decode_and_crop(data, BOX)
    assert caught.value.kind in kind.split("|")


def test_damage_below_the_box_is_not_read():
    data = BYTES[: len(BYTES) * 9 // 10]
    assert torch.equal(region.decode_and_crop(data, (0, 0, 50, 10)), region.decode_and_crop(BYTES, (0, 0, 50, 10)))
    with pytest.raises(SampleError, match="Premature end"):
        region.decode_and_crop(data, (0, 60, 50, 4))


def test_a_file_without_its_last_marker_is_truncated_once_its_end_is_reached():
    assert torch.equal(region.decode_and_crop(BYTES[:-2], BOX), region.decode_and_crop(BYTES, BOX))
    with pytest.raises(SampleError, match="Premature end"):
        region.decode_and_crop(BYTES[:-2], (0, 0, 101, 64))
    with pytest.raises(OSError, match="truncated"):  # Pillow's opinion
        whole(BYTES[:-2])


def test_errors_are_not_printed(capfd):
    for data, _, _ in BAD_DATA.values():
        with pytest.raises(SampleError):
            region.decode_and_crop(data, BOX)
    assert capfd.readouterr() == ("", "")


MUTANTS = """
import hashlib, json, random, sys
import region_jpegs, torch
from pipebench.native import region, resized
from pipebench.errors import SampleError

SOUND = resized.EncodedCrop(region_jpegs.encode("4:2:0", 101, 64), (30, 20, 33, 17))

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def tried(data, rng):
    try:
        width, height = region.image_size(data)
        wide, high = rng.randint(1, width), rng.randint(1, height)
        box = rng.randint(0, width - wide), rng.randint(0, height - high), wide, high
        return region.decode_and_crop(data, box, rng.choice(region.SCALES)).numpy().tobytes()
    except SampleError as error:
        return error.kind.encode()

def batched(data, rng):
    # the mutant in a batch, after a sound sample
    out = torch.zeros(2, 3, rng.randint(1, 40), rng.randint(1, 40), dtype=torch.uint8)
    try:
        width, height = region.image_size(data)
        wide, high = rng.randint(1, width), rng.randint(1, height)
        box = rng.randint(0, width - wide), rng.randint(0, height - high), wide, high
        resized.decode_batch([SOUND, resized.EncodedCrop(data, box, rng.random() < 0.5)], out, exact=rng.random() < 0.5)
        return out.numpy().tobytes()
    except SampleError as error:
        return error.kind.encode()

def run():
    digest, refused = hashlib.sha256(), 0
    for index in range(int(sys.argv[1])):
        make = region_jpegs.packed_mutant if index % 2 else region_jpegs.mutant
        data, rng = make(index), random.Random(index)
        result = tried(data, rng)
        refused += len(result) < 12 and result.isascii()
        digest.update(result)
        digest.update(batched(data, rng))
    return digest.hexdigest(), refused

first = run()
before = resident()
assert run() == first
json.dump({"digest": first[0], "refused": first[1], "grown": resident() - before}, sys.stdout)
"""


def run_mutants(count, perturb):
    environment = {**os.environ, "PYTHONPATH": str(HERE), "MALLOC_PERTURB_": str(perturb)}
    command = [sys.executable, "-c", MUTANTS, str(count)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "count", [pytest.param(300, marks=pytest.mark.slow), pytest.param(3000, marks=pytest.mark.long)]
)
def test_thousands_of_damaged_files_neither_crash_nor_leak_nor_show_old_memory(count):
    """Two processes whose fresh memory has other contents decode the same mutants to the same pixels and errors."""
    region.image_size(BYTES)  # built before both start
    children = [run_mutants(count, perturb) for perturb in (1, 254)]
    results = [json.loads(child.communicate(timeout=300)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert results[0]["digest"] == results[1]["digest"]
    assert count / 3 < results[0]["refused"] < count
    assert all(result["grown"] < 2_000_000 for result in results), results


def test_the_gil_is_released_and_threads_do_not_disturb_each_other():
    library = region._library()
    assert isinstance(library, ctypes.CDLL) and not isinstance(library, ctypes.PyDLL)  # PyDLL is what keeps the GIL
    files = [encode(kind, 255, 255, progressive) for kind in KINDS for progressive in (False, True)]
    expected = [whole(data) for data in files]
    wrong = []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(150):
            index = rng.randrange(len(files))
            box = any_box(rng, 255, 255)
            if not np.array_equal(region.decode_and_crop(files[index], box).numpy(), cut(expected[index], box)):
                wrong.append((index, box))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert wrong == []


class Crops(torch.utils.data.Dataset):
    def __init__(self):
        self.transform = transforms.RandomCropFromBytes(32)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        torch.manual_seed(index)
        return self.transform(BYTES)


def test_works_in_forked_workers():
    here = torch.stack([Crops()[index] for index in range(16)])
    loader = torch.utils.data.DataLoader(Crops(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    assert torch.equal(torch.cat(list(loader)), here)


def test_works_in_a_spawned_process():
    digest = hashlib.sha256(region.decode_and_crop(BYTES, BOX).numpy().tobytes()).hexdigest()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(digest_elsewhere, (BYTES, BOX)) == digest


def digest_elsewhere(data, box):
    return hashlib.sha256(region.decode_and_crop(data, box).numpy().tobytes()).hexdigest()


def test_importing_it_and_reading_a_header_leave_torch_alone():
    code = (
        "import sys; from pipebench.native import region; region.image_size(sys.stdin.buffer.read()); "
        "assert not {'torch', 'numpy', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], input=BYTES, check=True)
