"""torchdata's StatefulDataLoader: watched as torch's own loader is, with its state untouched."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from watching import SCRIPTS, plain, script, watched

from pipebench import watching

pytest.importorskip("torchdata.stateful_dataloader")


def _patched() -> list[Any]:
    module: Any = sys.modules["torchdata.stateful_dataloader.stateful_dataloader"]
    alone, workers = module._StatefulSingleProcessDataLoaderIter, module._StatefulMultiProcessingDataLoaderIter
    return [alone.__init__, workers.__init__, workers._reset, workers._get_data, workers.__next__]


def _check(watch: dict[str, Any], method: str) -> None:
    loaders = watch["loaders"]
    assert [one["dataset"] for one in loaders] == ["Numbers", "Remembering", "Forgetting"]  # made anew by one line
    assert all(one["watched"] and one["iterations"] > 0 for one in loaders)
    assert {one["start_method"] for one in loaders} == {method}
    assert not [one for one in watch["notes"] if one["code"] in ("fault", "workers-not-watched")]
    rows = {(one["loader"], one["kind"], one["name"]): one for one in watch["stages"]}
    assert {
        (1, "transform", "double"), (1, "transform", "tensor"), (1, "getitem", "Numbers.__getitem__"),
        (2, "getitem", "Remembering.__iter__"), (3, "getitem", "Forgetting.__iter__"),
        (3, "collate", "default_collate"),
    } <= set(rows)  # fmt: skip
    # the begin of the pass that was broken off, with what workers made ahead; its rest, and one whole pass
    made = rows[1, "transform", "double"]["samples"]
    assert made == 8 + 16 + 24 if method == "none" else 8 + 16 + 24 <= made <= 24 + 16 + 24
    if method != "none":
        assert watch["hand_off"]["followed"] > 0 and watch["hand_off"]["tensors_per_batch"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "fork"])
def test_batches_and_states_are_the_same_and_every_stage_has_its_row(
    method: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    stateful: Any = __import__("stateful")
    stateful.batches(method)
    alone = capsys.readouterr().out
    with watching() as seen:
        stateful.batches(method)
    assert capsys.readouterr().out == alone and len(alone.splitlines()) == 3 * 6
    _check(dataclasses.asdict(seen.result), method)


@pytest.mark.long
@pytest.mark.parametrize(("method", "persistent"), [("spawn", "--persistent"), ("forkserver", "--anew")])
def test_the_same_in_workers_that_inherit_nothing(method: str, persistent: str, tmp_path: Path) -> None:
    argv = [script("stateful"), method, persistent, "Remembering"]
    alone, with_us = plain(argv), watched(argv, tmp_path)
    assert (with_us.status, with_us.out) == (alone.status, alone.out), with_us.err
    assert [(one["dataset"], one["watched"]) for one in with_us.watch["loaders"]] == [("Remembering", True)]
    rows = {(one["loader"], one["name"]): one["samples"] for one in with_us.watch["stages"]}
    assert 8 + 4 + 12 <= rows[1, "Remembering.__iter__"] <= 12 + 4 + 12


def test_its_iterators_are_put_back(tmp_path: Path) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    before = _patched()
    with watching() as seen:
        assert _patched() != before
        assert [batch.tolist() for batch in StatefulDataLoader(range(4), batch_size=2)] == [[0, 1], [2, 3]]  # type: ignore[arg-type]
    assert _patched() == before
    assert [(one.iterations, one.samples) for one in seen.result.loaders] == [(2, 4)]
