"""Bounds how many different arguments all samples of a dataset ask a function for, from those that a worker makes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_MOST = 10_000  # keys; with more, nothing is told
_PARTS = 8  # of a dataset


@dataclass
class Asked:
    """The arguments so far, as hashes, and the `quiet` samples since the last new ones, from `parts` of the dataset.

    If the quiet samples are as many as those before them, and from every eighth of the dataset, they stand for all
    samples: those that ask for something else are, with 95 % confidence, at most 3/n of them, where n is the number of
    quiet ones (the rule of three; Hanley and Lippman-Hand, JAMA 1983). A loader that goes through a dataset in order
    makes its quiet samples in one place, so nothing is told of it.
    """

    keys: set[int] = field(default_factory=set)
    samples: int = 0
    quiet: int = 0
    parts: set[int] = field(default_factory=set)
    _new: bool = False
    _told: int = 0

    def call(self, arguments: tuple[Any, ...]) -> None:
        key = len(self.keys)  # what has no hash is new each time
        with contextlib.suppress(TypeError):
            key = hash(arguments)
        if key not in self.keys:
            self._new = True
            if len(self.keys) < _MOST:
                self.keys.add(key)

    def batch(self, indices: Sequence[Any], length: int) -> None:
        """Called when the samples of these indices are made."""
        self.samples += len(indices)
        if self._new:
            self._new, self.quiet, self._told = False, 0, 0
            self.parts.clear()
            return
        self.quiet += len(indices)
        self.parts.update(one * _PARTS // length for one in indices if type(one) is int and 0 <= one < length)

    def settled(self) -> bool:
        """Whether the quiet samples stand for all, and are twice as many as when this was last true."""
        if self.quiet < max(1, self.samples / 2, 2 * self._told) or len(self.parts) < _PARTS:
            return False
        self._told = self.quiet
        return True

    def unseen(self, length: int) -> int:
        """How many samples may ask for something else, of `length`."""
        return math.ceil(3 * length / self.quiet)
