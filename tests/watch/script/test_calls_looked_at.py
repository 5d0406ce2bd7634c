"""In some iterations of a loop, what is computed again before its backward is noticed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipebench.watch.record.sample_calls import SampleCalls
from pipebench.watch.script.line_counts import LinesOfLoops

SECOND = 1_000_000_000


class Looked:
    """A loop of iterations of 0.1 s each, in a made-up time, and what was written of their calls."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        recording: Any = SimpleNamespace(
            write=self.written.append, guarded=lambda where, act, *args: act(*args), before_stop=[]
        )
        self.lines = LinesOfLoops(recording)
        self.turn = 9

    def turns(self, count: int, work: Any, loader: int = 1, part: Any = "before", model: bool = True) -> Looked:
        for _ in range(count):
            at = self.turn * SECOND // 10
            if at >= self.lines.asked_ns:
                self.lines.begin(loader, part, self.turn, at, model)
            work(self.turn)
            self.lines.stop()
            self.turn += 1
        return self

    @property
    def calls(self) -> list[SampleCalls]:
        return [one for one in self.written if isinstance(one, SampleCalls)]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looked]:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)  # another test may have compiled a model
    yield Looked()
    assert sys.getprofile() is None


def neighbours(points: Any) -> Any:
    return torch.cdist(points, points).topk(3, largest=False).indices


def forward(turn: int) -> None:
    points = torch.rand(64, 3, generator=torch.Generator().manual_seed(turn))
    for _ in range(3):
        neighbours(points)


def test_what_each_layer_computes_again_is_noticed(looked: Looked) -> None:
    looked.turns(200, forward)
    first, *compared = looked.calls
    assert not first.functions and len(compared) == 3 and {one.per for one in looked.calls} == {"iteration"}
    for one in compared:
        (found,) = (each for each in one.functions if each.name == "neighbours")
        assert (found.calls, found.again) == (3, 2)
    assert len({one.sample for one in compared}) == 3


def test_of_a_loop_without_a_loader_it_is_what_follows_the_step(looked: Looked) -> None:
    assert looked.turns(200, forward, loader=0, part="after").calls
    assert not Looked().turns(200, forward, loader=1, part="after").calls


@pytest.mark.parametrize("where", ["compiled", "cuda", "tracing", "dispatch", "profiler"])
def test_where_tensors_may_not_be_read_nothing_is_looked_at(
    where: str, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "compiled":
        monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters={"frames": {"ok": 1}}))  # type: ignore[arg-type]
    names = {
        "cuda": "torch.cuda.is_initialized", "tracing": "torch._C._get_tracing_state",
        "dispatch": "torch._C._len_torch_dispatch_stack", "profiler": "torch.autograd._profiler_enabled",
    }  # fmt: skip
    if where in names:
        monkeypatch.setattr(names[where], lambda: 1)
    assert not looked.turns(200, forward).calls


def test_no_profile_function_is_left_in_a_fork(looked: Looked) -> None:
    def forks(turn: int) -> None:
        if sys.getprofile() is not None:
            child = os.fork()
            if not child:
                os._exit(3 if sys.getprofile() is None and looked.lines.looking is None else 4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3

    looked.turns(60, forks)
    assert looked.calls


def test_another_thread_ends_no_look(looked: Looked) -> None:
    def other(turn: int) -> None:
        if sys.getprofile() is not None:
            thread = threading.Thread(target=looked.lines.stop)
            thread.start()
            thread.join()
            forward(turn)

    looked.turns(200, other)
    assert all(any(one.name == "neighbours" for one in each.functions) for each in looked.calls[1:])
