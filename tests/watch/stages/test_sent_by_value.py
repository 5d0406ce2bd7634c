"""A class or function of the main module is pickled with its code by cloudpickle, dill and what uses them.

Joblib's processes and `datasets.map` do so. What comes out elsewhere works, without pipebench, and times nothing.
"""

import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from pipebench.watch.record.exclusive_time import stages
from pipebench.watch.record.patches import Patches, is_wrapper
from pipebench.watch.stages.finding_transforms import watch_tree
from pipebench.watch.stages.iterables import watch_chain
from pipebench.watch.stages.labels import beyond_fetch, watch_functions

SCRIPT = """
class Twice:
    def __call__(self, one):
        return 2 * one

class Numbers:
    def __init__(self):
        self.source = [1, 2]

    def __iter__(self):
        return (one + 1 for one in self.source)

class Data:
    def __init__(self):
        self.transform = Twice()

def tripled(one):
    return 3 * one
"""


ELSEWHERE = """
import pickle, sys
sys.modules["pipebench"] = None
data, numbers, tripled = pickle.load(sys.stdin.buffer)
print(data.transform(4), list(numbers), tripled(5))
"""


class _Spans:
    """Counts spans outside of a fetch. It holds what cannot be pickled, as a watched script does."""

    def __init__(self) -> None:
        self.lock, self.begun = threading.Lock(), 0

    def begin(self, name: str) -> bool:
        self.begun += 1
        return True

    def end(self) -> None: ...


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A main module of which a transform, an iterable and a function are timed."""
    main: Any = types.ModuleType("__main__")
    exec(compile(SCRIPT, "train.py", "exec"), vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(beyond_fetch, "to", _Spans())
    patches = Patches()
    watch_tree(main.Data(), patches, may_change=False)
    watch_chain([main.Numbers()], patches)
    watch_functions(patches, ("__main__:tripled",))
    stages.tell_apart([main.Twice(), main.Twice()])
    yield main
    patches.undo()


@pytest.mark.parametrize("library", ["dill", "cloudpickle"])
def test_what_is_timed_here_works_where_there_is_no_pipebench(script: Any, library: str) -> None:
    pickler = pytest.importorskip(library)
    how = {"recurse": True} if library == "dill" else {}
    assert all(map(is_wrapper, (script.Twice.__call__, script.Numbers.__iter__, script.tripled)))
    sent = pickler.dumps((script.Data(), script.Numbers(), script.tripled), **how)
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], input=sent, capture_output=True, check=False)
    assert (done.stdout.decode(), done.stderr.decode()) == ("8 [2, 3] 15\n", "")


def test_the_timing_here_goes_on(script: Any) -> None:
    pytest.importorskip("dill").dumps((script.Data(), script.tripled), recurse=True)
    assert script.tripled(5) == 15 and beyond_fetch.to.begun == 1  # type: ignore[union-attr]
