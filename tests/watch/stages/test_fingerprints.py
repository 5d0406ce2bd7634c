"""What a batch holds, as a number: the same for equal batches, of the first ones of a stream's first workers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pipebench.watch.record.exclusive_time import StageTimer
from pipebench.watch.stages.held_modules import HeldModules
from pipebench.watch.worker import fetching
from pipebench.watch.worker.draws import CHECKED
from pipebench.watch.worker.fingerprints import fingerprint
from pipebench.watch.worker.split import Split


def _batch(**other: Any) -> dict[str, Any]:
    plain = {
        "ids": torch.arange(12).reshape(3, 4), "x": np.ones((3, 2), np.float32), "texts": ["a", "b"], "n": 3,
        "half": torch.ones(5, dtype=torch.bfloat16), "view": torch.arange(12.0).reshape(3, 4).T, "one": torch.tensor(1),
    }  # fmt: skip
    return plain | other


@pytest.mark.parametrize(
    "other",
    [
        {"ids": torch.arange(1, 13).reshape(3, 4)}, {"x": np.zeros((3, 2), np.float32)}, {"texts": ["a", "c"]},
        {"n": 4}, {"half": torch.zeros(5, dtype=torch.bfloat16)}, {"view": torch.arange(12.0).reshape(4, 3)},
        {"one": torch.tensor(2)},
    ],
)  # fmt: skip
def test_equal_batches_have_the_same_number_and_others_do_not(other: dict[str, Any]) -> None:
    assert fingerprint(_batch()) == fingerprint(_batch()) != 0
    assert fingerprint(_batch(**other)) != fingerprint(_batch())


def test_what_it_does_not_look_into_is_nothing() -> None:
    class Own:
        def __repr__(self) -> str:
            raise AssertionError

    class OwnTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **more: Any) -> Any:
            raise AssertionError

    sparse = torch.eye(3).to_sparse()
    odd = [Own(), sparse, torch.zeros(2).as_subclass(OwnTensor), torch.zeros(2, device="meta"), np.array([Own()])]
    assert fingerprint(odd) == fingerprint(None) == fingerprint([]) == 0


def test_of_a_large_batch_the_first_bytes_count() -> None:
    large = torch.zeros(1_000_000)
    changed = large.clone()
    changed[-1] = 1
    assert fingerprint([large, "end"]) == fingerprint([changed, "other"])


def test_it_draws_no_number_and_changes_nothing() -> None:
    batch, state = _batch(), torch.get_rng_state()
    fingerprint(batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(batch["ids"], torch.arange(12).reshape(3, 4)) and not batch["view"].is_contiguous()


@pytest.mark.parametrize(
    ("stream", "worker", "first_pass", "known"),
    [(True, 0, 0, True), (False, 0, 0, False), (True, None, 0, False), (True, 0, 1, False)],
)
def test_only_first_batches_of_the_first_workers_of_a_stream_are_looked_at(
    stream: bool, worker: int | None, first_pass: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []
    sums: Any = SimpleNamespace(
        place=SimpleNamespace(worker=worker, first_pass=first_pass), round=first_pass - 1, fetched=0, number=0,
        timer=SimpleNamespace(busy=False, begin=lambda: 0, end=lambda: None, last=1), present=None, held_open=None,
        recording=SimpleNamespace(on=True), look_into=lambda batch: None, drew=False, holds=0, created_ns=0,
        waited=SimpleNamespace(now=lambda: 0), line_counts=SimpleNamespace(counted=lambda collate: collate),
        modules=HeldModules(), split=Split(StageTimer(), 50, 0),
    )  # fmt: skip

    def batch(*args: Any) -> None:
        noted.append(sums.holds)
        sums.fetched += 1

    sums.batch = batch
    monkeypatch.setattr(fetching, "_collate", lambda one: one)
    monkeypatch.setattr(fetching.standins, "stand_in_for", lambda *_: ("dataset", lambda own: own))
    fetcher = _Stream() if stream else _Table()
    fetching.watch_fetcher(fetcher, sums)
    for _ in range(CHECKED + 2):
        fetcher.fetch([0])
    fetching.pickling.meter._made.clear()
    assert [one != 0 for one in noted] == [*[known] * CHECKED, False, False]


class _Table:
    dataset, collate_fn = [1], staticmethod(list)

    def fetch(self, index: Any) -> Any:
        return ["the same"]


class _Stream(_Table):
    dataset_iter: Iterator[int] = iter(())
