"""The transforms from bytes: torchvision's boxes and pixels for the same seed."""

from __future__ import annotations

import inspect
import io
import pickle
import random

import pytest
import region_jpegs
import torch
from in_memory import encoded
from PIL import Image
from region_jpegs import encode
from torchvision import transforms
from torchvision.transforms import v2
from torchvision.transforms.functional import pil_to_tensor

from pipebench.data import datasets
from pipebench.native import region, resized
from pipebench.native import transforms as transforms_from_bytes

BYTES = encode("4:2:0", 101, 64)
REFERENCES = {"v1": transforms.RandomCrop, "v2": v2.RandomCrop}
WIDE, SQUARE, SMALL = encode("4:2:0", 101, 64), encode("grey", 64, 64), encode("4:4:4", 33, 17)


@pytest.mark.parametrize("api", REFERENCES)
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (33, {}),
        ((20, 64), {}),
        (64, {}),
        ((64,), {}),
        (40, {"padding": 7}),
        (40, {"padding": (3, 9), "fill": 200}),
        ((70, 50), {"padding": (1, 2, 30, 40), "fill": (1, 2, 3)}),
        (80, {"pad_if_needed": True}),
        ((90, 110), {"pad_if_needed": True, "padding": 2, "fill": 77}),
    ],
)
def test_draws_and_returns_the_crops_of_torchvision(api, size, options):
    ours, theirs = transforms_from_bytes.RandomCropFromBytes(size, api=api, **options), REFERENCES[api](size, **options)
    for data in (WIDE, SQUARE):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        for seed in range(6):
            torch.manual_seed(seed)
            expected = theirs(image)
            state = torch.get_rng_state()
            torch.manual_seed(seed)
            out = ours(data)
            assert torch.equal(out, pil_to_tensor(expected))
            assert torch.equal(torch.get_rng_state(), state)


def test_an_image_smaller_than_the_crop_is_torchvisions_error():
    for api in REFERENCES:
        with pytest.raises(ValueError, match="larger than"):
            transforms_from_bytes.RandomCropFromBytes(50, api=api)(SMALL)


@pytest.mark.parametrize(
    "options",
    [{"padding_mode": "reflect"}, {"fill": {int: 3}}, {"padding": (1, 2, 3)}, {"api": "v3"}],
    ids=str,
)
def test_what_a_crop_from_bytes_cannot_do_is_said_at_once(options):
    with pytest.raises(ValueError, match=r"padding|fill|api"):
        transforms_from_bytes.RandomCropFromBytes(20, **options)


@pytest.mark.parametrize("reference", [transforms.RandomResizedCrop, v2.RandomResizedCrop])
@pytest.mark.parametrize("options", [{}, {"scale": (0.5, 1.0), "ratio": (1.0, 1.0)}, {"scale": (3.0, 4.0)}], ids=str)
def test_draws_the_resized_crops_of_torchvision(reference, options):
    """The pixels of a smooth picture agree to roundings: of luma, chroma and RGB at full scale and reduced."""
    smooth = Image.fromarray(region_jpegs.picture()).resize((24, 24)).resize((255, 255), Image.Resampling.BICUBIC)
    data = encoded(smooth, quality=95)
    image = pil_to_tensor(Image.open(io.BytesIO(data)))
    for size, tolerance, mean in ((200, 8, 1.2), ((24, 30), 10, 2.5)):
        ours, theirs = (
            transforms_from_bytes.RandomResizedCropFromBytes(size, **options),
            reference(size, antialias=True, **options),
        )
        for seed in range(8):
            torch.manual_seed(seed)
            expected = theirs(image)
            state = torch.get_rng_state()
            torch.manual_seed(seed)
            out = ours(data)
            difference = (out.int() - expected.int()).abs()
            assert torch.equal(torch.get_rng_state(), state)
            assert out.shape == expected.shape and out.dtype == torch.uint8
            assert difference.max() <= tolerance and difference.float().mean() < mean, (size, seed)


@pytest.fixture(scope="module")
def pictures():
    """Photographs and noise of every sampling, each as bytes and as the tensor of the whole picture."""
    photographs = [one.read() for one in datasets.load("tiny").samples[:4]]
    made = [encode(kind, 255, 239, progressive) for kind in region_jpegs.KINDS for progressive in (False, True)]
    return [(data, pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB"))) for data in (*photographs, *made)]


def odd_boxes(width, height):
    """Boxes on every border, of odd size and place, whole, a strip and a pixel."""
    yield from ((0, 0, width, height), (1, 3, width - 2, height - 5), (0, height - 7, width, 7), (width - 1, 0, 1, 1))
    rng = random.Random(width)
    for _ in range(6):
        wide, high = rng.randint(1, width), rng.randint(1, height)
        yield rng.choice((0, width - wide)), rng.randint(0, height - high), wide, high
        yield rng.randint(0, width - wide), rng.choice((0, height - high)), wide, high


@pytest.mark.parametrize("size", [(24, 24), (31, 57), (224, 224)])
@pytest.mark.parametrize("interpolation", [v2.InterpolationMode.BILINEAR, v2.InterpolationMode.BICUBIC])
def test_exact_is_the_whole_picture_cropped_and_resized_bit_by_bit(pictures, size, interpolation):
    other = 0
    for data, whole in pictures:
        for left, top, width, height in odd_boxes(whole.shape[2], whole.shape[1]):
            box = (left, top, width, height)
            expected = v2.functional.resized_crop(whole, top, left, height, width, list(size), interpolation)
            assert torch.equal(resized.decode_and_resize(data, box, size, interpolation, exact=True), expected), box
            other += not torch.equal(resized.decode_and_resize(data, box, size, interpolation), expected)
    assert other > 0 or size == (224, 224)  # without it, what is decoded at a smaller scale differs


@pytest.mark.parametrize("options", [{}, {"scale": (0.5, 1.0), "ratio": (1.0, 1.0)}, {"interpolation": 3}], ids=str)
def test_an_exact_transform_is_torchvisions(pictures, options):
    ours = transforms_from_bytes.RandomResizedCropFromBytes(31, exact=True, **options)
    theirs = v2.RandomResizedCrop(31, antialias=True, **options)
    assert "exact=True" in repr(ours)
    for seed, (data, whole) in enumerate(pictures):
        torch.manual_seed(seed)
        expected, state = theirs(whole), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(ours(data), expected)
        assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("flip", [0.0, 0.5, 1.0])
def test_mirrors_are_those_of_torchvision(pictures, flip):
    ours = transforms_from_bytes.RandomResizedCropFromBytes(31, exact=True, flip=flip)
    theirs = v2.Compose([v2.RandomResizedCrop(31, antialias=True), v2.RandomHorizontalFlip(flip)])
    assert f"flip={flip}" in repr(ours)
    for seed, (data, whole) in enumerate(pictures):
        torch.manual_seed(seed)
        expected, state = theirs(whole), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(ours(data), expected)
        assert torch.equal(torch.get_rng_state(), state) or flip == 0  # torchvision draws even then


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_drawn_and_decoded_later_is_what_a_call_returns(exact):
    crop = transforms_from_bytes.RandomResizedCropFromBytes((31, 40), exact=exact, flip=0.5)
    out = torch.zeros(2, 3, 31, 40, dtype=torch.uint8)
    for seed in range(8):
        torch.manual_seed(seed)
        assert crop(WIDE, out=out[0]) is not None
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        drawn = pickle.loads(pickle.dumps(crop.draw))(WIDE)  # a bound method: what a worker is sent
        assert torch.equal(torch.get_rng_state(), state)
        resized.decode_batch([drawn], out[1:], exact=exact)
        assert torch.equal(out[0], out[1])


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_a_resized_box_keeps_its_resolution_and_its_place(scale):
    rng = random.Random(scale)
    for _ in range(3000):
        image = rng.randint(scale, 300), rng.randint(scale, 300)
        width, height = rng.randint(scale, image[0]), rng.randint(scale, image[1])
        box = rng.randint(0, image[0] - width), rng.randint(0, image[1] - height), width, height
        left, top, wide, high = resized._aligned(box, scale)
        rows, columns = region.scaled_size((left, top, wide, high), scale)
        assert left >= 0 and top >= 0 and left + wide <= image[0] and top + high <= image[1]
        assert columns >= width // scale and rows >= height // scale
        for edge, drawn in ((left, box[0]), (left + columns * scale, box[0] + width), (top, box[1])):
            assert abs(edge - drawn) <= scale / 2


def test_antialias_cannot_be_turned_off():
    with pytest.raises(ValueError, match="antialias"):
        transforms_from_bytes.RandomResizedCropFromBytes(20, antialias=False)


@pytest.mark.parametrize(
    "transform",
    [
        transforms_from_bytes.RandomCropFromBytes(20, pad_if_needed=True),
        transforms_from_bytes.RandomResizedCropFromBytes(20),
    ],
)
def test_transforms_compose_pickle_and_say_what_they_are(transform):
    torch.manual_seed(0)
    expected = transform(BYTES)
    torch.manual_seed(0)
    assert torch.equal(v2.Compose([pickle.loads(pickle.dumps(transform))])(BYTES), expected)
    assert "size=(20, 20)" in repr(transform)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (transforms_from_bytes.RandomCropFromBytes, v2.RandomCrop),
        (transforms_from_bytes.RandomResizedCropFromBytes, v2.RandomResizedCrop),
    ],
)
def test_one_can_be_swapped_for_the_other(ours, theirs):
    def arguments(of):
        found = inspect.signature(of).parameters.values()
        return [(one.name, one.default) for one in found if one.kind is not inspect.Parameter.KEYWORD_ONLY]

    assert arguments(ours) == arguments(theirs)
