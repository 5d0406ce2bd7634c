"""The planted scripts whose whole runs are timed, from the `best.json` of each folder of `tests/advice` that has one.

For each script: its `cause`; `remedies` and first `codes` that are right; the best change, which is what is `replaced`
in its text, each once, or the `arguments` of the script. `by_author` has such a change for remedies that `advise` can
try and cannot write; `by_hand` is the remedy that the best change is, if it cannot write that one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advice_planted import Planted, Replaced

FOLDERS = Path(__file__).parents[1] / "tests" / "advice"
_LONG = "400"  # passes, while `advise` works on it


def whole_sets() -> dict[str, tuple[Planted, ...]]:
    """By folder."""
    found = sorted(one.parent.name for one in FOLDERS.glob("*/best.json"))
    return {name: _set(name) for name in found}


def _set(folder: str) -> tuple[Planted, ...]:
    written = json.loads((FOLDERS / folder / "best.json").read_text())
    return tuple(_planted(folder, name, one) for name, one in written.items())


def _planted(folder: str, name: str, one: Mapping[str, Any]) -> Planted:
    text = (FOLDERS / folder / f"{name}.py").read_text()
    tried = ("--epochs", _LONG) if "--epochs" in text and "EPOCHS" not in text else ()
    return Planted(
        name, one["cause"], (), tuple(one.get("arguments", ())), tried, tuple(one.get("remedies", ())),
        tuple(one["codes"]), one.get("variables", {}), one.get("any_order", False), one.get("by_hand", ""), folder,
        _pairs(one.get("replaced", ())), {remedy: _pairs(pairs) for remedy, pairs in one.get("by_author", {}).items()},
        discards=True, epochs=_LONG,
    )  # fmt: skip


def _pairs(written: Any) -> Replaced:
    return tuple((old, new) for old, new in written)
