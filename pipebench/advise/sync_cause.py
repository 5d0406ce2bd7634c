"""Sync points that were found in the script's loop, as a cause in the account of the watched part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipebench.remedies.seen import Seen
from pipebench.results.account import Cause
from pipebench.results.watched import WatchResult
from pipebench.watch.record.trial_lines import TrialSyncs

ITERATIONS = 3
CODE = "sync-points"
_DEVICE = "cuda"
_SHOWN = 3


def worth_a_look(seen: Seen) -> bool:
    """Whether the script uses a CUDA device, or would on another machine. Others have nothing to wait for."""
    if seen.device:
        return True
    try:
        return bool(seen.made and seen.made.file) and _DEVICE in Path(seen.made.file if seen.made else "").read_text()
    except (OSError, UnicodeDecodeError):
        return False


def with_syncs(watched: WatchResult, found: TrialSyncs | None, seen: Seen) -> WatchResult:
    """The same result, whose account has the sync points as its last cause, if there are any."""
    if watched.account is None or found is None or not found.points:
        return watched
    points = sorted(found.points, key=lambda one: (-(one.lost_s or 0.0), -one.per_step))
    lost = [one.lost_s for one in points if one.lost_s is not None]
    lost_s = sum(lost) * seen.loader.iterations
    values: dict[str, str | int | float] = {
        "points": len(points), "per_step": sum(one.per_step for one in points), "device": found.device,
        "places": ", ".join(f"{_near(one.path)}:{one.line}" for one in points[:_SHOWN]),
        "operations": _names([name for one in points[:_SHOWN] for name in one.operations]),
    }  # fmt: skip
    cause = Cause(CODE, lost_s, lost_s or None, seen.loader.loader, values, on_device=not found.device)
    return replace(watched, account=replace(watched.account, causes=(*watched.account.causes, cause)))


def _names(operations: Sequence[str]) -> str:
    """The calls as the user writes them, each once."""
    return ", ".join(dict.fromkeys(one.partition(":")[0] for one in operations))


def _near(path: str) -> str:
    """The path from the current folder, if the file lies in it."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return path
