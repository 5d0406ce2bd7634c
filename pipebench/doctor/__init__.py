"""What of this machine spoils a measurement or a training run. A check is one function; adding one touches one file.

A module of this package holds functions that are marked with `checking.check`. Each gets the `Host` and returns one
`Finding`. What it cannot tell it raises: then its finding is "not known", and the other checks go on.
"""

from __future__ import annotations

import importlib
import pkgutil


def discover() -> None:
    """Imports every module of this package by name, so that each check is known."""
    for found in sorted(one.name for one in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{found}")
