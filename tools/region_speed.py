"""How much faster decode-and-crop is than the usual code: python tools/region_speed.py [photos] [web].

Each row compares two ways to make the same crops of the same boxes, measured alternately on one thread. The figure is
the speed-up of decode-and-crop with a 95 % interval (see `pipebench.stats.compare`). Entropy decoding sets a lower
bound on the time of decode-and-crop. The last column is its share. It is measured as the decode of a box of one pixel
at the same bottom right corner: everything above it must still be entropy-decoded, but almost nothing is reconstructed.

The rows "packed" give decode-and-crop the same images after `pipebench.native.packing.pack`; Pillow gets them as they
were. There the last column is a decode of the same box at an eighth of its size: it reads the same stretches, but
reconstructs almost nothing.
"""

from __future__ import annotations

import argparse
import functools
import io
import random
import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import PIL
import torch
from PIL import Image
from torchvision.transforms.functional import crop, pil_to_tensor
from torchvision.transforms.v2 import RandomResizedCrop

from pipebench import stats
from pipebench.data import synthetic
from pipebench.native import packing, region
from pipebench.native.resized import decode_and_resize

DATASETS = Path(__file__).parent.parent / "datasets"
Box = tuple[int, int, int, int]
Way = Callable[[bytes, Box], object]
Clock = Callable[[], float]
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75)  # of the image, that a crop keeps
RESIZE: Way = functools.partial(decode_and_resize, size=(224, 224))


@dataclass(frozen=True)
class Work:
    """An image, its packed copy, and a box."""

    data: bytes
    packed: bytes
    box: Box


def images(name: str, count: int) -> list[bytes]:
    """The first images of one of the embedded datasets, as JPEG."""
    with open(DATASETS / f"{name}.toml", "rb") as file:
        manifest = tomllib.load(file)
    make = synthetic.maker(synthetic.read_recipe(manifest, DATASETS / "photographs"))
    return [make(index).members["jpg"] for index in range(count)]


def fixed_box(rng: random.Random, width: int, height: int) -> Box:
    return rng.randint(0, width - 256), rng.randint(0, height - 256), 256, 256


def resized_box(rng: random.Random, width: int, height: int) -> Box:
    torch.manual_seed(rng.getrandbits(32))
    drawn = RandomResizedCrop(224).make_params([torch.empty(1).expand(3, height, width)])
    return drawn["left"], drawn["top"], drawn["width"], drawn["height"]


def tensor_first(data: bytes, box: Box) -> object:
    left, top, width, height = box
    return crop(pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB")), top, left, height, width)


def pil_crop(data: bytes, box: Box) -> object:
    left, top, width, height = box
    image = Image.open(io.BytesIO(data)).convert("RGB")
    return pil_to_tensor(
        image.resize((224, 224), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    )


def corner(data: bytes, box: Box) -> object:
    return region.decode_and_crop(data, (box[0] + box[2] - 1, box[1] + box[3] - 1, 1, 1))


def eighth(data: bytes, box: Box) -> object:
    return region.decode_and_crop(data, box, 8)


def elapsed_s(way: Way, work: Sequence[tuple[bytes, Box]], clock: Clock) -> float:
    begin = clock()
    for data, box in work:
        way(data, box)
    return clock() - begin


def row(
    title: str, theirs: Way, ours: Way, work: Sequence[Work], rounds: int, clock: Clock, packed: bool = False
) -> str:
    """One line: `theirs` on the images as they were, beside `ours` on them or on their packed copies."""
    given = [(one.packed if packed else one.data, one.box) for one in work]
    turns = [(theirs, [(one.data, one.box) for one in work]), (ours, given), (eighth if packed else corner, given)]
    readings: list[list[float]] = [[] for _ in turns]
    for way, on in turns:
        elapsed_s(way, on, clock)
    for index in range(rounds):
        for which in range(len(turns)) if index % 2 else reversed(range(len(turns))):
            readings[which].append(elapsed_s(*turns[which], clock))
    found = stats.compare(readings[1], readings[0])
    each = [1e3 * statistics.median(one) / len(work) for one in readings]
    share = stats.compare(readings[1], readings[2]).speedup  # the time of the cheapest call as a share of our time
    return (
        f"{title:<42} {each[0]:7.3f} {each[1]:7.3f}   {found.speedup:5.2f}x ({found.low:.2f} to {found.high:.2f})"
        f"   {each[0] / each[1]:5.2f}x {100 * share:8.0f} %\n"
    )


def packed_copies(encoded: Sequence[bytes]) -> list[bytes]:
    """The images with markers. Says how much they grew, how fast that was, and how fast their bits can be read."""
    packing.keep_memory()
    packed = [packing.pack(data) for data in encoded]
    sizes = [region.image_size(data) for data in encoded]
    pack_s, read_s = [], []
    for _ in range(5):
        begin = time.thread_time()
        for data in encoded:
            packing.pack(data)
        middle = time.thread_time()
        for data, (width, height) in zip(encoded, sizes, strict=True):
            region.decode_and_crop(data, (0, 0, width, height), 8)
        pack_s.append(middle - begin)
        read_s.append(time.thread_time() - middle)
    before, after = sum(map(len, encoded)), sum(map(len, packed))
    sys.stdout.write(
        f"packed at {1e-6 * before / min(pack_s):.1f} MB/s of CPU time, grown by {100 * (after / before - 1):.2f} %; "
        f"libjpeg alone reads them at {1e-6 * before / min(read_s):.1f} MB/s (decoded at an eighth)\n"
    )
    return packed


def resized(encoded: Sequence[bytes], width: int, height: int) -> list[bytes]:
    """The images at another size, as JPEG of quality 90."""
    found = []
    for data in encoded:
        file = io.BytesIO()
        Image.open(io.BytesIO(data)).resize((width, height)).save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    return found


def break_even(encoded: Sequence[bytes], width: int, height: int, rounds: int, clock: Clock) -> str:
    """What packing gains on images of that size, by the share of the image that a crop keeps: the same call before."""
    small = resized(encoded, width, height)
    packed, rng, text = packed_copies(small), random.Random(0), ""
    ways: list[tuple[str, Way, list[Box]]] = []
    for share in SHARES:
        wide, high = round(width * share**0.5), round(height * share**0.5)
        boxes = [(rng.randint(0, width - wide), rng.randint(0, height - high), wide, high) for _ in small]
        ways.append((f"a crop of {100 * share:.0f} % ({wide}×{high})", region.decode_and_crop, boxes))
    ways.append(("224 random resized crop", RESIZE, [resized_box(rng, width, height) for _ in small]))
    for title, way, boxes in ways:
        work = [Work(*each) for each in zip(small, packed, boxes, strict=True)]
        text += row(f"{width}×{height}: {title}", way, way, work, rounds, clock, packed=True)
    return text


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=["photos", "web"], help="embedded datasets: photos, web")
    parser.add_argument("--rounds", type=int, default=40, help="readings of each way (default 40)")
    parser.add_argument("--images", type=int, default=32, help="images of each dataset (default 32)")
    parser.add_argument("--size", action="append", help="instead, the gain by packing at a size such as 500x375")
    parser.add_argument("--cpu", action="store_true", help="CPU time of this thread, for a machine with other work")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sys.stdout.write(f"{region.library_name()}, Pillow {PIL.__version__}, torch {torch.__version__}, one thread\n")
    clock = time.thread_time if options.cpu else time.perf_counter
    for name in options.datasets:
        encoded = images(name, options.images)
        for size in options.size or ():
            wide, high = map(int, size.split("x"))
            sys.stdout.write(f"\n{name}, before and after packing\n")
            sys.stdout.write(break_even(encoded, wide, high, options.rounds, clock))
            sys.stdout.flush()
        if options.size:
            continue
        sizes = [Image.open(io.BytesIO(data)).size for data in encoded]
        bits = 8 * sum(map(len, encoded)) / sum(width * height for width, height in sizes)
        sys.stdout.write(f"\n{name}: {len(encoded)} images, {bits:.2f} bits a pixel\n")
        rng = random.Random(0)
        packed = packed_copies(encoded)
        sys.stdout.write(f"{'ms an image':<42} {'theirs':>7} {'ours':>7}   faster (minima)         medians  entropy\n")
        for title, theirs, ours, draw in (
            ("256 crop, beside tensor-first", tensor_first, region.decode_and_crop, fixed_box),
            ("224 resized crop, beside pil-crop", pil_crop, RESIZE, resized_box),
        ):
            pairs = zip(encoded, packed, sizes, strict=True)
            work = [Work(data, copy, draw(rng, *size)) for data, copy, size in pairs]
            sys.stdout.write(row(title, theirs, ours, work, options.rounds, clock))
            sys.stdout.write(row(f"packed, {title}", theirs, ours, work, options.rounds, clock, packed=True))
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
