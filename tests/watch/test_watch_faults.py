"""Whatever goes wrong in a script goes wrong as without us, and what was recorded until then is reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from watching import plain, script, watched


def _without_numbers(text: str) -> str:
    return re.sub(r"line \d+, in _next_data", "...", text)


@pytest.mark.parametrize("how", ["raises", "killed"])
def test_a_worker_that_fails(how: str, tmp_path: Path) -> None:
    argv = [script("faults"), how]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out) == (1, "")
    if how == "raises":
        assert _without_numbers(with_us.err).startswith(_without_numbers(alone.err))
    else:  # a signal or its queue tells of a worker's death, or both, wherever the loop happens to be
        assert all("DataLoader worker (pid" in one.err or "lost sys.stderr" in one.err for one in (alone, with_us))
    assert with_us.watch["loaders"][0]["samples"] >= 4
    assert with_us.watch["loaders"][0]["failed_batches"] == (how == "raises")
    assert any("did not end by itself" in note for note in with_us.watch["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["left", "hung"])
def test_a_worker_that_leaves_or_hangs(how: str, tmp_path: Path) -> None:
    argv = [script("faults"), how]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out)
    assert with_us.watch["loaders"][0]["samples"] >= 4


def test_no_space_for_records(tmp_path: Path) -> None:
    argv = [script("faults"), "no-space"]
    with_us = watched(argv, tmp_path)
    assert with_us.status == 0 and with_us.out.startswith("40 ")
    assert not with_us.watch["complete"]
    assert 5 < with_us.watch["iterations"] < 40
    assert [note for note in with_us.watch["notes"] if "recording stopped in the script" in note]


def test_every_kind_of_loader(tmp_path: Path) -> None:
    argv = [script("faults"), "shapes"]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out, alone.status) == (0, alone.out, 0)
    loaders = with_us.watch["loaders"]
    assert [one["iterations"] for one in loaders] == [40, 10, 3, 6, 1, 6, 10, 2, 10, 10]
    assert [one["samples"] for one in loaders][:5] == [40, 40, 10, 20, 1]
    assert with_us.watch["iterations"] == 40 + 10 + 3 + 6 + 1 + 6 + 10 + 2 + 10
    assert with_us.stage("Batched.__getitems__", "getitem")["samples"] == 40
    assert {one["loader"] for one in with_us.watch["stages"] if one["name"] == "Stream.__iter__"} == {3, 4, 5, 6}
    assert with_us.phase("forward") > 0 and with_us.phase("optimiser") > 0
    assert with_us.watch["notes"] == []
