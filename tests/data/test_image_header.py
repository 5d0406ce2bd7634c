"""What an image's header says: the size, or that it is no image, with nothing decoded and no program started."""

import struct
import warnings
import zlib

import pytest
from in_memory import encoded_image
from PIL import Image, UnidentifiedImageError, features

from pipebench import stage
from pipebench.data.image_header import FORMATS, MAX_PIXELS, image_size
from pipebench.errors import SampleError
from pipebench.stages.crop import Cut
from pipebench.task import Workload

JPEG = encoded_image("JPEG", (16, 8))


def png_header(width, height):
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return start + struct.pack(">I", 100) + b"IDAT" + bytes(10)


def jpeg_header(width, height):
    data = bytearray(JPEG)
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.parametrize("format", FORMATS)
def test_the_size_is_read_from_the_header(format):
    if not features.check({"AVIF": "avif", "JPEG2000": "jpg_2000"}.get(format, "pil")):
        pytest.skip(f"this Pillow was built without {format}")
    assert image_size(encoded_image(format, (31, 17))) == (31, 17)


@pytest.mark.parametrize("format", ["EPS", "PCX", "SGI", "TGA"])
def test_other_formats_never_reach_pillow_whatever_the_file_is_called(format, tmp_path):
    """EPS is the one that matters: Pillow would start Ghostscript on it."""
    data = encoded_image(format, (31, 17))
    with pytest.raises(SampleError) as caught:
        image_size(data)
    assert caught.value.kind == "not-an-image"
    for name in (
        "decode/rgb/pillow",
        "decode/rgb/pillow-draft",
        "crop/fixed-256/pil-crop",
        "crop/resized-224/draft-crop",
    ):
        _, variant = stage.find(name)
        with pytest.raises(UnidentifiedImageError):  # were the header ever passed
            variant.build(Workload())(Cut(data, 31, 17, (0, 0, 16, 16), 16))


def test_what_is_no_image_is_said_so():
    for data, kind in {b"": "empty", b"not an image" * 100: "not-an-image", JPEG[:20]: "not-an-image"}.items():
        with pytest.raises(SampleError) as caught:
            image_size(data)
        assert caught.value.kind == kind


@pytest.mark.parametrize("header_of", [png_header, jpeg_header])
def test_a_header_of_900_megapixels_is_refused_and_one_below_the_limit_is_not(header_of):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SampleError) as caught:
            image_size(header_of(30_000, 30_000))
        assert caught.value.kind == "too-large" and "30000×30000" in caught.value.message
        assert image_size(header_of(13_000, 13_000)) == (13_000, 13_000)
    assert MAX_PIXELS // 2 == Image.MAX_IMAGE_PIXELS
