"""The figures of earlier runs on this host, kept in the cache, so that a run knows how far the next may be."""

from __future__ import annotations

import contextlib
import platform
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipebench.errors import PipebenchError
from pipebench.host.machine import cache_folder
from pipebench.host.whole_files import alone, write_whole
from pipebench.results.earlier_runs import Figures, between, figures, widened
from pipebench.results.report import Report

MOST_RUNS = 10  # of equal settings that count
MOST_KEPT = 60  # of all settings
LARGEST_FILE = 16 << 20


@dataclass(frozen=True)
class _Kept:
    runs: tuple[Figures, ...] = ()


def with_earlier(report: Report) -> Report:
    """The finished report, with intervals that hold what earlier runs with equal settings showed; remembers this one.

    Where the cache cannot be read or written, the report is as if there were no earlier run.
    """
    now = figures(report)
    if not now.costs:
        return report
    earlier = _remembered(now)
    return widened(report, between([*earlier, now]))


def _remembered(now: Figures) -> list[Figures]:
    """The earlier runs with the settings of this one, which is kept with them. Runs that end together are all kept."""
    earlier: tuple[Figures, ...] = ()
    with contextlib.suppress(PipebenchError, OSError):
        place = _place()
        place.parent.mkdir(parents=True, exist_ok=True)
        with alone(place.parent):
            earlier = _kept(place)
            write_whole(place, msgspec.json.encode(_Kept((*earlier, now)[-MOST_KEPT:])))
    return [one for one in earlier if one.settings == now.settings][1 - MOST_RUNS :]


def _kept(place: Path) -> tuple[Figures, ...]:
    try:
        if not place.is_file() or place.stat().st_size > LARGEST_FILE:
            return ()
        found = msgspec.json.decode(place.read_bytes(), type=_Kept).runs
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return tuple(one for one in found if all(map(_possible, (*one.costs.values(), *one.speedups.values()))))


def _possible(figure: float) -> bool:
    """Whether a run can find such a cost in seconds, or such a speed-up. A damaged file can hold any number."""
    return 1e-12 < figure < 1e12


def _place() -> Path:
    return cache_folder() / "runs" / f"{platform.node() or 'host'}.json"
