"""What a batch shows besides samples: tokens, padding, frames, seconds of sound."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch

from pipebench.watch.read.described import content
from pipebench.watch.record.lines import Content
from pipebench.watch.worker.contents import content_of, samples_in

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


@pytest.mark.parametrize(
    ("batch", "samples"),
    [(IDS, 4), ((IDS, MASK[:2]), 4), ({"a": [np.zeros((3, 2)), 1]}, 3), ("text", 1), ([1, 2], 1), (torch.tensor(1), 1)],
)
def test_the_samples_in_a_batch(batch: Any, samples: int) -> None:
    assert samples_in(batch) == samples


def test_means_over_the_batches_that_were_looked_at() -> None:
    found = content([Content(2, 8, 60, 80), Content(2, 8, 20, 80)])
    assert found is not None
    assert (found.samples, found.tokens, found.padding_share) == (4, 20, 0.5)
    assert content([Content()]) is None
