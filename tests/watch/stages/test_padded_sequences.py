"""Sequences of features that are padded: counted where the batch tells how long its samples are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pipebench.watch.worker.contents import content_of

LENGTHS = [10, 20, 12, 18]
N = torch.tensor(LENGTHS)


def _padded(value: float = 0.0, places: int = 40, features: int = 3) -> torch.Tensor:
    made = torch.full((4, places, features), value)
    for sample, length in enumerate(LENGTHS):
        made[sample, :length] = 1 + torch.arange(length)[:, None].float()
    return made


SOUND = _padded()
MASK = torch.arange(40)[None] < N[:, None]
IMAGES = _padded(features=40)


@pytest.mark.parametrize(
    "batch",
    [
        (SOUND, N, torch.arange(4)),
        (SOUND, torch.arange(4), N),
        [SOUND.numpy(), N.numpy()],
        (SOUND, LENGTHS),
        {"features": SOUND, "n": N.to(torch.int32)},
        (SOUND.transpose(1, 2), N),  # features before time
        (SOUND[:, :, 0], N),  # one number for each place
        (_padded(-11.5), N),  # whatever stands for padding
        (SOUND.half(), N),
        (SOUND, MASK),
        (SOUND, ~MASK),  # as torch's attention wants it
        (SOUND, MASK.long()),
        (SOUND, MASK.numpy()),
        (SOUND, torch.arange(4 * 30).reshape(4, 30), N),  # the text of the sound is smaller
    ],
)
def test_sequences_of_known_lengths_are_padded(batch: Any) -> None:
    found = content_of(batch)
    assert found is not None and (found.columns, found.unused, found.uneven) == (40, 20, 5.0)


def test_padding_to_the_longest_is_told_apart() -> None:
    found = content_of((SOUND[:, :20], N))
    assert found is not None and (found.columns, found.unused, found.uneven) == (20, 0, 5.0)
    found = content_of((SOUND[[1, 1], :20], N[[1, 1]]))
    assert found is not None and (found.columns, found.unused, found.uneven) == (20, 0, 0.0)


_NOISY = SOUND.clone()
_NOISY[0, 39, 2] = 0.5
_FLAT = SOUND.clone()
_FLAT[:, 5:] = 0


@pytest.mark.parametrize(
    "batch",
    [
        (SOUND, torch.arange(4)),  # no lengths
        (SOUND, N - 5),  # other lengths: these places are used
        (SOUND, N + 5),  # something else than ends
        (SOUND, N * 100),
        (_NOISY, N),
        (_FLAT, N),  # zeros at the ends, too
        (IMAGES, torch.arange(4)),  # grey images with dark borders
        (IMAGES[:, None], N),
        (SOUND[:, :10], torch.tensor([8, 9, 7, 8])),  # a few features
        (torch.eye(4).repeat(1, 10)[:, :, None], torch.arange(4)),  # one-hot
        (SOUND, torch.tensor([3, 1])),
        (SOUND.to("meta"), N),
        (SOUND, N.to("meta")),
        (SOUND, N.float()),
        (SOUND, ["a", "b", "c", "d"]),
    ],
)
def test_what_is_no_padding_of_sequences(batch: Any) -> None:
    found = content_of(batch)
    assert found is None or not (found.unused or found.uneven)


def test_only_a_few_places_are_read() -> None:
    read = []

    class Table(np.ndarray[Any, Any]):
        def __getitem__(self, place: Any) -> Any:
            read.append(place)
            return np.asarray(self)[place]

    table = np.concatenate([SOUND.numpy(), np.zeros((4, 100_000, 3), "float32")], 1).view(Table)
    found = content_of((table, N))
    assert found is not None and found.unused == 100_020 and len(read) <= 4 * 4 + 1
