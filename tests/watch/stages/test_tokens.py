"""Tokens of batches that have no names for them, and of sequences that are packed into one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from pipebench.watch.worker.contents import content_of
from pipebench.watch.worker.tokens import Tokens, tokens_of

LENGTHS = (32, 8, 16, 20)
TEXTS = torch.arange(1000, 1128).reshape(4, 32)
for _row, _length in enumerate(LENGTHS):
    TEXTS[_row, _length:] = 0
MASK = (TEXTS > 0).long()
N = torch.tensor(LENGTHS)
IN_ROWS = Tokens(4, 76, 128)
ONE_ROW = torch.cat([TEXTS[row, :length] for row, length in enumerate(LENGTHS)])
BOUNDS = torch.tensor([0, 32, 40, 56, 76], dtype=torch.int32)
POSITIONS = torch.cat([torch.arange(length) for length in LENGTHS])
PACKED = Tokens(4, 76)
WINDOW = torch.arange(4 * 33).reshape(4, 33) % 17
TARGETS = WINDOW[:, 1:].clone()
TARGETS[:, 5:9] = -100
SEQUENCES = [TEXTS[row, :length] for row, length in enumerate(LENGTHS)]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((TEXTS, N), IN_ROWS),
        ((TEXTS, LENGTHS), IN_ROWS),
        ([TEXTS.numpy(), torch.zeros(4), N.numpy()], IN_ROWS),
        ((TEXTS, MASK), IN_ROWS),
        ((TEXTS, MASK.bool(), torch.zeros(4)), IN_ROWS),
        ((TEXTS, MASK == 0), IN_ROWS),  # a mask of padding
        ((TEXTS.flip(1), MASK.flip(1)), IN_ROWS),  # padded on the left
        ((TEXTS.flip(1), N), IN_ROWS),
        ((TEXTS.numpy()[:, ::-1], MASK.numpy()[:, ::-1]), IN_ROWS),
        ({"text": TEXTS, "n": N}, IN_ROWS),
        ((WINDOW[:, :-1], WINDOW[:, 1:]), Tokens(4, 128)),
        ({"x": WINDOW[:, :-1], "y": TARGETS}, Tokens(4, 128)),
        ((WINDOW[:, 1:], WINDOW[:, :-1]), Tokens(4, 128)),
        ((ONE_ROW, BOUNDS), PACKED),
        ((ONE_ROW[None], POSITIONS[None], torch.zeros(1)), PACKED),
        ({"input_ids": ONE_ROW[None], "cu_seq_lens_q": BOUNDS, "labels": ONE_ROW[None]}, PACKED),
        ({"input_ids": ONE_ROW[None], "position_ids": POSITIONS[None]}, PACKED),
        ({"input_ids": ONE_ROW[None]}, Tokens(1, 76)),
        ({"tokens": ONE_ROW, "cu_seqlens": BOUNDS}, PACKED),
        ({"input_ids": SEQUENCES}, PACKED),
        ({"input_ids": [one.tolist() for one in SEQUENCES]}, PACKED),
        ({"net_input": {"src_tokens": TEXTS, "src_lengths": N}, "target": TEXTS}, IN_ROWS),
        ({"input_ids": TEXTS.reshape(2, 2, 32), "attention_mask": MASK.reshape(2, 2, 32)}, Tokens(2, 76, 128)),
        (pack_sequence(SEQUENCES, enforce_sorted=False), PACKED),
        ((pack_sequence(SEQUENCES, enforce_sorted=False), torch.zeros(4)), PACKED),
        ((torch.nested.nested_tensor(SEQUENCES), torch.zeros(4)), PACKED),
        ({"input_ids": torch.nested.nested_tensor(SEQUENCES, layout=torch.jagged)}, PACKED),
    ],
)
def test_tokens_that_a_batch_shows(batch: Any, expected: Tokens) -> None:
    assert tokens_of(batch) == expected


@pytest.mark.parametrize(
    "batch",
    [
        None,
        "text",
        ["a", "b"],
        {},
        (TEXTS,),  # tokens or features: nothing tells
        (TEXTS, torch.tensor([3, 1, 2, 5])),  # classes are no lengths
        (TEXTS, torch.rand(4, 32) > 0.5),  # places that are masked to be found again
        (TEXTS, TEXTS),
        (torch.zeros(4, 32, dtype=torch.long), torch.zeros(4, 32, dtype=torch.long)),  # no label in this batch
        (TEXTS.float(), N),  # features
        (TEXTS[:, :8], N),
        (TEXTS.to("meta"), N.to("meta")),
        {"input_ids": torch.rand(4, 32)},
        {"input_ids": TEXTS.to("meta")},
        {"input_ids": ["a", "b"]},
        {"input_ids": []},
        (ONE_ROW % 100, BOUNDS),  # atoms of molecules
        (ONE_ROW, torch.arange(0, 77, 4)),  # bags of four features each
        (torch.randint(1000, (64,)), torch.arange(64)),  # classes, and the numbers of samples
        (torch.tensor([1000, 7, 8]), torch.zeros(3, dtype=torch.long)),
        (pack_sequence([torch.rand(9, 3), torch.rand(4, 3)]), torch.zeros(2)),
        (torch.nested.nested_tensor([torch.rand(9), torch.rand(4)]), torch.zeros(2)),
        (torch.zeros(4, 32, dtype=torch.long).to_sparse(), N),
        (np.zeros((0, 32), dtype=np.int64), np.zeros(0, dtype=np.int64)),
        (np.array([["a"] * 32] * 4), N),
    ],
)
def test_what_shows_no_tokens(batch: Any) -> None:
    assert tokens_of(batch) is None


LABELS = torch.full((4, 32), -100)
LABELS[:, 3:7] = TEXTS[:, 3:7]


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"input_ids": TEXTS, "labels": LABELS}, (128, 112)),
        ((TEXTS.numpy(), LABELS.numpy()), (128, 112)),
        ((torch.rand(4, 32, 8), LABELS), (128, 112)),
        ({"input_ids": TEXTS, "labels": TEXTS}, (0, 0)),
        ((TEXTS, LABELS[0, :8]), (0, 0)),
    ],
)
def test_targets_that_a_cross_entropy_leaves_out(batch: Any, told: tuple[int, int]) -> None:
    found = content_of(batch)
    assert (found is not None and (found.targets, found.ignored)) == told
