"""Crops by restart markers: the same pixels as without, only where the markers are sound."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
import region_jpegs
from in_memory import encoded
from PIL import Image
from region_jpegs import KINDS, encode, marker_places
from test_region import any_box, cut, whole

from pipebench.errors import SampleError
from pipebench.native import packing, region

PACKED = packing.pack(encode("4:2:0", 512, 300), 64)
LOW = (200, 200, 90, 60)  # a box with much above and beside it


def border_boxes(width, height):
    """Boxes that touch each border and corner, or end one to seventeen pixels before it, of several sizes."""
    for wide in {1, 2, 17, width // 2, width - 1, width}:
        for high in {1, 3, 16, height}:
            for left in {0, 1, 15, 16, width - wide - 1, width - wide}:
                for top in {0, 1, 16, height - high}:
                    if 0 <= left <= width - wide and 0 <= top <= height - high and wide:
                        yield left, top, wide, high


def check_exact(data, boxes, scales=region.SCALES):
    for scale in scales:
        expected = whole(data, scale)
        for box in boxes:
            out = region.decode_and_crop(data, box, scale).numpy()
            assert np.array_equal(out, cut(expected, box, scale)), (box, scale)


def check_streams(data, boxes):
    expected = whole(data)
    for box in boxes:
        stream, within = region.crop_stream(data, box)
        assert within[2:] == box[2:]
        assert np.array_equal(cut(whole(stream), within), cut(expected, box)), box


def packed_at_random(rng, kind):
    width, height = rng.choice((33, 64, 101, 250, 300, 512)), rng.choice((17, 64, 255, 400))
    data = encode(kind, width, height, False, rng.choice((30, 75, 95)), at=rng.randrange(513 - max(width, height)))
    return packing.pack(data, rng.choice((16, 32, 64, 128))), width, height


@pytest.mark.parametrize("kind", KINDS)
def test_same_pixels_as_pillow_at_every_scale(kind):
    rng = random.Random(kind)
    for _ in range(8):
        data, width, height = packed_at_random(rng, kind)
        boxes = [any_box(rng, width, height) for _ in range(12)]
        check_exact(data, boxes)
        check_streams(data, boxes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "height"), [(128, 40), (101, 33), (49, 65)])
def test_boxes_at_every_border(kind, width, height):
    data = packing.pack(encode(kind, width, height), 16)
    boxes = list(border_boxes(width, height))
    check_exact(data, boxes)
    check_streams(data, boxes)


@pytest.mark.long
def test_same_pixels_as_pillow_at_length():
    rng = random.Random(1)
    for _ in range(1500):
        data, width, height = packed_at_random(rng, rng.choice(KINDS))
        boxes = [any_box(rng, width, height) for _ in range(12)]
        check_exact(data, boxes)
        check_streams(data, boxes)


@pytest.mark.parametrize(("luma", "chroma"), [(0x42, 0x11), (0x24, 0x11), (0x41, 0x21), (0x14, 0x12)])
def test_unusual_sampling_factors_are_exact_too(luma, chroma):
    data = packing.pack(region_jpegs.resampled(luma, chroma), 8)
    boxes = [(37, 18, 30, 20), (0, 0, 20, 9), (90, 60, 7, 4), (40, 0, 1, 1), (60, 50, 9, 14)]
    check_exact(data, boxes)
    check_streams(data, boxes)


@pytest.mark.parametrize("interval", [1, 4, 8, 16, 32, 64, 96])
def test_an_interval_that_divides_the_row_or_is_whole_rows_is_used(interval):
    data = encode("4:2:0", 512, 300, restart=interval)  # 32 MCUs in a row
    stream, _ = region.crop_stream(data, LOW)
    assert len(stream) < len(data)
    check_exact(data, [LOW, (0, 0, 60, 60), (450, 250, 62, 50)])


@pytest.mark.parametrize("interval", [0, 3, 7, 33, 48])
def test_another_interval_is_left_alone(interval):
    data = encode("4:2:0", 512, 300, restart=interval)
    assert region.crop_stream(data, LOW) == (data, LOW)
    check_exact(data, [LOW])


def test_what_is_not_touched_is_not_read():
    """The bits beside and above the box are damaged: without markers that is an error."""
    for row, column in ((2, 1), (14, 0), (14, 7)):
        begin = marker_places(PACKED)[8 * row + column] + 4  # 8 stretches in a row
        damaged = PACKED[:begin] + b"\x00" * 10 + PACKED[begin + 10 :]
        assert np.array_equal(region.decode_and_crop(damaged, LOW).numpy(), cut(whole(PACKED), LOW))
        check_streams(damaged, [LOW])


def test_a_stream_is_small_and_keeps_only_what_decides_pixels():
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    data = encoded(region_jpegs.picture(), exif=exif, icc_profile=b"profile" * 99, comment=b"comment")
    stream, box = region.crop_stream(packing.pack(data, 64), LOW)
    assert len(stream) < len(data) / 4
    small = Image.open(io.BytesIO(stream))
    assert (small.size, box) == ((128, 80), (8, 8, 90, 60))  # columns 192 to 319, rows 192 to 271
    assert not small.getexif() and "icc_profile" not in small.info and "comment" not in small.info


def test_a_file_without_markers_is_its_own_stream():
    for data in (encode("4:2:0", 101, 64), encode("4:2:0", 101, 64, progressive=True)):
        assert region.crop_stream(bytearray(data), (30, 20, 33, 17)) == (data, (30, 20, 33, 17))


def test_a_stream_of_what_cannot_be_used_is_an_error():
    with pytest.raises(ValueError, match="outside the image of 512 × 300 pixels"):
        region.crop_stream(PACKED, (500, 0, 13, 5))
    with pytest.raises(ValueError, match="is empty"):
        region.crop_stream(PACKED, (0, 0, 0, 5))
    with pytest.raises(SampleError, match="Not a JPEG"):
        region.crop_stream(b"not a picture", LOW)


def last_word(data, box):
    """The pixels that Pillow shows of a damaged file; None where it refuses it."""
    try:
        image = Image.open(io.BytesIO(data))
        return cut(np.asarray(image.convert("RGB")), box)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None


@pytest.mark.parametrize("count", [1500, pytest.param(12_000, marks=pytest.mark.long)])
def test_damage_never_shows_other_pixels_than_pillows(count):
    """Where both show pixels, they are the same. Where Pillow refuses, ours may have met no damage."""
    shown = compared = 0
    for index in range(count):
        data, rng = region_jpegs.packed_mutant(index), random.Random(index)
        try:
            width, height = region.image_size(data)
            if width * height > 1_000_000:
                continue
            box = any_box(rng, width, height)
            out = region.decode_and_crop(data, box).numpy()
        except SampleError:
            continue
        shown += 1
        expected = last_word(data, box)
        if expected is not None:
            compared += 1
            assert np.array_equal(out, expected), (index, box)
    assert shown > count / 4 and compared > count / 8
