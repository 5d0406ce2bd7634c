"""Boxes resized in C: torchvision's pixels with `exact`, and without it those of the file's own planes."""

from __future__ import annotations

import io
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import region_jpegs
import torch
from in_memory import encoded
from PIL import Image
from region_jpegs import KINDS, encode
from test_region import BAD_DATA, any_box, whole
from torchvision.transforms.functional import pil_to_tensor
from torchvision.transforms.v2 import functional

from pipebench import stage
from pipebench.data import datasets
from pipebench.errors import SampleError
from pipebench.native import packing, region, resized
from pipebench.native.resized import EncodedCrop

BYTES = encode("4:2:0", 101, 64)
SOUND = EncodedCrop(BYTES, (30, 20, 33, 17))


@pytest.fixture(scope="module")
def photographs():
    """Embedded photographs as bytes, each with the tensor of the whole picture."""
    found = [one.read() for one in datasets.load("photos", limit=5).samples]
    return [(data, pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB"))) for data in found]


@pytest.mark.parametrize("size", [(24, 40), (224, 224), (700, 640)], ids=str)
def test_exact_is_torchvisions_antialiased_resize_of_the_same_pixels(photographs, size):
    """Boxes of every size, so down to a twentieth and up to more than twenty times; bit by bit where torch has its
    kernel for uint8, which some CPUs lack. There torchvision rounds otherwise, by one level at most."""
    rng = random.Random(str(size))
    capability = torch.backends.cpu.get_cpu_capability()
    for data, picture in photographs:
        height, width = picture.shape[1:]
        for box in (*(any_box(rng, width, height) for _ in range(6)), (3, 5, 30, 20), (0, 0, width, height)):
            left, top, wide, high = box
            expected = functional.resized_crop(picture, top, left, high, wide, list(size), antialias=True)
            out = resized.decode_and_resize(data, box, size, exact=True)
            assert out.dtype == torch.uint8 and out.is_contiguous()
            apart = int((out.int() - expected.int()).abs().max())
            assert apart <= 1 and (apart == 0 or capability not in ("AVX2", "AVX512")), box


def planes(data, scale):
    """Luma and both chroma planes of a file as Pillow decodes them at 1/scale, without a change to RGB."""
    image = Image.open(io.BytesIO(data))
    if image.mode == "RGB":
        image.draft("YCbCr", None)
    decoder, _, offset, arguments = image.tile[0]
    image._size = (-(-image.width // scale), -(-image.height // scale))
    image.tile = [(decoder, (0, 0, *image.size), offset, arguments)]
    image.decoderconfig = (scale, 0)
    pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1)


def triangle(samples, begin, size, count):
    """`samples` resized along their first axis, in floating point: those that `begin` to `begin + size` touches."""
    first, scale = int(begin), size / count
    touched = samples[first : int(np.ceil(begin + size))]
    centres = begin - first + scale * (np.arange(count) + 0.5)
    weights = np.clip(1 - np.abs(np.arange(len(touched)) + 0.5 - centres[:, None]) / max(scale, 1), 0, None)
    return np.tensordot(weights / weights.sum(1, keepdims=True), touched, 1)


def resized_plane(plane, box, size, reduced):
    left, top, width, height = (side / reduced for side in box)
    rows = triangle(plane.T.astype(float), left, width, size[1]).T
    return triangle(rows, top, height, size[0])


def to_rgb(luma, blue=None, red=None):
    if blue is None or red is None:
        return np.stack([luma] * 3)
    blue, red = blue - 128, red - 128  # the formula of JFIF
    return np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue])


@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize(("kind", "chroma"), [("4:2:0", 2), ("4:4:4", 1), ("grey", 1)])
def test_without_exact_it_is_the_planes_of_the_file_resized_and_then_made_rgb(kind, chroma, scale):
    """Of a 4:2:0 file, Pillow's decode at half the size has the chroma as it is stored. Boxes end inside of samples."""
    rng = random.Random(f"{kind} {scale}")
    for progressive in (False, True):
        width, height = 255, 239
        data = encode(kind, width, height, progressive)
        full, coarse = planes(data, scale), planes(data, max(scale, chroma))
        for _ in range(12):
            box = any_box(rng, width, height)
            size = max(1, box[3] // scale - rng.randrange(4)), max(1, box[2] // scale - rng.randrange(4))
            if resized._scale_for(box, size) != scale:
                continue
            made = [resized_plane(full[0], box, size, scale)]
            made += [resized_plane(plane, box, size, max(scale, chroma)) for plane in coarse[1:]]
            out = resized.decode_and_resize(data, box, size).numpy()
            apart = np.abs(out - np.clip(to_rgb(*made), 0, 255))
            assert apart.max() < 3.5 and apart.mean() < 0.8, (box, size)  # blue: 1.77 of a level of chroma, and 1.5


def test_without_exact_photographs_differ_by_little(photographs):
    rng = random.Random(0)
    for data, picture in photographs:
        for _ in range(4):
            box = any_box(rng, picture.shape[2] - 100, picture.shape[1] - 100)
            box = (*box[:2], box[2] + 100, box[3] + 100)
            exact, quick = (resized.decode_and_resize(data, box, (224, 224), exact=one).int() for one in (True, False))
            assert (exact - quick).abs().float().mean() < 2.5, box


def test_without_exact_noise_differs_by_more_and_the_lab_says_so():
    noise = np.repeat(np.random.default_rng(0).integers(0, 256, (700, 900, 1), np.uint8), 3, 2)
    data, box = encoded(Image.fromarray(noise), "JPEG", quality=90), (100, 100, 460, 460)
    apart = [
        (resized.decode_and_resize(data, box, (224, 224), exact=exact).int() - usual(data, box).int()).abs()
        for exact in (False, True)
    ]
    assert 8 < apart[0].float().mean() < 12 and apart[1].max() <= 1
    assert "up to 12 on noise" in next(
        one.gives_up for one in stage.variants("crop/resized-224") if one.name == "region"
    )


def usual(data, box):
    whole = pil_to_tensor(Image.open(io.BytesIO(data)))
    return functional.resized_crop(whole, box[1], box[0], box[3], box[2], [224, 224], antialias=True)


def test_a_reduced_box_keeps_its_place():
    """On a ramp of one level a pixel, a box that moved by one pixel of the file shows in every result."""
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8), (200, 200))
    data = encoded(np.ascontiguousarray(ramp), quality=100)
    for left in range(8):
        out = resized.decode_and_resize(data, (left, left, 160, 160), (20, 20)).float()
        expected = left + 8 * (torch.arange(20) + 0.5) - 0.5
        assert (out[0, :, 1:-1] - expected[1:-1]).abs().max() < 1.5


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_markers_and_mirrors_do_not_change_pixels(kind, exact):
    rng = random.Random(kind)
    data = encode(kind, 250, 239)
    packed = packing.pack(data, 16)
    for _ in range(10):
        box, size = any_box(rng, 250, 239), (rng.randint(1, 60), rng.randint(1, 60))
        out = resized.decode_and_resize(data, box, size, exact=exact)
        assert torch.equal(resized.decode_and_resize(packed, box, size, exact=exact), out), box
        assert torch.equal(resized.decode_and_resize(data, box, size, exact=exact, flip=True), out.flip(-1)), box


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_out_is_written_and_returned(interpolation):
    expected = resized.decode_and_resize(BYTES, SOUND.box, (9, 13), interpolation, flip=True)
    batch = torch.zeros(3, 3, 9, 13, dtype=torch.uint8)
    out = resized.decode_and_resize(BYTES, SOUND.box, (9, 13), interpolation, flip=True, out=batch[1])
    assert torch.equal(out, expected) and torch.equal(batch[1], expected) and not batch[::2].any()
    pixels = torch.zeros(17, 33, 3, dtype=torch.uint8)
    assert region.decode_and_crop(BYTES, SOUND.box, out=pixels) is pixels
    as_tensor = torch.frombuffer(bytearray(BYTES), dtype=torch.uint8)
    for data in (BYTES, as_tensor):
        assert torch.equal(region.decode_and_crop(data, SOUND.box, out=torch.empty_like(pixels)), pixels)
    assert torch.equal(pixels, region.decode_and_crop(BYTES, SOUND.box))


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (torch.zeros(3, 9, 12, dtype=torch.uint8), r"not torch.uint8 of shape \(3, 9, 12\)"),
        (torch.zeros(3, 9, 13), "not torch.float32"),
        (torch.zeros(3, 9, 26, dtype=torch.uint8)[..., ::2], "not gaps in torch.uint8"),
        (torch.zeros(3, 9, 13, dtype=torch.uint8, device="meta"), "on meta"),
        (np.zeros((3, 9, 13), np.uint8), "not ndarray"),
    ],
    ids=["shape", "dtype", "gaps", "elsewhere", "array"],
)
def test_another_out_is_a_value_error(out, words):
    with pytest.raises(ValueError, match=words):
        resized.decode_and_resize(BYTES, SOUND.box, (9, 13), out=out)
    with pytest.raises(ValueError, match="out must be a contiguous uint8 tensor"):
        region.decode_and_crop(BYTES, SOUND.box, out=out)


@pytest.mark.parametrize("exact", [False, True])
def test_a_batch_is_its_crops_one_after_the_other(exact):
    rng = random.Random(0)
    crops = [
        EncodedCrop(encode(kind, 255, 239, progressive), any_box(rng, 255, 239), flip)
        for kind in KINDS
        for progressive in (False, True)
        for flip in (False, True)
    ]
    out = torch.zeros(len(crops), 3, 31, 57, dtype=torch.uint8)
    resized.decode_batch(crops, out, exact=exact)
    for crop, made in zip(crops, out, strict=True):
        one = resized.decode_and_resize(crop.data, crop.box, (31, 57), exact=exact, flip=crop.flip)
        assert torch.equal(made, one)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_an_error_that_names_the_cause_and_the_sample(name, exact):
    data, kind, words = BAD_DATA[name]
    out = torch.zeros(3, 3, 9, 13, dtype=torch.uint8)
    with pytest.raises(SampleError, match=f"^sample 1 of the batch: .*({words})") as caught:
        resized.decode_batch([SOUND, EncodedCrop(data, SOUND.box), SOUND], out, exact=exact)
    assert caught.value.kind in kind.split("|")


@pytest.mark.parametrize(
    ("crop", "error", "words"),
    [
        (EncodedCrop(BYTES, (90, 0, 12, 5)), ValueError, "outside the image of 101 . 64 pixels"),
        (EncodedCrop(BYTES, (0, 0, 0, 5)), ValueError, "is empty"),
        (EncodedCrop(BYTES, None), ValueError, "four whole numbers"),
        (EncodedCrop("text", SOUND.box), TypeError, "bytes-like"),
        (EncodedCrop(torch.zeros(9), SOUND.box), TypeError, "1-D uint8 tensor"),
        ((BYTES, SOUND.box), TypeError, "it is tuple, not EncodedCrop"),
        (None, TypeError, "it is NoneType, not EncodedCrop"),
    ],
    ids=["outside", "empty", "no box", "text", "float", "tuple", "nothing"],
)
def test_a_crop_that_is_wrong_names_its_sample(crop, error, words):
    out = torch.zeros(3, 3, 9, 13, dtype=torch.uint8)
    with pytest.raises(error, match=f"^sample 2 of the batch: .*{words}"):
        resized.decode_batch([SOUND, SOUND, crop], out)


def test_takes_anything_bytes_like():
    wraps = (
        bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data)),
        lambda data: np.frombuffer(data, np.uint8), lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8),
    )  # fmt: skip
    out = torch.zeros(len(wraps), 3, 9, 13, dtype=torch.uint8)
    resized.decode_batch([EncodedCrop(wrap(BYTES), SOUND.box) for wrap in wraps], out)
    assert all(torch.equal(one, out[0]) for one in out)


@pytest.mark.parametrize("count", [800, pytest.param(8000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_as_decode_and_crop_refuses_them(count):
    """With `exact` it is the same error in the same words, with the sample's index before them."""
    refused = 0
    for index in range(count):
        data, rng = (region_jpegs.packed_mutant if index % 2 else region_jpegs.mutant)(index), random.Random(index)
        out, box, said = torch.zeros(1, 3, 9, 13, dtype=torch.uint8), SOUND.box, None
        try:
            box = any_box(rng, *region.image_size(data))
            region.decode_and_crop(data, box)
        except SampleError as error:
            said = error.kind, f"sample 0 of the batch: {error}"
            refused += 1
        try:
            resized.decode_batch([EncodedCrop(data, box)], out, exact=True)
            assert said is None, (index, said)
        except SampleError as error:
            assert (error.kind, str(error)) == said, index
    assert count / 4 < refused < count


def test_threads_do_not_disturb_each_other():
    files = [encode(kind, 255, 239, progressive) for kind in KINDS for progressive in (False, True)]
    crops = [EncodedCrop(data, (10, 20, 200, 190)) for data in files]
    expected = torch.zeros(len(crops), 3, 31, 57, dtype=torch.uint8)
    resized.decode_batch(crops, expected)
    wrong = []

    def work(seed):
        order = random.Random(seed).sample(range(len(crops)), len(crops))
        for _ in range(15):
            out = torch.zeros_like(expected)
            resized.decode_batch([crops[index] for index in order], out)
            if not torch.equal(out, expected[order]):
                wrong.append(seed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert wrong == []


def test_whole_is_what_pillow_shows():
    """The reference of this file is independent: a resize to the same size is Pillow's picture."""
    expected = torch.from_numpy(whole(BYTES).copy()).permute(2, 0, 1)
    assert torch.equal(resized.decode_and_resize(BYTES, (0, 0, 101, 64), (64, 101), exact=True), expected)


@pytest.mark.parametrize("size", [(0, 8), (8, 0), (-1, 8)])
def test_an_empty_result_is_refused(size):
    with pytest.raises(ValueError, match="1 or more"):
        resized.decode_and_resize(BYTES, (0, 0, 9, 9), size)
    if min(size) == 0:
        with pytest.raises(ValueError, match="1 or more"):
            resized.decode_batch([EncodedCrop(BYTES, (0, 0, 9, 9))], torch.empty((1, 3, *size), dtype=torch.uint8))
