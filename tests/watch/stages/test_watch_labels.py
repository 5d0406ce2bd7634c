"""Rows that the script, or the person at the terminal, asks for by name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from watching import plain, script, watched

from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import labels


@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(method, marks=pytest.mark.long) for method in ("none", "spawn", "forkserver"))],
)
def test_spans_and_named_functions_have_rows(method: str, tmp_path: Path) -> None:
    argv = [script("labelled"), method]
    with_us = watched(argv, tmp_path, {"functions": ["__main__:tokenise", "__main__:Codec.decode"]})
    assert (with_us.status, with_us.out) == (0, plain(argv).out), with_us.err
    assert {("lookup", "label"), ("tokenise", "label"), ("Codec.decode", "label")} <= {
        (one["name"], one["kind"]) for one in with_us.watch["stages"]
    }
    assert with_us.stage("tokenise")["samples"] == 16
    assert with_us.stage("tokenise")["exclusive_s_per_sample"] >= 0.002
    assert with_us.watch["start_method"] == method


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"steps": 1}], ids=["whole", "steps"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_dataset_may_hold_what_is_timed(method: str, options: dict[str, int], tmp_path: Path) -> None:
    """Workers get it by its name, whether it was held before it was timed or since, also when recording has ended."""
    argv = [script("holding"), method]
    with_us = watched(argv, tmp_path, {"functions": ["__main__:tokenise"], **options})
    assert (with_us.status, with_us.out) == (0, plain(argv).out), with_us.err
    assert with_us.stage("tokenise")["samples"] == (4 if options else 8)  # both passes are of one loader


def test_labels_are_seen_where_torch_lies_below_a_folder_called_pipebench(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a clone that has its environment inside."""

    class Block:
        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    Block.__enter__.__code__ = Block.__enter__.__code__.replace(
        co_filename="/home/me/pipebench/.venv/torch/profiler.py"
    )
    plain = Block.__enter__
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", SimpleNamespace(record_function=Block))  # type: ignore[misc]  # a module
    patches = Patches()
    labels.watch_record_function(patches)
    once = Block.__enter__
    labels.watch_record_function(patches)
    assert once is not plain and Block.__enter__ is once
    patches.undo()
    assert Block.__enter__ is plain
