"""What a loader has room for: shards of a stream, batches of a pass, memory, shared memory and open files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made
from made_up_trials import LOADER, host, watched, worker

from pipebench.predict.more_workers import more_workers
from pipebench.predict.room import Room
from pipebench.results.costs import Passport
from pipebench.results.hand_off import HandOff

HANDED = HandOff(0.001, 0.001, 500.0, 100, shared_bytes_per_batch=25e6, tensors_per_batch=100.0)


def _room(shards: int | None = None, used: Any = None, handed: HandOff | None = HANDED, **more: Any) -> Room:
    one = replace(LOADER, shards=shards)
    run = replace(watched(loader=one, used=used, workers=(worker(pss_bytes=1_000_000_000),)), hand_off=handed)
    return Room(run, one, 2, 2, **more)


@pytest.mark.parametrize(
    ("room", "most", "lacks"),
    [
        (_room(shards=3), 3, "shards"),
        (_room(batches=12), 12, "batches"),
        (_room(used=replace(host(), shared_memory_size_bytes=400_000_000, shared_memory_bytes=0)), 5, "shared-memory"),
        (_room(used=replace(host(), descriptor_limit=1600, sharing_strategy="file_descriptor")), 5, "descriptors"),
        (_room(free_bytes=4.2e9), 4, "memory"),
        (_room(handed=None, free_bytes=4e9), 4, "memory"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_lacking_is_named(room: Room, most: int, lacks: str) -> None:
    assert room.lacks(most) is None and room.lacks(most + 1) == lacks


def test_what_is_not_known_is_there() -> None:
    assert _room(handed=None).lacks(4096) is None and _room(shards=0, handed=None).lacks(4096) is None


def test_ranks_share_the_memory_for_batches() -> None:
    used = replace(host(), shared_memory_size_bytes=800_000_000, shared_memory_bytes=0)
    assert _room(used=used, ranks=2).lacks(5) is None and _room(used=used, ranks=2).lacks(6) == "shared-memory"


@pytest.mark.parametrize(("most", "found"), [(64, 8), (8, 8), (7, 7), (3, 3), (2, None)])
def test_no_more_workers_are_predicted_than_there_is_room_for(most: int, found: int | None) -> None:
    """Eight workers would bring the most. Of fewer shards, each has a worker."""
    sleeping = Passport(made(blocked=0.08, step=0.01, workers=2, iteration_s=0.04), (), 8.0)
    told = more_workers(sleeping, _room(shards=most, handed=None))
    assert (told[0] if told is not None else None) == found
