"""The contract of every kind, on a few small images: its output is right on each of its tasks."""

import sys
from unittest.mock import MagicMock

import cv2
import pytest
import small_jobs
import torch

from pipebench.host import process_tree
from pipebench.loaders import kind
from pipebench.loaders.kinds import dali
from pipebench.loaders.one_round import done, lacking
from pipebench.results.loaders import FILTERS


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(process_tree, "rest", lambda now=lambda: 0.0: now())
    threads = torch.get_num_threads(), cv2.getNumThreads()
    yield
    torch.set_num_threads(threads[0])
    cv2.setNumThreads(threads[1])


def rows():
    for name in kind.names():
        marks = [pytest.mark.cuda] if name == "dali-gpu" else []
        yield from (pytest.param(name, task, marks=marks) for task in kind.find(name).does)


@pytest.mark.parametrize(("name", "task"), rows())
def test_a_kind_gives_every_crop_of_its_task(name, task, tmp_path):
    found = kind.find(name)
    assert lacking(found) is None
    paths = small_jobs.jpegs(tmp_path / "files")
    assert done(small_jobs.job(paths, tmp_path / "copy", name, task, "prepare"), found).missing is None
    answer = done(small_jobs.job(paths, tmp_path / "copy", name, task, passes=2), found)
    assert [one.images for one in answer.round.passes] == [small_jobs.IMAGES] * 2
    assert answer.library.startswith(found.distribution)


def test_dali_fills_up_its_last_batch_and_takes_images_as_they_are_stored(monkeypatch):
    """Where DALI is installed, the test above does not show it: its images fill whole batches, and none is turned."""
    made = MagicMock(pipeline_def=lambda function: lambda **settings: function())
    for name in ("nvidia", "nvidia.dali"):
        monkeypatch.setitem(sys.modules, name, made)
    fn = made.dali.fn
    monkeypatch.setitem(sys.modules, "nvidia.dali.fn", fn)
    fn.readers.file.return_value = fn.random_crop_generator.return_value = MagicMock(), MagicMock()
    dali._pipeline(small_jobs.plan(("a.jpg",)), on_gpu=False)
    assert fn.readers.file.call_args.kwargs["pad_last_batch"] is True
    for operator in (fn.peek_image_shape, fn.decoders.image_slice):
        assert operator.call_args.kwargs["adjust_orientation"] is False


@pytest.mark.parametrize("name", kind.names())
def test_a_kind_says_what_its_row_needs(name):
    found = kind.find(name)
    assert found.name == name and found.title and set(found.does) <= set(FILTERS)
    assert found.baseline or found.source.startswith("https://")
    assert bool(found.copies) == (found.prepare is not None)
