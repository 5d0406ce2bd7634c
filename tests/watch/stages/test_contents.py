"""What a batch shows besides samples: tokens, padding, frames, seconds of sound."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch

from pipebench.watch.read.described import content
from pipebench.watch.record.worker_lines import Content
from pipebench.watch.worker.contents import _unused, content_of, samples_in

IDS = torch.ones(4, 10, dtype=torch.long)
MASK = torch.tensor([[1] * 10, [1] * 6 + [0] * 4, [1] * 2 + [0] * 8, [1] * 2 + [0] * 8])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({"input_ids": IDS, "attention_mask": MASK}, Content(1, 4, 20, 40)),
        (UserDict(input_ids=IDS, attention_mask=MASK), Content(1, 4, 20, 40)),
        ({"input_ids": IDS.numpy(), "attention_mask": MASK.numpy()}, Content(1, 4, 20, 40)),
        ({"input_ids": IDS}, Content(1, 4, 40, 0)),
        ({"video": torch.zeros(2, 16, 3, 8, 8)}, Content(1, 2, frames=32)),
        ({"video": torch.zeros(2, 3, 16, 8, 8)}, Content(1, 2, frames=32)),
        ({"input_values": torch.zeros(2, 16_000), "sampling_rate": 8_000}, Content(1, 2, seconds=4.0)),
        ({"waveform": np.zeros((2, 1, 16_000)), "sample_rate": torch.tensor([8_000, 8_000])}, Content(1, 2, seconds=4)),
        ({"waveform": torch.zeros(2, 16_000), "sample_rate": [8_000, 16_000]}, None),
        ({"waveform": torch.zeros(2, 16_000)}, None),
        ({"pixels": torch.zeros(2, 3, 8, 8)}, None),
        ([IDS, MASK], None),
        ({"input_ids": IDS.to("meta"), "attention_mask": MASK.to("meta")}, None),
    ],
)
def test_what_a_batch_shows(batch: Any, expected: Content | None) -> None:
    assert content_of(batch) == expected


_LONG = torch.zeros(4, 32, dtype=torch.long)
_LONG[0, :8], _LONG[1, :5] = 7, 7
_FLAGS = torch.arange(128).reshape(4, 32) % 7 + 1
_FLAGS[:, 20:] = 0


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((_LONG, torch.zeros(4)), (32, 24)),
        ([_LONG.numpy()], (32, 24)),
        ({"ids": _LONG, "label": torch.zeros(4)}, (32, 24)),
        ((_LONG, _LONG[:, :20]), (32, 24)),  # the widest one
        (_LONG.to(torch.uint16), (32, 24)),
        (_LONG.to(torch.uint32), (32, 24)),
        (_LONG + 1, (32, 24)),  # whatever stands for padding
        ((_LONG[:, :8], torch.zeros(4)), (0, 0)),  # features, not tokens
        ((_LONG.float(), torch.zeros(4)), (0, 0)),
        (((_LONG > 0).long(), torch.zeros(4)), (0, 0)),  # a mask, or a label for each class
        ((_LONG[:1], torch.zeros(4)), (0, 0)),  # one sample says nothing
        ((torch.arange(128).reshape(4, 32), torch.zeros(4)), (32, 0)),
        (_LONG.flip(1), (32, 24)),  # on the left
        (_FLAGS, (32, 0)),  # features of which the last are rare
        (_FLAGS.numpy(), (32, 0)),
        ("text", (0, 0)),
        (_LONG.to("meta"), (0, 0)),
    ],
)
def test_the_places_that_are_padding_in_all_samples(batch: Any, expected: tuple[int, int]) -> None:
    assert _unused(batch)[:2] == expected
    found = content_of(batch)
    assert (found is not None) == (expected[0] > 0) and (found is None or (found.columns, found.unused) == expected)


_TEXTS = torch.arange(128).reshape(4, 32) + 1
for _row, _length in enumerate((32, 8, 16, 8)):
    _TEXTS[_row, _length:] = 0
_WIDER = torch.cat([_TEXTS, torch.zeros(4, 8, dtype=torch.long)], 1)
_HISTORY = _TEXTS.clone()
_HISTORY[0, 3] = 0


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (_TEXTS, 16.0),
        (_TEXTS.numpy(), 16.0),
        (_TEXTS + 300, 16.0),  # whatever stands for padding
        (_TEXTS.flip(1), 16.0),
        (_WIDER, 16.0),  # what no sample needs is counted apart
        ({"input_ids": _TEXTS, "attention_mask": (_TEXTS > 0).long()}, 16.0),
        (_HISTORY, 0.0),  # the number stands elsewhere, too: it may mean something
        (_FLAGS, 0.0),
        (torch.full((4, 32), 7), 0.0),
        (torch.cat([_FLAGS[:, :20], _TEXTS[:, 20:]], 1), 0.0),  # two lengths only
        (torch.arange(128).reshape(4, 32), 0.0),
    ],
)
def test_the_places_that_only_longer_samples_use(batch: Any, expected: float) -> None:
    found = content_of(batch)
    assert found is not None and found.uneven == expected


def test_batches_of_like_length_have_few_such_places() -> None:
    found = content([one for one in map(content_of, (_TEXTS[[1, 3]], _TEXTS[[0, 0, 0]])) if one is not None])
    assert found is not None and found.uneven_share == 0.0
    found = content([Content(2, 8, columns=64, uneven=16.0), Content(2, 8, columns=64)])
    assert found is not None and found.uneven_share == 0.125


def test_the_share_of_them_is_that_of_all_batches() -> None:
    found = content([Content(2, 8, columns=64, unused=32), Content(2, 8, columns=64, unused=0)])
    assert found is not None and found.unused_share == 0.25 and found.tokens is None


@pytest.mark.parametrize(
    ("batch", "samples"),
    [(IDS, 4), ((IDS, MASK[:2]), 4), ({"a": [np.zeros((3, 2)), 1]}, 3), ("text", 1), ([1, 2], 1), (torch.tensor(1), 1)],
)
def test_the_samples_in_a_batch(batch: Any, samples: int) -> None:
    assert samples_in(batch) == samples


def test_batches_without_such_places_count_in_the_share() -> None:
    """Of batches that are padded to a fixed length, some have a sample of that length."""
    full = _LONG.clone()
    full[3] = 7
    found = content([one for one in map(content_of, [(_LONG,), (full,), (full,)]) if one is not None])
    assert found is not None and found.unused_share == 24 / 96


def test_means_over_the_batches_that_were_looked_at() -> None:
    found = content([Content(2, 8, 60, 80), Content(2, 8, 20, 80)])
    assert found is not None
    assert (found.samples, found.tokens, found.padding_share) == (4, 20, 0.5)
    assert content([Content()]) is None
