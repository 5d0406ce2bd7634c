"""pipebench: what each stage of a PyTorch input pipeline costs, and how far it is from what the machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipebench.native.region import RandomCropFromBytes, RandomResizedCropFromBytes, decode_and_crop
    from pipebench.syncpoints.examine import syncs
    from pipebench.watch.stages.labels import span
    from pipebench.watch.with_block import watching

__version__ = "0.1.0"
__all__ = ["RandomCropFromBytes", "RandomResizedCropFromBytes", "decode_and_crop", "span", "syncs", "watching"]

_HOMES = {
    "RandomCropFromBytes": "pipebench.native.region",
    "RandomResizedCropFromBytes": "pipebench.native.region",
    "decode_and_crop": "pipebench.native.region",
    "span": "pipebench.watch.stages.labels",
    "syncs": "pipebench.syncpoints.examine",
    "watching": "pipebench.watch.with_block",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import pipebench` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
