"""Packing: the same coefficients with markers at the right places, everything else kept, and clear refusals."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
import region_jpegs
from in_memory import encoded
from PIL import Image
from region_jpegs import KINDS, edited, encode, frame, marker_places
from test_region import whole

from pipebench.data import datasets
from pipebench.errors import SampleError
from pipebench.native import packing


def interval(data):
    """The restart interval that the header states, in MCUs."""
    at = data.index(b"\xff\xdd\x00\x04")
    return int.from_bytes(data[at + 4 : at + 6], "big")


@pytest.mark.parametrize("keep_tables", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_pixel_changes(kind, keep_tables):
    rng = random.Random(kind)
    for side in region_jpegs.SIDES:
        data = encode(kind, side, rng.choice(region_jpegs.SIDES), quality=rng.choice((20, 75, 95)))
        packed = packing.pack(data, 16, keep_tables)
        assert np.array_equal(whole(packed), whole(data))
        assert packing.pack(packed, 16, keep_tables) == packed


@pytest.mark.parametrize(
    ("width", "segment", "mcus"),
    [
        (1600, 128, 10),  # 100 MCUs of 16 pixels: 10 is nearer to 8 than 5, by the ratio
        (800, 128, 10),
        (500, 128, 8),
        (512, 64, 4),
        (912, 128, 19),  # 57 MCUs: 3 and 19
        (848, 128, 53),  # a prime number of MCUs: the whole row
        (16, 128, 1),
        (1600, 5000, 100),
    ],
)
def test_the_interval_is_the_nearest_useful_divisor(width, segment, mcus):
    packed = packing.pack(encoded(np.zeros((40, width, 3), np.uint8), subsampling="4:2:0"), segment)
    row = -(-width // 16)
    assert interval(packed) == mcus
    assert len(marker_places(packed)) == 3 * row // mcus - 1


@pytest.mark.parametrize("quality", [20, 90, 98])
@pytest.mark.parametrize(("mode", "subsampling"), [("RGB", "4:2:0"), ("RGB", "4:4:4"), ("L", "4:4:4")])
def test_a_packed_file_is_what_libjpeg_writes_of_these_coefficients(mode, subsampling, quality):
    """Pillow encodes twice: the usual way, and with optimised tables and as many markers as packing chose."""

    image = Image.fromarray(region_jpegs.picture()[:200, :500]).convert(mode)
    how = {"quality": quality, "subsampling": subsampling}
    packed = packing.pack(encoded(image, **how), 64)
    assert packed == encoded(image, **how, optimize=True, restart_marker_blocks=interval(packed))


def test_markers_of_the_source_are_replaced():
    plain = packing.pack(encode("4:2:0", 250, 101), 32)
    assert packing.pack(encode("4:2:0", 250, 101, restart=5), 32) == plain


def test_an_unusual_header_is_read_by_libjpeg_which_writes_the_same():
    data = encode("4:2:0", 250, 101)
    at = data.index(b"\xff\xdb")
    assert packing.pack(data[:at] + b"\xff" + data[at:], 32) == packing.pack(data, 32)


def test_segments_keep_their_order():
    """libjpeg would write the comment first. So this also shows that a usual file is not written by libjpeg."""
    data = encode("4:2:0", 250, 101)
    at = data.index(b"\xff\xda")
    packed = packing.pack(data[:at] + b"\xff\xfe\x00\x06last" + data[at:], 32)
    assert packed.index(b"\xff\xdb") < packed.index(b"last") < packed.index(b"\xff\xda")
    assert packed.replace(b"\xff\xfe\x00\x06last", b"") == packing.pack(data, 32)


def test_everything_else_is_kept():
    exif = Image.Exif()
    exif[0x010E] = "described"
    kept = {"exif": exif, "icc_profile": bytes(100_000), "comment": b"a comment", "dpi": (72, 72)}
    film = b"what a phone stores behind a picture" * 9
    data = encoded(region_jpegs.picture(), **kept) + film
    packed = packing.pack(data)
    before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(packed))
    assert packed.endswith(b"\xff\xd9" + film)
    assert after.info == before.info and after.getexif()[0x010E] == "described"
    assert after.applist == before.applist and after.quantization == before.quantization


def pictures(data):
    """The pixels of every picture of an MPO."""
    with Image.open(io.BytesIO(data)) as file:
        assert file.format == "MPO"
        return [(file.seek(index), file.tobytes())[1] for index in range(file.n_frames)]


@pytest.mark.parametrize("ours", [True, False])
def test_pictures_behind_the_first_are_found(ours):
    others = [Image.fromarray(region_jpegs.picture()[at:, at:]) for at in (0, 100, 333)]
    data = encoded(others[0], "MPO", save_all=True, append_images=others[1:], quality=90)
    data = data if ours else data[:2] + b"\xff" + data[2:]  # libjpeg writes it
    packed = packing.pack(data)
    assert len(packed) != len(data) and len(pictures(packed)) == 3
    assert pictures(packed) == [image.tobytes() for image in map(reopened, others)]
    assert packing.pack(packed) == packed


def reopened(image):
    return Image.open(io.BytesIO(encoded(image, quality=90)))


@pytest.mark.parametrize("cut", range(0, 90, 7))
def test_an_index_of_pictures_that_makes_no_sense_is_kept(cut):
    data = encode("4:2:0", 101, 64)
    index = b"MPF\0" + bytes.fromhex("4d4d002a00000008000300000007000000043031303001b002000700000fff00000020")[:cut]
    segment = b"\xff\xe2" + (2 + len(index)).to_bytes(2, "big") + index
    assert segment in packing.pack(data[:2] + segment + data[2:])


def test_nothing_is_added_to_a_file_without_jfif():
    data = encode("4:2:0", 101, 64)
    length = 2 + int.from_bytes(data[4:6], "big")
    bare = data[:2] + data[2 + length :]
    assert b"JFIF" in data and b"JFIF" not in packing.pack(bare)
    assert b"Adobe" not in packing.pack(encode("rgb", 64, 64)) or b"Adobe" in encode("rgb", 64, 64)


def tables(data):
    """The Huffman tables of a file, in order."""
    found, at = [], 2
    while data[at + 1] != 0xDA:
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] == 0xC4:
            found.append(data[at + 4 : at + 2 + length])
        at += 2 + length
    return b"".join(found)


def test_tables_are_optimised_or_kept():
    data = encode("4:2:0", 512, 512)
    kept, optimised = packing.pack(data, keep_tables=True), packing.pack(data)
    assert sorted(tables(kept)) == sorted(tables(data)) and tables(optimised) != tables(data)
    assert len(optimised) < len(data) < len(kept) < 1.03 * len(data)


def test_tables_without_the_codes_that_markers_need_are_refused():
    """One coefficient in all: its optimised table has no code for the value that follows a marker."""
    with pytest.raises(SampleError, match="Huffman tables have no code") as caught:
        packing.pack(packing_drift(), 16, keep_tables=True)
    assert caught.value.kind == "unsupported"
    assert np.array_equal(whole(packing.pack(packing_drift(), 16)), whole(packing_drift()))


def packing_drift():
    """A ramp: only its first block has a large DC difference, so a table made for it has few codes."""
    ramp = np.repeat(np.linspace(0, 255, 64).astype(np.uint8)[None, :].repeat(8, 0), 8, axis=1)
    return encoded(ramp, optimize=True, quality=95)


SOUND = encode("4:2:0", 101, 64)
REFUSED = {
    "progressive": (encode("4:2:0", 101, 64, progressive=True), "unsupported", "progressive"),
    "CMYK": (encode("cmyk", 101, 64), "unsupported", "CMYK"),
    "arithmetic": (edited(SOUND, -3, b"\xc9"), "unsupported", "arithmetic"),
    "12 bits": (edited(SOUND, 0, b"\x0c"), "unsupported", "precision 12|12 bits"),
    "nothing": (b"", "empty", "no bytes"),
    "bytes before a marker": (SOUND[:2] + b"\xef" + SOUND[3:], "not-jpeg", "Not a JPEG file"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "not-jpeg", "Not a JPEG file"),
    "truncated": (SOUND[:-100], "truncated", "end"),
    "no end": (SOUND[:-2], "truncated", "end"),
    "a claim": (edited(SOUND, 1, b"\x27\x10\x3e\x80"), "truncated", "cannot hold"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_packed_is_an_error_that_names_the_cause(name):
    data, kind, words = REFUSED[name]
    with pytest.raises(SampleError, match=words) as caught:
        packing.pack(data)
    assert caught.value.kind == kind


CODE_OF_ONES = (3159, 6422)  # mutants whose tables have such a code, which libjpeg refuses


@pytest.mark.parametrize("count", [800, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_mutant_is_refused_or_keeps_its_pixels(count):
    packed = 0
    for index in (*CODE_OF_ONES, *range(count)):
        data = region_jpegs.mutant(index)
        try:
            out = packing.pack(data, 16)
        except SampleError:
            continue
        packed += 1
        assert np.array_equal(whole(out), whole(data)), index
    assert packed > count / 20


def test_frame_and_size_stay():
    assert packing.pack(SOUND)[frame(packing.pack(SOUND)) :][:15] == SOUND[frame(SOUND) :][:15]


@pytest.mark.long
@pytest.mark.parametrize("name", ["photos", "web", "synthetic", "tiny"])
def test_no_pixel_of_the_embedded_sets_changes_and_they_stay_as_large(name):
    listed = [sample.read() for sample in datasets.load(name).samples]
    packed = [packing.pack(data) for data in listed]
    for before, after in zip(listed, packed, strict=True):
        assert np.array_equal(whole(after), whole(before))
    assert sum(map(len, packed)) < 1.001 * sum(map(len, listed))
