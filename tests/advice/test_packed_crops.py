"""Packed files are predicted from a packed copy of some files, after decoding only the crop has gained."""

import random
from dataclasses import replace

import pytest
from jpeg_files import SIZES, seen_with, write
from made_up_script import MADE, Planted

from pipebench.advise.conductor import Conductor
from pipebench.errors import SampleError
from pipebench.native import packing, region
from pipebench.remedies import from_bytes, packed_crops
from pipebench.remedies.packed_crops import PackedCrops
from pipebench.render.advice import parts
from pipebench.render.layout import text
from pipebench.results.batches import SlowSample

TEXT = """image = Image.open(path).convert("RGB")
loader = DataLoader(data)
"""
ROWS = ("ImageFile.load", "decode", 0.8), ("RandomResizedCrop", "transform", 0.1)


@pytest.fixture(autouse=True)
def forgotten():
    packed_crops.of_files.cache_clear()


def _paths(folder):
    write(folder)
    return tuple(str(one) for one in sorted(folder.glob("*.jpg")))


def test_the_whole_and_the_crop_before_and_after_are_timed_in_turn(tmp_path, monkeypatch):
    clock, order = [0.0], []

    def takes(name, seconds):
        def act(*given):
            clock[0] += seconds
            order.append(name)

        return act

    monkeypatch.setattr(packed_crops, "_whole", lambda data: takes("whole", 4.0))
    monkeypatch.setattr(
        packed_crops, "_part", lambda data, box: takes(data[:1].decode(), 2.0 if data[:1] != b"p" else 1.0)
    )
    monkeypatch.setattr(packed_crops.files, "content", lambda path: path.encode())
    monkeypatch.setattr(packed_crops, "BUDGET_S", 1e9)
    monkeypatch.setattr(region, "image_size", lambda data: (100, 80))
    monkeypatch.setattr(packing, "pack", lambda data: b"p" + data)
    found = packed_crops.measured(["abc", "ade", "afg"], lambda: clock[0])
    assert found == PackedCrops(3, 12.0, 6.0, 3.0, 4 / 3)
    assert [order[place] for place in (3, 6, 9)] == ["whole", "a", "p"]  # the first three are the warm-up
    monkeypatch.setattr(packed_crops, "BUDGET_S", 5.0)
    assert packed_crops.measured(["abc"] * 9, lambda: clock[0]).images == 1


def test_what_cannot_be_packed_is_left_out(tmp_path, monkeypatch):
    def pack(data):
        raise SampleError("unsupported", "progressive")

    paths = _paths(tmp_path)
    assert packed_crops.measured(paths, lambda: 0.0).images == len(SIZES)
    monkeypatch.setattr(packing, "pack", pack)
    assert packed_crops.measured(paths) is None
    assert packed_crops.of_files((str(tmp_path / "gone.jpg"),)) is None


def test_crops_lie_inside_the_image():
    rng = random.Random(1)
    for size in ((100, 80), (3, 200), (1, 1)) * 50:
        left, top, width, height = packed_crops.crop_of(size, rng)
        assert left >= 0 and top >= 0 and width >= 1 and height >= 1
        assert left + width <= size[0] and top + height <= size[1]


def _conducted(folder, monkeypatch, gain, measured, wait_share=0.9):
    _paths(folder)
    figures = seen_with(folder / "train.py", TEXT, *ROWS, wait_share=wait_share)
    slow = (SlowSample(str(folder / "1.jpg"), 1, 0, 0.1),)
    figures = replace(figures, watched=replace(figures.watched, slowest=slow))
    asked = []
    monkeypatch.setattr(packed_crops, "measured", lambda paths: asked.append(paths) or measured)
    run = Planted(lambda order: gain if order.edits else 1.0, figures, made=MADE)
    conductor = Conductor(run, {"from_bytes": from_bytes.propose}, 400)
    conductor.conduct()
    return conductor.advice(), asked


def test_it_is_predicted_after_decoding_only_the_crop_has_gained(tmp_path, monkeypatch):
    advice, asked = _conducted(tmp_path, monkeypatch, 1.5, PackedCrops(4, 10.0, 5.0, 2.0, 1.01))
    tried, packed = advice.findings
    assert tried.outcome == "gain" and advice.best == 0 and len(asked) == 1 and len(asked[0]) == 4
    assert packed.outcome == "not-tried" and packed.change.predicted == pytest.approx(1 / (1 - 0.8 * 0.8))
    shown = " ".join(text(parts(advice, None), width=80).split())
    assert (
        "crops of packed files: predicted, not tried. 4 of your images were packed: 2.5× as fast a crop as without, "
        f"for 1.01× the bytes. pipebench pack {tmp_path} packed"
    ) in shown


@pytest.mark.parametrize(
    ("gain", "measured", "asked"),
    [(1.0, PackedCrops(4, 10.0, 5.0, 2.0, 1.01), 0), (1.5, PackedCrops(4, 10.0, 5.0, 4.9, 1.01), 1), (1.5, None, 1)],
)
def test_nothing_is_said_where_it_would_bring_nothing(gain, measured, asked, tmp_path, monkeypatch):
    advice, found = _conducted(tmp_path, monkeypatch, gain, measured)
    assert len(advice.findings) == 1 and len(found) == asked
