"""What a decoder is made for, and how a picture at a smaller scale is held against the whole one."""

import io

import numpy as np
import pytest
from PIL import Image

from pipebench import stage
from pipebench.errors import SampleError
from pipebench.stages import decode
from pipebench.task import Workload

TASK, REDUCED = stage.find("decode/rgb/opencv-reduced")


def photograph(width, height, seed=0):
    """Soft shapes with sharp detail, as a photograph has them."""
    rng = np.random.default_rng(seed)
    soft = Image.fromarray(rng.integers(0, 256, (9, 11, 3), np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    detail = rng.normal(0, 12, (height, width, 1))
    return Image.fromarray(np.clip(np.asarray(soft) + detail, 0, 255).astype(np.uint8))


def encoded(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return decode.Encoded(out.getvalue(), *image.size)


@pytest.mark.parametrize("format", ["PNG", "WEBP", "JPEG", "BMP"])
@pytest.mark.parametrize("size", [(333, 501), (801, 533), (401, 300), (640, 427), (64, 48), (5, 3)])
def test_a_decode_at_half_scale_agrees_whatever_the_size_and_the_format(size, format):
    """libjpeg rounds an odd side up; a resize rounds it down and stretches the picture over the whole."""
    given = encoded(photograph(*size), format)
    expected, output = decode.pillow(Workload())(given), decode.opencv_reduced(Workload())(given)
    TASK.check(output, given)
    TASK.agree(output, expected, REDUCED)


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda image: image[:, :, ::-1],
        lambda image: np.roll(image, 3, axis=1),
        lambda image: image[::-1],
        lambda image: np.pad(image[8:-8, 8:-8], ((8, 8), (8, 8), (0, 0))),
    ],
    ids=["channels swapped", "moved", "upside down", "a black edge"],
)
def test_a_wrong_picture_at_half_scale_does_not_agree(spoil, format):
    given = encoded(photograph(333, 501), format)
    expected, output = decode.pillow(Workload())(given), decode.opencv_reduced(Workload())(given)
    with pytest.raises(SampleError):
        TASK.agree(np.ascontiguousarray(spoil(output)), expected, REDUCED)


def test_a_decoder_says_what_it_is_not_made_for():
    image = photograph(32, 24)
    only_jpeg, any_format = decode.made_for("JPEG"), decode.made_for()
    assert only_jpeg(encoded(image, "JPEG")) is None and any_format(encoded(image, "PNG")) is None
    assert only_jpeg(encoded(image, "PNG")) == "it is PNG"
    for unlike, what in ((image.convert("CMYK"), "CMYK"), (Image.fromarray(np.ones((4, 4), np.uint16)), "I;16")):
        format = "JPEG" if what == "CMYK" else "PNG"
        assert any_format(encoded(unlike, format)) == f"it is {what}"
    moving = encoded(image, "WEBP", save_all=True, append_images=[photograph(32, 24, 1)])
    assert any_format(moving) == "it is animated"
    for plain in ("L", "P", "RGBA", "1", "LA"):
        assert any_format(encoded(image.convert(plain), "PNG")) is None


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "L"])
def test_a_draft_is_made_for_every_jpeg_and_for_nothing_else(mode):
    """Found with PNGs, which a draft decodes whole: its row was that of the reference, and called a loss of half."""
    _, draft = stage.find("decode/rgb/pillow-draft")
    assert stage.find("crop/resized-224/draft-crop")[1].unfit is draft.unfit
    image = photograph(600, 540).convert(mode)
    assert draft.unfit(encoded(image, "JPEG")) is None
    assert max(decode.pillow_draft(Workload())(encoded(image, "JPEG")).shape) == 300
    if mode != "CMYK":
        assert draft.unfit(encoded(image, "PNG")) == "it is PNG"


def test_pictures_smaller_than_a_block_are_compared_by_what_they_have():
    ours = np.full((5, 3, 3), 100, np.uint8)
    TASK.agree(ours, ours + 1, REDUCED)
    with pytest.raises(SampleError):
        TASK.agree(ours, ours + 20, REDUCED)
