"""The contract of every kind that is installed, on a few small images: its output is right on each of its tasks."""

import cv2
import pytest
import small_jobs
import torch

from pipebench.host import process_tree
from pipebench.loaders import kind
from pipebench.loaders.one_round import done, lacking
from pipebench.results.loaders import FILTERS


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(process_tree, "rest", lambda now=lambda: 0.0: now())
    threads = torch.get_num_threads(), cv2.getNumThreads()
    yield
    torch.set_num_threads(threads[0])
    cv2.setNumThreads(threads[1])


@pytest.mark.parametrize("task", FILTERS)
@pytest.mark.parametrize("name", kind.names())
def test_a_kind_gives_every_crop_of_its_task(name, task, tmp_path):
    found = kind.find(name)
    if task not in found.does:
        pytest.skip(f"{name} has no row {task}")
    if (reason := lacking(found)) is not None:
        pytest.skip(reason)
    paths = small_jobs.jpegs(tmp_path / "files")
    assert done(small_jobs.job(paths, tmp_path / "copy", name, task, "prepare"), found).missing is None
    answer = done(small_jobs.job(paths, tmp_path / "copy", name, task, passes=2), found)
    assert [one.images for one in answer.round.passes] == [small_jobs.IMAGES] * 2
    assert answer.library.startswith(found.distribution)


@pytest.mark.parametrize("name", kind.names())
def test_a_kind_says_what_its_row_needs(name):
    found = kind.find(name)
    assert found.name == name and found.title and set(found.does) <= set(FILTERS)
    assert found.baseline or found.source.startswith("https://")
    assert bool(found.copies) == (found.prepare is not None)
