"""Looks that find a loop inside torch's compiler are counted apart. What is compiled here is made up."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from looked_at import seen_from_outside

from pipebench.watch.record.own_code import owner
from pipebench.watch.record.trial_lines import LoopLooks
from pipebench.watch.script import compiling
from pipebench.watch.script.compiling import compiles

TORCH = os.path.dirname(torch.__file__)


def _called_in(file: str, name: str, deep: int = 0) -> Any:
    """A function of that file and name, which calls what it gets inside so many more calls."""
    text = f"def {name}(inner, deep={deep}):\n    {name}(inner, deep - 1) if deep else inner()\n"
    names: dict[str, Any] = {}
    exec(compile(text, os.path.join(TORCH, file), "exec"), names)
    return names[name]


def _looks(looker: Any, compile_it: Any, *, early: bool = True) -> LoopLooks:
    looker.of.early = lambda loader: early
    at_work = seen_from_outside(looker.of)
    for _ in range(3):
        looker.of.came(1, sys._getframe())
        compile_it(at_work)
        at_work()
    looker.of.write(last=True)
    return [one for one in looker.written if isinstance(one, LoopLooks)][-1]


@pytest.mark.parametrize("deep", [0, 100])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("file", "name"),
    [("_dynamo/convert_frame.py", "_compile"), ("_inductor/compile_fx.py", "compile_fx_inner")],
)
def test_the_compiler_is_told_by_its_functions(looker: Any, file: str, name: str, early: bool, deep: int) -> None:
    line = _looks(looker, _called_in(file, name, deep), early=early)
    met = line.compiling
    assert (met.looks, met.turns) == (3, 3)
    assert (met.forward_ns > 0, met.other_ns > 0) == (early, not early)
    assert sum(one.looks for one in line.forward_lines) == (3 if early else 0)  # those outside of it


@pytest.mark.parametrize(
    ("file", "name"),
    [("_dynamo/eval_frame.py", "_fn"), ("_inductor/compile_fx.py", "run"), ("_inductor/output_code.py", "__call__")],
)
def test_what_was_compiled_is_no_compiler(looker: Any, file: str, name: str) -> None:
    assert _looks(looker, _called_in(file, name)).compiling.looks == 0


def test_frames_outside_of_the_compiler_stay_untouched() -> None:
    """Its C code replaces them, and a frame that somebody holds may be gone then."""
    code = SimpleNamespace(co_filename=f"{TORCH}/_dynamo/convert_frame.py", co_name="_compile")
    assert compiles(SimpleNamespace(f_code=code))  # type: ignore[arg-type]  # it has no f_back
    assert not compiles(sys._getframe())


def test_graphs_are_counted_from_the_first_loop_on(looker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {"unique_graphs": 5}
    monkeypatch.setitem(sys.modules, compiling._COUNTS, SimpleNamespace(counters={"stats": stats}))

    def compile_it(at_work: Any) -> None:
        stats["unique_graphs"] += 1

    assert _looks(looker, compile_it).compiling.graphs == 3


def test_a_torch_that_does_not_count_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, compiling._COUNTS, SimpleNamespace())
    assert compiling.graphs() == 0
    monkeypatch.delitem(sys.modules, compiling._COUNTS)
    assert compiling.graphs() == 0


def test_what_inductor_writes_is_nobodys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert owner("/tmp/torchinductor_ann/3n/c3nab.py") == "generated code"
    assert owner("/home/ann/torchinductor_notes.py") == ""
    owner.cache_clear()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/data/kept/")
    assert owner("/data/kept/ab/cab1.py") == "generated code" and owner("/data/kept_more/train.py") == ""
    owner.cache_clear()
