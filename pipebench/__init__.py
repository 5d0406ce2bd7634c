"""pipebench: what each stage of a PyTorch input pipeline costs, and how far it is from what the machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipebench.region import RandomCropFromBytes, RandomResizedCropFromBytes, decode_and_crop
    from pipebench.watch.context import watching
    from pipebench.watch.labels import span
    from pipebench.watch.syncs import syncs

__version__ = "0.1.0"
__all__ = ["RandomCropFromBytes", "RandomResizedCropFromBytes", "decode_and_crop", "span", "syncs", "watching"]

_HOMES = {
    "RandomCropFromBytes": "pipebench.region",
    "RandomResizedCropFromBytes": "pipebench.region",
    "decode_and_crop": "pipebench.region",
    "span": "pipebench.watch.labels",
    "syncs": "pipebench.watch.syncs",
    "watching": "pipebench.watch.context",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import pipebench` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
