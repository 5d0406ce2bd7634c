"""Whether making a batch draws random numbers, as augmentation at random does."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterable
from typing import Any

CHECKED = 4  # batches of each process, its first ones


def random_state() -> tuple[Any, ...]:
    """The states of the random numbers that everybody shares: Python's, torch's, and NumPy's (None: not loaded)."""
    torch: Any = sys.modules["torch"]
    numpy: Any = sys.modules.get("numpy")
    return random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy else None


def own_generators(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Generators of random numbers among some values, each with its state now."""
    return [(one, state) for one in values if (state := _state_of(one)) is not None]


def moved(generators: Iterable[tuple[Any, Any]]) -> bool:
    """Whether one of these generators has drawn numbers since its state was taken."""
    return any(_state_of(one) != state for one, state in generators)


def _state_of(one: Any) -> bytes | None:
    """The state of a generator; None of anything else. No code of a user's own class runs."""
    kind, numpy, torch = type(one), sys.modules.get("numpy"), sys.modules.get("torch")
    if kind is random.Random:
        return pickle.dumps(one.getstate())
    if torch is not None and kind is torch.Generator:
        return bytes(one.get_state().numpy())
    if numpy is not None and kind in (numpy.random.Generator, numpy.random.RandomState):
        return pickle.dumps(one.bit_generator.state if kind is numpy.random.Generator else one.get_state(legacy=False))
    return None


def drew_since(before: tuple[Any, ...]) -> bool:
    """Whether somebody drew such numbers since `before`. A generator of the script's own is not seen."""
    (python, torch, numpy), now = before, random_state()
    if python != now[0] or not bool((torch == now[1]).all()):
        return True
    return numpy is not None and (numpy[2:] != now[2][2:] or bool((numpy[1] != now[2][1]).any()))
