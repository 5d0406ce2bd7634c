"""What `pipebench check` found in a data set: files that break training, that change it, or that are good to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Effect = Literal["breaks", "changes", "note"]


@dataclass(frozen=True)
class Found:
    """One sample, shard or folder, and what is the matter with it. Both are inert text."""

    name: str
    detail: str = ""


@dataclass(frozen=True)
class Finding:
    """All that was found of one kind. `count` may be more than are kept in `found`.

    `breaks`: some loader raises an error, or a sample is lost. `changes`: what the training gets depends on the library
    that loads it. `note`: the usual code deals with it.
    """

    kind: str
    effect: Effect
    what: str
    remedy: str
    count: int
    found: tuple[Found, ...]


@dataclass(frozen=True)
class Check:
    """The result of a check. Of `listed` samples, `looked` were looked at, and `harmful` break or change training.

    A sample is harmful by its own image, or by its place in the list: a file that it lacks, or the key of another in
    its shard. It counts once. `places` are the shards and folders that break training.
    A limit left `left_out` more samples out (None: it is not known how many).
    `decoders` were held against each other, the reference first; `missing` says why others could not be used.
    """

    name: str
    listed: int
    looked: int
    harmful: int
    elapsed_s: float
    findings: tuple[Finding, ...] = ()
    decoders: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    places: int = 0
    left_out: int | None = 0

    @property
    def does_harm(self) -> bool:
        return any(one.effect != "note" for one in self.findings)
