"""Whether making a batch draws random numbers, as augmentation at random does."""

from __future__ import annotations

import random
import sys
from typing import Any

CHECKED = 4  # batches of each process, its first ones


def random_state() -> tuple[Any, ...]:
    """The states of the random numbers that everybody shares: Python's, torch's, and NumPy's (None: not loaded)."""
    torch: Any = sys.modules["torch"]
    numpy: Any = sys.modules.get("numpy")
    return random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy else None


def drew_since(before: tuple[Any, ...]) -> bool:
    """Whether somebody drew such numbers since `before`. A generator of the script's own is not seen."""
    (python, torch, numpy), now = before, random_state()
    if python != now[0] or not bool((torch == now[1]).all()):
        return True
    return numpy is not None and (numpy[2:] != now[2][2:] or bool((numpy[1] != now[2][1]).any()))
