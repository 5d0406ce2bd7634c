"""A folder of images with one of everything that `pipebench check` finds, made here."""

import in_memory
import numpy as np
from PIL import Image

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)
PHOTOGRAPH = Image.fromarray(PIXELS).resize((96, 64), Image.Resampling.BICUBIC)


def encoded(format="JPEG", image=PHOTOGRAPH, **options):
    return in_memory.encoded(image, format, **options)


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(quality=95, exif=exif)


JPEG, PNG = encoded(quality=95), encoded("PNG")


def extraneous(data):
    """The same JPEG with bytes that belong to nothing before its end: Pillow skips them without a word."""
    return data[:-2] + b"\x00" * 12 + b"\xff\xd9"


def made_up(data):
    """A JPEG with restart markers, of whose stretches one was overwritten: libjpeg makes up the pixels."""
    at = data.index(b"\xff\xd1")
    return data[: at - 30] + b"\x55" * 30 + data[at:]


def deep():
    pixels = np.arange(64 * 96, dtype=np.uint16).reshape(64, 96)
    return encoded("PNG", Image.fromarray(pixels))


FILES = {
    "good.jpg": JPEG,
    "good.png": PNG,
    "cut.jpg": JPEG[: len(JPEG) // 2],
    "empty.jpg": b"",
    "page.jpg": b"<!DOCTYPE html><title>404</title>",
    "pointer.jpg": b"version https://git-lfs.github.com/spec/v1\n",
    "png.jpg": PNG,
    "extraneous.jpg": extraneous(JPEG),
    "made_up.jpg": made_up(encoded(quality=95, restart_marker_blocks=4)),
    "upside_down.jpg": turned(3),
    "side.jpg": turned(6),
    "cmyk.jpg": encoded(image=PHOTOGRAPH.convert("CMYK")),
    "deep.png": deep(),
    "grey.jpg": encoded(image=PHOTOGRAPH.convert("L")),
    "palette.png": encoded("PNG", PHOTOGRAPH.convert("P")),
    "clear.png": encoded("PNG", PHOTOGRAPH.convert("RGBA")),
    "moving.webp": encoded("WEBP", save_all=True, append_images=[PHOTOGRAPH.transpose(0)]),
}


def write(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(folder)
