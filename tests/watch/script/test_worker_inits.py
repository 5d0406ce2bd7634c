"""What the script's `worker_init_fn` takes is noted in the worker, and the loader has its own function again."""

import functools
from types import SimpleNamespace

import pytest
from looked_at import made_up_recording
from torch.utils.data._utils import worker as worker_of_torch

from pipebench.watch.script import spawned_workers
from pipebench.watch.script.spawned_workers import handed_over, init_of
from pipebench.watch.worker import inits
from pipebench.watch.worker.inits import TimedInit


def _seeds(worker, scale=1):
    return worker * scale


class _Loads:
    def __call__(self, worker):
        return worker


@pytest.fixture(autouse=True)
def nothing_noted():
    yield
    inits._took.clear()


@pytest.mark.parametrize(
    ("init", "name", "file"),
    [(_seeds, "_seeds", __file__), (functools.partial(_seeds, scale=2), "_seeds", __file__),
     (_Loads().__call__, "_Loads.__call__", __file__), (_Loads(), "_Loads", ""),
     (functools.lru_cache, "lru_cache", functools.__file__)],
)  # fmt: skip
def test_a_function_is_named_with_its_place_if_it_is_the_users(init, name, file):
    recording = made_up_recording()
    if name != "lru_cache":
        assert TimedInit(init)(3) is not None
    else:
        inits._took[:] = [(init, 5)]
    inits.tell(recording, 1, 3)
    inits.tell(recording, 1, 3)  # in the worker's next round
    (line,) = recording.written
    assert (line.loader, line.worker, line.function) == (1, 3, name)
    assert line.file == ("" if name == "lru_cache" else file) and bool(line.line) == bool(line.file)


def test_one_that_fails_is_not_noted_and_its_error_has_no_frame_of_ours(monkeypatch):
    def fails(worker):
        raise OSError(worker)

    monkeypatch.setattr(worker_of_torch, "ExceptionWrapper", worker_of_torch.ExceptionWrapper)
    with pytest.raises(OSError):
        TimedInit(fails)(0)
    assert not inits._took
    try:
        TimedInit(fails)(0)
    except OSError:
        told = worker_of_torch.ExceptionWrapper(where="in a worker").exc_msg
    assert "in fails" in told and "importlib" not in told


@pytest.mark.parametrize(
    ("start_method", "own", "kind"),
    [("fork", _seeds, "TimedInit"), ("fork", None, "NoneType"), ("none", _seeds, "NoneType"),
     ("spawn", None, "WatchedInit")],
)  # fmt: skip
def test_only_forked_workers_with_a_function_need_one_that_times_it(start_method, own, kind):
    assert type(init_of(None, None, start_method, own)).__name__ == kind


def test_the_loader_and_its_iterator_have_their_own_function_again():
    loader, iterator = SimpleNamespace(worker_init_fn=_seeds), SimpleNamespace()
    with handed_over(iterator, loader, TimedInit(_seeds), None):
        iterator._worker_init_fn = loader.worker_init_fn
        assert loader.worker_init_fn is not _seeds
    assert loader.worker_init_fn is iterator._worker_init_fn is _seeds


def test_a_loader_that_keeps_its_function_is_left_as_it_is(monkeypatch):
    class Kept:
        worker_init_fn = property(lambda self: _seeds)

    monkeypatch.setattr(spawned_workers.PathFinder, "find_spec", lambda name: True)
    loader = Kept()
    with handed_over(SimpleNamespace(), loader, TimedInit(_seeds), None):
        assert loader.worker_init_fn is _seeds
