"""The last layer before a cross entropy, from the sizes in the graph of a backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from pipebench import watching
from pipebench.watch.record.program_lines import LastLayerWork
from pipebench.watch.script.head_work import last_layer
from pipebench.watch.script.unused_gradients import _children_first

B, T, D, V = 4, 16, 8, 50
LABELS = torch.full((B, T), -100)
LABELS[:, :4] = 7


def _found(loss: Any) -> LastLayerWork | None:
    order = _children_first([loss.grad_fn])
    assert order is not None
    return last_layer(order)


def _loss(logits: Any) -> Any:
    return F.cross_entropy(logits.reshape(-1, V), LABELS.reshape(-1))


@pytest.mark.parametrize("bias", [True, False])
def test_all_positions_and_their_share(bias: bool) -> None:
    body, head = torch.nn.Linear(D, D), torch.nn.Linear(D, V, bias=bias)
    found = _found(_loss(head(torch.relu(body(torch.rand(B, T, D))))))
    assert found == LastLayerWork(B * T, V, D * V / (D * V + D * D))


def test_where_only_those_that_count_are_computed_there_are_fewer_rows() -> None:
    head, keep = torch.nn.Linear(D, V), LABELS != -100
    found = _found(F.cross_entropy(head(torch.rand(B, T, D)[keep]), LABELS[keep]))
    assert found is not None and found.rows == B * 4


def test_with_classes_before_places() -> None:
    head = torch.nn.Linear(D, V)
    found = _found(F.cross_entropy(head(torch.rand(B, T, D)).transpose(1, 2), LABELS))
    assert found is not None and (found.rows, found.outputs) == (B * T, V)


def test_in_autocast() -> None:
    head = torch.nn.Linear(D, V)
    with torch.autocast("cpu", torch.bfloat16):
        found = _found(_loss(head(torch.rand(B, T, D))))
    assert found is not None and (found.rows, found.outputs) == (B * T, V)


def test_what_does_not_tell() -> None:
    head, conv = torch.nn.Linear(D, V), torch.nn.Conv1d(D, D, 1)
    x = torch.rand(B, T, D)
    assert _found(head(x).sum()) is None
    assert _found(_loss(head(x)) + _loss(head(x))) is None  # two losses
    assert _found(_loss(head(conv(x.transpose(1, 2)).transpose(1, 2)))) is None
    assert _found(_loss(head(x) + head(x))) is None  # of which layer?


def test_no_saved_tensor_is_unpacked() -> None:
    head = torch.nn.Linear(D, V)
    unpacked: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: one, lambda one: unpacked.append(one) or one):
        assert _found(_loss(head(torch.rand(B, T, D)))) is not None
    assert not unpacked


class _Texts(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 160

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        return torch.rand(T, 64), LABELS[place % B]


@pytest.mark.parametrize(("masked", "told"), [(False, True), (True, False)])
def test_a_head_over_a_vocabulary_is_told(masked: bool, told: bool) -> None:
    head = torch.nn.Linear(64, 20_000)
    optimiser = torch.optim.SGD(head.parameters(), 0.0)
    with watching() as seen:
        for x, y in DataLoader(_Texts(), 8):
            keep = y != -100 if masked else torch.ones_like(y, dtype=torch.bool)
            F.cross_entropy(head(x[keep]), y[keep]).backward()
            optimiser.step()
    assert seen.result.account is not None
    found = [one for one in seen.result.account.causes if one.code == "ignored-targets"]
    assert len(found) == told
    assert not found or found[0].values == {"ignored": 0.75, "outputs": 20_000}
