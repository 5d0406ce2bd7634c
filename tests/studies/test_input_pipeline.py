"""The study of an input pipeline: its fixes compute the same, and what it lacks is said before it begins."""

import sys

import pytest

from pipebench.data import datasets
from pipebench.errors import PipebenchError, SampleError
from pipebench.results.studies import StudyRow
from pipebench.studies import Rounds, input_pipeline, timed
from pipebench.task import Workload


def quiet(done, total, what):
    pass


def test_every_fix_of_the_input_pipeline_computes_what_the_row_before_does():
    steps = input_pipeline.steps(Workload(data="tiny", batch_size=3))
    rows = timed(steps, Rounds(1, least=1), quiet)
    assert rows[0].name == "workers-doubled"
    for row, before in zip(rows[1:], rows, strict=False):
        assert row.skipped is None or row.name in ("decode-and-crop", "packed-copy")
        assert row.skipped or row.agreement == f"agrees with {before.name}"


def test_the_input_pipeline_says_that_scipy_is_missing_before_it_begins(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.signal", None)
    with pytest.raises(PipebenchError, match=r"needs scipy[^$]*pip install 'pipebench\[scipy\]'"):
        input_pipeline.run("default", quiet)


def test_the_row_of_the_packed_copy_says_its_size():
    found = input_pipeline._with_size(StudyRow("packed-copy", ""), Workload(data="tiny"))
    before, after = (datasets.image_bytes(datasets.load(name)) for name in ("tiny", "tiny-packed"))
    assert found.notes == (f"the copy has {after / 1e3:.0f} kB of images, the files {before / 1e3:.0f} kB",)


def test_the_quick_mask_has_the_chance_of_the_slow_one():
    shares = [
        float(masking(seed).mean())
        for seed in range(4)
        for masking in (input_pipeline.quick_mask, input_pipeline.drawn)
    ]
    assert all(abs(share - 0.25) < 0.01 for share in shares)


def test_a_different_colour_order_is_noticed():
    first, *_, uint8, _, _ = input_pipeline.steps(Workload(data="tiny", batch_size=2))
    right, swapped = first.build()(), uint8.tried()()
    uint8.agrees(swapped, right)
    with pytest.raises(SampleError):
        uint8.agrees(swapped[:, [0, 2, 1]], right)
