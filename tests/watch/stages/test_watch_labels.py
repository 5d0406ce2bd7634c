"""Rows that the script, or the person at the terminal, asks for by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import plain, script, watched


@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(method, marks=pytest.mark.slow) for method in ("none", "spawn", "forkserver"))],
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


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"steps": 1}], ids=["whole", "steps"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_dataset_may_hold_what_is_timed(method: str, options: dict[str, int], tmp_path: Path) -> None:
    """Workers get it by its name, whether it was held before it was timed or since, also when recording has ended."""
    argv = [script("holding"), method]
    with_us = watched(argv, tmp_path, {"functions": ["__main__:tokenise"], **options})
    assert (with_us.status, with_us.out) == (0, plain(argv).out), with_us.err
    assert (
        with_us.stage("tokenise")["samples"] == 4
        if options
        else {one["samples"] for one in with_us.watch["stages"] if one["name"] == "tokenise"} == {4}
    )
