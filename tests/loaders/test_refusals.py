"""A loader whose output is wrong is refused: form, samples, pixels."""

import numpy as np
import pytest
import small_jobs
import torch

from pipebench.host import process_tree
from pipebench.loaders.checking import Refused, shuffled
from pipebench.loaders.one_round import done
from pipebench.results.loaders import FILTERS


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return small_jobs.jpegs(tmp_path_factory.mktemp("loaders") / "files")


@pytest.fixture(autouse=True)
def _at_rest(monkeypatch):
    monkeypatch.setattr(process_tree, "rest", lambda now=lambda: 0.0: now())


def changing(change):
    """What changes each batch: a function of its images, indices and boxes."""
    return lambda batches: (type(one)(*change(*one)) for one in batches)


def asked(paths, change=lambda batches: batches, task="antialiased", **more):
    return done(small_jobs.job(paths, "nowhere", task=task), small_jobs.kind(change, **more))


@pytest.mark.parametrize("task", FILTERS)
def test_what_is_right_is_measured(paths, task):
    answer = asked(paths, task=task)
    assert answer.missing is answer.refused is None
    assert [one.images for one in answer.round.passes] == [small_jobs.IMAGES]
    assert answer.order == "whole" and answer.round.memory_bytes > 0


def test_tensors_count_as_arrays_do(paths):
    asked(paths, changing(lambda *batch: map(torch.from_numpy, batch)))


def drop(images, indices, boxes):
    return images[1:], indices[1:], boxes[1:]


def double(images, indices, boxes):
    return images, np.array([indices[1], *indices[1:]]), boxes


WRONG = {
    "drops": (drop, "lacks 3, has 0 more than once"),
    "doubles": (double, "lacks 3, has 3 more than once"),
    "foreign": (lambda a, b, c: (a, b + 100, c), "24 that are none of them"),
    "channels last": (
        lambda a, b, c: (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), b, c), "it hides a copy",
    ),
    "height, width, channels": (lambda a, b, c: (a.transpose(0, 2, 3, 1), b, c), r"not uint8 \(8, 3, 32, 32\)"),
    "floats": (lambda a, b, c: (a.astype(np.float32), b, c), "a batch is float32"),
    "no boxes": (lambda a, b, c: (a, b, c[:, :4]), "the boxes of a batch"),
    "BGR": (lambda a, b, c: (np.ascontiguousarray(a[:, ::-1]), b, c), "has wrong pixels"),
    "another sample": (lambda a, b, c: (np.roll(a, 1, 0), b, c), "has wrong pixels"),
    "not mirrored": (lambda a, b, c: (a, b, c ^ np.array([0, 0, 0, 0, 1], np.int32)), "has wrong pixels"),
    "black": (lambda a, b, c: (np.zeros_like(a), b, c), "has wrong pixels"),
    "moved": (lambda a, b, c: (np.roll(a, 6, 3), b, c), "has wrong pixels"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused(paths, name):
    change, said = WRONG[name]
    with pytest.raises(Refused, match=said):
        asked(paths, changing(change))


def test_too_many_samples_in_a_batch_are_refused(paths):
    def joined(batches):
        first, second, *rest = batches
        yield type(first)(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
        yield from rest

    with pytest.raises(Refused, match="a batch has 16 samples, not 8"):
        asked(paths, joined)


def test_the_pixels_of_the_other_task_are_refused(paths):
    """A loader that does not antialias has no row beside those that do."""
    kind = small_jobs.kind()
    for task, other in (FILTERS, FILTERS[::-1]):
        looked = small_jobs.plan(paths, task)

        def opened(plan, looked=looked):
            return small_jobs.kind().open(looked)

        cheating = type(kind)(**{**vars(kind), "open": opened})
        with pytest.raises(Refused, match=f"not those of the task \\({other}\\)|has wrong pixels"):
            done(small_jobs.job(paths, "nowhere", task=other), cheating)


def test_a_missing_package_is_said_with_its_extra(paths):
    answer = asked(paths, modules=("no_such_package.part",), extra="such")
    assert answer.missing == "no_such_package is not installed: pip install 'pipebench[such]'"
    assert asked(paths, needs=lambda: "there is no GPU here").missing == "there is no GPU here"


def test_how_far_an_order_is_shuffled():
    some = list(range(1000))
    assert shuffled(some) == "none"
    assert shuffled([one ^ 7 for one in some]) == "buffer"
    assert shuffled(np.random.default_rng(0).permutation(1000).tolist()) == "whole"
