"""Which entry of a user's sample is its image, and how many samples a batch holds."""

import collections
import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from pipebench.compare.sample_parts import batch_length, image_of
from pipebench.task import Unavailable

PILLOW = Image.new("RGB", (8, 6))
ARRAY = np.zeros((6, 8, 3), np.uint8)
TENSOR = torch.zeros(3, 6, 8)
Pair = collections.namedtuple("Pair", "label picture")


@dataclasses.dataclass
class Scan:
    key: str
    pixels: object


@pytest.mark.parametrize("image", [PILLOW, ARRAY, TENSOR, tv_tensors.Image(TENSOR)])
@pytest.mark.parametrize(
    "sample",
    [
        lambda image: image,
        lambda image: (image, 3),
        lambda image: [3, image],
        lambda image: {"label": 3, "image": image, "boxes": torch.zeros(5, 4)},
        lambda image: Pair(torch.tensor(3), image),
        lambda image: Scan("a", image),
    ],
)
def test_the_one_entry_that_is_an_image_is_found(sample, image):
    assert image_of(sample(image)) is image


def test_a_mask_of_torchvision_is_no_image():
    masked = {"image": tv_tensors.Image(TENSOR), "mask": tv_tensors.Mask(torch.zeros(1, 6, 8))}
    assert image_of(masked) is masked["image"]


def test_a_plain_tuple_without_exactly_one_image_gives_its_first_entry_as_in_input_and_target():
    assert image_of((b"encoded", 3)) == b"encoded"
    assert image_of((TENSOR, PILLOW)) is TENSOR


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"left": PILLOW, "right": PILLOW, "label": 1}, r"several images \(left, right\); name one in pipebench.toml"),
        ({"text": "a", "label": 1}, "no image among text, label; name one in"),
    ],
)
def test_where_it_cannot_be_told_nothing_is_guessed(sample, said):
    with pytest.raises(Unavailable, match=said):
        image_of(sample)


def test_a_named_entry_is_taken_by_key_field_or_position():
    two = {"left": PILLOW, "right": ARRAY}
    assert image_of(two, "right") is ARRAY
    assert image_of(Pair(TENSOR, PILLOW), "label") is TENSOR
    assert image_of((1, TENSOR), 1) is image_of((1, TENSOR), -1) is TENSOR
    with pytest.raises(Unavailable, match=r"no entry .*middle"):
        image_of(two, "middle")


RAGGED = [torch.zeros(3, 5, n) for n in range(1, 5)]


@pytest.mark.parametrize(
    ("batch", "expected", "length"),
    [
        (torch.zeros(4, 3, 2, 2), None, 4),
        ([torch.zeros(4, 3, 2, 2), torch.zeros(4)], None, 4),
        ({"image": torch.zeros(4, 3, 2, 2), "key": ["a"] * 4}, None, 4),
        ([RAGGED, torch.zeros(4)], None, 4),  # ragged tensors, which a collate function leaves in a list
        ({"image": RAGGED, "label": torch.zeros(4)}, 4, 4),
        ((tuple(RAGGED), tuple({"boxes": one} for one in RAGGED)), None, 4),
        ([(one, 1) for one in RAGGED], 4, 4),  # a list of samples
        ([(one, 1) for one in RAGGED], None, 4),
        (RAGGED, 4, 4),
        ([{"image": one} for one in RAGGED], 9, 4),
        ((TENSOR, 3), None, 1),  # a sample of a dataset whose loader does not batch
        ({"image": PILLOW, "key": "a"}, None, 1),
        (TENSOR, None, 1),
        (object(), None, 1),
    ],
)
def test_the_samples_of_a_batch_are_counted(batch, expected, length):
    assert batch_length(batch, expected) == length
