"""Remedies: changes of a loader that can be tried on a live run. One module each; adding one touches one file.

A module of this package has a function `propose(seen, tried)`. It gets the figures of the watched run and what was
tried of this remedy so far. It returns the next `Change` that is worth a trial, or None. Figures only decide what is
tried; the trial decides what is advised. Of changes that may gain as much, the one with the lowest `PLACE` is tried
first.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.results.advice import Change, Finding

_NO_REMEDIES = ("seen", "source", "decorated", "opening", "files", "packed_crops", "earlier")
Propose = Callable[[Any, Sequence[Finding]], Change | None]


def remedies() -> dict[str, Propose]:
    """Every remedy by its name, in the order of their places."""
    names = [found.name for found in pkgutil.iter_modules(__path__) if found.name not in _NO_REMEDIES]
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: modules[name].propose for name in sorted(modules, key=lambda one: (modules[one].PLACE, one))}
