"""JPEGs of every kind, and damaged ones: `python tests/native/region_jpegs.py FOLDER COUNT` writes mutants to files."""

from __future__ import annotations

import functools
import io
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from pipebench.native import packing

ImageFile.MAXBLOCK = 1 << 22  # what Pillow's encoder has room for, which progressive RGB at high quality overruns

SUBSAMPLED = ("4:2:0", "4:2:2", "4:4:4", "4:4:0", "4:1:1")
KINDS = (*SUBSAMPLED, "grey", "rgb")
SIDES = (1, 2, 5, 8, 15, 16, 17, 33, 64, 101, 255)


@functools.cache
def picture() -> Any:
    """512 by 512 pixels with detail of every size in all channels."""
    rng = np.random.default_rng(0)
    total = np.zeros((512, 512, 3), np.float32)
    for side in (4, 16, 64, 256, 512):
        noise = rng.integers(0, 256, (side, side, 3), np.uint8)
        total += np.asarray(Image.fromarray(noise).resize((512, 512), Image.Resampling.BICUBIC), np.float32) - 128
    return np.clip(128 + total / 2, 0, 255).astype(np.uint8)


def encode(
    kind: str, width: int, height: int, progressive: bool = False, quality: int = 90, restart: int = 0, at: int = 0
) -> bytes:
    """A JPEG of that kind of a part of `picture`; `restart` is the number of MCUs between restart markers."""
    pixels = np.ascontiguousarray(picture()[at : at + height, at : at + width])
    if kind in SUBSAMPLED:
        import cv2

        factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{kind.replace(':', '')}")
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
        options += [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive), cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
        return bytes(cv2.imencode(".jpg", pixels, options)[1])
    image = Image.fromarray(pixels).convert("L" if kind == "grey" else "CMYK" if kind == "cmyk" else "RGB")
    file = io.BytesIO()
    image.save(
        file, "JPEG", quality=quality, progressive=progressive, restart_marker_blocks=restart, keep_rgb=kind == "rgb"
    )
    return file.getvalue()


def frame(data: bytes) -> int:
    """Where the SOF segment's contents begin: precision, height, width, number of components, components."""
    at = 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return at + 4


def edited(data: bytes, offset: int, new: bytes) -> bytes:
    """`data` with `new` written over what is `offset` bytes into its frame header (-3 is the marker's second byte)."""
    at = frame(data) + offset
    return data[:at] + new + data[at + len(new) :]


def scans(data: bytes) -> list[int]:
    """Where each SOS marker begins."""
    found, at = [], 2
    while at < len(data) - 1:
        if data[at] != 0xFF or data[at + 1] in (0x00, 0xFF) or 0xD0 <= data[at + 1] <= 0xD7:
            at += 1
            continue
        if data[at + 1] == 0xD9:
            break
        if data[at + 1] == 0xDA:
            found.append(at)
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return found


def resampled(luma: int, chroma: int) -> bytes:
    """97 by 64 pixels with any sampling factors (0x42 is 4 across, 2 down); what they show is noise.

    All blocks of an RGB file share one Huffman table, so that those of a larger one can be dealt out anew.
    """
    data = edited(encode("rgb", 128, 128), 1, b"\x00\x40\x00\x61")
    for offset, factors in ((7, luma), (10, chroma), (13, chroma)):
        data = edited(data, offset, bytes([factors]))
    return data


@functools.cache
def originals() -> tuple[bytes, ...]:
    """Sound files, small so that thousands of mutants take seconds."""
    unusual = (resampled(luma, chroma) for luma in (0x42, 0x24, 0x41, 0x14) for chroma in (0x11, 0x21, 0x12))
    usual = (
        encode(kind, width, height, progressive, quality=75, restart=restart)
        for kind in (*KINDS, "cmyk")
        for width, height, restart in ((96, 64, 0), (61, 83, 4))
        for progressive in (False, True)
    )
    return (*usual, *unusual, *packed())


@functools.cache
def packed() -> tuple[bytes, ...]:
    """Sound files with a restart marker every 16 to 64 pixels of a row."""
    return tuple(
        packing.pack(encode(kind, width, height, quality=75), segment)
        for kind in KINDS
        for width, height, segment in ((128, 72, 16), (192, 61, 32), (250, 49, 64))
    )


def mutant(index: int) -> bytes:
    """Damaged file number `index`: the same on every call and every machine."""
    rng = random.Random(f"mutant {index}")
    data = bytearray(rng.choice(originals()))
    rng.choice((*_DAMAGES, _repeat_scan))(rng, data)
    return bytes(data)


def packed_mutant(index: int) -> bytes:
    """Damaged file number `index` of those with markers. Half of the damage is to the markers themselves."""
    rng = random.Random(f"packed mutant {index}")
    data = bytearray(rng.choice(packed()))
    rng.choice((*_DAMAGES, *(6 * [_damage_markers])))(rng, data)
    return bytes(data)


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _flip_header(rng: random.Random, data: bytearray) -> None:
    end = scans(bytes(data))[0] + 14
    for _ in range(rng.choice((1, 1, 2, 5))):
        data[rng.randrange(2, end)] ^= 1 << rng.randrange(8)


def _truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]
    if rng.random() < 0.3:
        data += b"\xff\xd9"


def _overwrite_frame(rng: random.Random, data: bytearray) -> None:
    begin = frame(bytes(data))
    for _ in range(rng.choice((1, 2, 3))):
        data[begin + rng.randrange(-3, 15)] = rng.choice(
            (0, 1, 2, 3, 4, 8, 0x11, 0x12, 0x21, 0x22, 0x41, 0x14, 0x44, 255)
        )


def _splice(rng: random.Random, data: bytearray) -> None:
    other = rng.choice(originals())
    data[rng.randrange(len(data)) :] = other[rng.randrange(len(other)) :]


def _erase(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(2, len(data))
    del data[at : at + rng.choice((1, 2, 7, 100))]


def _insert(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(2, len(data))
    data[at:at] = rng.choice((b"\xff\xd9", b"\xff\xda", b"\xff\xd3", b"\xff\xc4\x00\x02", rng.randbytes(20)))


def _repeat_scan(rng: random.Random, data: bytearray) -> None:
    at = rng.choice(scans(bytes(data)))
    data[at:at] = bytes(data[at:]) * rng.choice((1, 2, 40))


def marker_places(data: bytes) -> list[int]:
    """Where each restart marker begins."""
    first = scans(data)[0]
    return [at for at in range(first, len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]


def _damage_markers(rng: random.Random, data: bytearray) -> None:
    """Renumbers, removes, doubles or exchanges markers, moves a stretch, or lets the header state another interval."""
    places = marker_places(bytes(data))
    if len(places) < 2:
        return
    one, other = sorted(rng.sample(places, 2))
    interval = bytes(data).index(b"\xff\xdd") + 4
    begin, end, new = rng.choice((
        (one + 1, one + 2, bytes([rng.choice((*range(0xD0, 0xDA), 0x00, 0x01, 0xFF))])),
        (one, one + 2, b""),
        (one, one, data[one : one + 2]),
        (one, other + 2, data[other : other + 2] + data[one + 2 : other] + data[one : one + 2]),
        (one, other, b""),
        (one, one, data[one:other]),
        (other, other, bytes([0xFF, 0xD0 + rng.randrange(8)])),
        (interval, interval + 2, rng.choice((0, 1, 2, 3, 4, 8, 16, 1000)).to_bytes(2, "big")),
    ))  # fmt: skip
    data[begin:end] = new


_DAMAGES = (_flip, _flip_header, _truncate, _overwrite_frame, _splice, _erase, _insert)


def main(folder: str, count: str) -> None:
    for index, data in enumerate(originals()):
        Path(folder, f"sound-{index:05}.jpg").write_bytes(data)
    for index in range(int(count)):
        data = packed_mutant(index) if index % 2 else mutant(index)
        Path(folder, f"mutant-{index:05}.jpg").write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
