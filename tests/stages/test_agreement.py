"""How far decoders may be apart: honest ones pass, and each planted fault is found, also where the mean is blind."""

import io

import numpy as np
import pytest
import simplejpeg
import torch
from in_memory import encoded
from PIL import Image

from pipebench.data import datasets
from pipebench.errors import SampleError
from pipebench.stages import agreement, crop, decode
from pipebench.task import Variant, Workload

DRAFT = Variant("decode/rgb", "draft", lambda workload: lambda given: None, gives_up="resolution")
WHOLE = Variant("decode/rgb", "whole", lambda workload: lambda given: None)


def _noise():
    """Noise with detail of every size, colour a fifth as strong as luma, and corners that are clipped at 0 and 255."""
    rng = np.random.default_rng(0)
    made = np.zeros((131, 203, 3))
    for side in (3, 9, 40):
        part = rng.integers(0, 256, (side, side, 3), np.uint8)
        made += np.asarray(Image.fromarray(part).resize((203, 131), Image.Resampling.BICUBIC), float) - 128
    made = 0.8 * made.mean(-1, keepdims=True) + 0.2 * made
    made[:40, :60] += 300
    made[-40:, -60:] -= 300
    return encoded(np.clip(128 + made, 0, 255).astype(np.uint8), quality=90)


IMAGES = {
    **{f"photograph-{index}": one.read() for index, one in enumerate(datasets.load("tiny").samples[:6])},
    "noise": _noise(),
}


@pytest.fixture(params=IMAGES)
def data(request):
    return IMAGES[request.param]


def _whole(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def _found(ours, theirs, variant=WHOLE):
    """The words of the disagreement, by the check that the lab makes."""
    with pytest.raises(SampleError) as caught:
        decode.agree(ours, theirs, variant)
    assert caught.value.kind == "disagrees"
    return caught.value.message


def test_plain_chroma_upsampling_is_an_honest_difference(data):
    ours, theirs = simplejpeg.decode_jpeg(data, "RGB", fastupsample=True), _whole(data)
    assert not np.array_equal(ours, theirs)
    assert np.abs(ours.astype(int) - theirs).max() > agreement.LARGEST_LUMA  # colours do differ, luma does not
    decode.agree(ours, theirs, WHOLE)


def test_an_inaccurate_inverse_dct_is_not(data):
    """libjpeg's fast DCT passes the mean (1.1 levels); where it is far from the exact one, the maximum finds it."""
    ours, theirs = simplejpeg.decode_jpeg(data, "RGB", fastdct=True), _whole(data)
    agreement.mean(ours, theirs, agreement.EXACT_MEAN)
    if np.abs((ours.astype(float) - theirs) @ agreement.LUMA_WEIGHTS).max() > agreement.LARGEST_LUMA + 1:
        assert "luma" in _found(ours, theirs)


def test_one_level_everywhere_is_allowed_and_four_are_not(data):
    theirs = _whole(data).clip(5, 250)
    sign = np.random.default_rng(0).choice((-1, 1), theirs.shape[:2])[..., None]
    decode.agree((theirs + sign).astype(np.uint8), theirs, WHOLE)
    _found((theirs + 4 * sign).astype(np.uint8), theirs)


def test_a_swap_of_channels_is_found(data):
    theirs = _whole(data)
    assert "on average" in _found(np.ascontiguousarray(theirs[..., ::-1]), theirs)


def test_a_shift_by_one_pixel_is_found(data):
    theirs = _whole(data)
    for axis in (0, 1):
        _found(np.roll(theirs, 1, axis), theirs)


def test_a_shift_that_the_mean_lets_through_is_found_at_an_edge():
    theirs = np.full((64, 400, 3), 60, np.uint8)
    theirs[:, 200:] = 90
    ours = np.roll(theirs, 1, 1)
    ours[:, 0] = theirs[:, 0]
    agreement.mean(ours, theirs, agreement.EXACT_MEAN)
    assert "luma differs from the reference by 30 levels at column 200, row 0" in _found(ours, theirs)


@pytest.mark.parametrize("level", [0, 127, 255])
def test_one_damaged_block_that_the_mean_lets_through_is_found(data, level):
    theirs = _whole(data)
    found = 0
    for row, column in ((8, 16), (64, 64), (72, 120)):
        ours = theirs.copy()
        ours[row : row + 8, column : column + 8] = level
        block = theirs[row : row + 8, column : column + 8]
        agreement.mean(ours, theirs, agreement.EXACT_MEAN)
        if np.abs(block @ agreement.LUMA_WEIGHTS - level).max() > 4 and not ({0, 255} & set(block.flat)):
            found += 1
            assert "levels at column" in _found(ours, theirs)
    assert found


def test_a_block_with_wrong_colour_and_right_luma_is_found():
    theirs = np.full((64, 64, 3), 128, np.uint8)
    ours = theirs.copy()
    ours[16:24, 32:40] += np.array([38, 236, 0], np.uint8)  # red +38, green -20: the same luma to half a level
    agreement.mean(ours, theirs, agreement.EXACT_MEAN)
    agreement.luma(ours, theirs)
    assert "a block differs from the reference by 38 levels at column 32, row 16" in _found(ours, theirs)


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_a_reduced_decode_passes_and_its_damage_does_not(data, scale):
    theirs, image = _whole(data), Image.open(io.BytesIO(data))
    image.draft("RGB", (image.width // scale, image.height // scale))
    ours = np.array(image)
    assert ours.shape != theirs.shape
    decode.agree(ours, theirs, DRAFT)
    side = agreement.SIDE // round(theirs.shape[0] / ours.shape[0])
    damaged = ours.copy()
    damaged[3 * side : 4 * side, 3 * side : 4 * side] = 255 - damaged[3 * side : 4 * side, 3 * side : 4 * side]
    theirs_block = theirs[16:40, 16:40]
    if abs(2 * float(theirs_block.mean()) - 255) > 60 + 0.2 * np.ptp(theirs_block):
        assert "a block" in _found(damaged, theirs, DRAFT)
    assert _found(np.roll(ours, 2, 1), theirs, DRAFT)


RESIZING = (
    "float_tensor_first", "pil_crop", "draft_crop", "_opencv", "torchvision_v2", "region_resized", "region_exact",
)  # fmt: skip


@pytest.mark.parametrize("name", RESIZING)
def test_resized_crops_pass_and_a_shift_or_a_damaged_block_does_not(name):
    workload = Workload(data="tiny")
    given = crop.cuts(workload, [crop.read.keys(workload)[0][0]], 224, crop.resized_box)[0]
    expected, ours = crop.tensor_first(workload)(given), getattr(crop, name)(workload)(given)
    crop.agree(ours, expected, WHOLE, exact=False)
    with pytest.raises(SampleError, match="differs"):
        crop.agree(ours.roll(1, 2), expected, WHOLE, exact=False)
    for variant in (WHOLE, DRAFT):
        damaged = ours.clone()
        damaged[:, 96:112, 96:112] = 0
        assert expected[:, 96:112, 96:112].float().mean() > 60
        with pytest.raises(SampleError, match="a block differs"):
            crop.agree(damaged, expected, variant, exact=False)


def test_another_filter_is_checked_as_closely_as_what_gives_nothing_up():
    """What moves a box has wider bounds; a filter moves nothing."""
    expected, bounds = torch.full((3, 224, 224), 100, dtype=torch.uint8), {}
    for gives_up in (None, crop.FILTER, "resolution"):
        variant = Variant("crop/resized-224", "one", lambda workload: lambda given: None, gives_up=gives_up)
        ours = expected.clone()
        ours[:, 96:100, 96:100] += 10  # a block of 4×4, beyond 6 levels; a quarter of one of 8×8
        try:
            crop.agree(ours, expected, variant, exact=False)
            bounds[gives_up] = "passes"
        except SampleError:
            bounds[gives_up] = "refused"
    assert bounds == {None: "refused", crop.FILTER: "refused", "resolution": "passes"}


def test_clipped_values_count_in_their_own_direction():
    """What is clipped at 255 may stand for more: darker elsewhere is no fault there, but brighter is."""
    theirs = np.full((16, 16, 3), 200, np.uint8)
    theirs[..., 0] = 250
    honest = theirs.copy()
    honest[..., 0], honest[..., 2] = 255, 160  # truly red 265: the same luma
    agreement.luma(honest, theirs)
    for level in (0, 255):
        broken = theirs.copy()
        broken[5, 7] = level
        with pytest.raises(SampleError, match="column 7, row 5"):
            agreement.luma(broken, theirs)
    with pytest.raises(SampleError, match="on average"):
        agreement.mean(theirs, np.full_like(theirs, 100), agreement.EXACT_MEAN)
