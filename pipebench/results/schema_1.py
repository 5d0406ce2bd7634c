"""Converts files of schema 1 to today's schema: every kind of document becomes the one root, and ratios speed-ups.

Schema 1 had a common root for `run` and `watch` only. `ab`, `study` and `calibrate` each wrote their own document. Most
of its ratios were ratios of times (below 1 is faster). The gains of `watch --bound` were speed-ups already.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import msgspec

from pipebench.results.comparison import wanted_confidence
from pipebench.results.watched import WatchResult

Document = dict[str, Any]


def migrated(document: Document) -> Document:
    """The plain values of today's report, from a document of schema 1. The caller sets the version.

    Raises `msgspec.ValidationError` if the document is of an unknown kind, or if a part is missing or impossible.
    """
    try:
        for mark, of_kind in _KINDS.items():
            if mark in document:
                return of_kind(document)
    except (KeyError, TypeError, AttributeError, ZeroDivisionError, ValueError) as error:
        raise msgspec.ValidationError(f"a part of schema 1 is missing or wrong: {error!r}") from error
    raise msgspec.ValidationError("it is none of the documents of schema 1")


def _report(document: Document) -> Document:
    """Converts a root that `run` or `watch` wrote."""
    training, watch = document.get("training"), document.get("watch")
    known = {name: value for name, value in document.items() if name not in ("watch", "calibration")}
    return {
        **known,
        "measurements": [
            _renamed(one, ratio_to_reference=("over_reference", inverted)) for one in document.get("measurements", ())
        ],
        "training": training and _training(training, document["machine"]["usable_cores"]),
        "watched": watch and {**watch, "bound": _bound(watch.get("bound"))},
        "error_of_watch": document.get("calibration"),
    }


_BOUNDS = ("bound", "busy", "device")


def _bound(found: Document | None) -> Document | None:
    gains = ("gain", "gain_busy", "gain_device")
    names = {old: (f"{new}_over_live", same) for old, new in zip(gains, _BOUNDS, strict=True)}
    return found and _renamed(found, **names)


def _training(old: Document, usable_cores: float) -> Document:
    """Converts a training part to today's form. Schema 1 saved it before `run` watched its training loop."""
    readings_s = old["live"]["readings_s"]
    iterations = len(readings_s) * old["window"]
    bound = {name: old.get(name) for name in ("live", "bound", "bound_busy", "bound_device", "window")}
    bound |= {f"{one}_over_live": inverted(old.get(f"{one}_to_live")) for one in _BOUNDS}
    bound |= {"rounds": len(readings_s), "complete": True}
    iteration_s = sum(readings_s) / iterations
    shares = old["phases"].items()
    watched: Document = {one.name: None for one in fields(WatchResult) if one.default is MISSING}
    watched |= dict.fromkeys(("stages", "workers", "slowest", "loaders", "loaders_in_loop", "notes"), ())
    watched |= {name: old[name] for name in ("wait_share", "startup_s", "start_method")}
    watched["loop"] = [{"phase": name, "share": one, "s_per_iteration": one * iteration_s} for name, one in shares]
    watched |= {"verdict": "", "status": 0, "complete": True, "usable_cores": usable_cores}
    watched |= {"bound": bound, "iterations": iterations}
    kept = ("consumer", "simulated", "batch_size", "loading", "samples_failed", "warnings")
    return {"watched": watched, **{name: old[name] for name in kept}}


def _calibration(document: Document) -> Document:
    """Converts a calibration. Schema 1 measured the added time of recording only on later batches."""
    old = document["calibration"]
    slowdowns = [{"batches": "later batches", "clock": "wall", **one} for one in old["slowdowns"]]
    return {"created": old["at"], "calibration": {**old, "slowdowns": slowdowns}}


def _study(document: Document) -> Document:
    """Converts a study. Its findings about the author's figures are left out, because they follow from its rows."""
    rows = [
        _renamed(
            {**row, "author": _author(row["author"])},
            ratio=("over_before", inverted),
            ratio_to_first=("over_first", inverted),
            ratio_to_authors=("over_authors", inverted),
        )
        for row in document["rows"]
    ]
    derived = tuple(f"{row['name']}: the author's " for row in rows)
    findings = [one for one in document["findings"] if not one.startswith(derived)]
    return {"studies": [{**document, "rows": rows, "findings": findings}]}


def _author(found: Document) -> Document:
    ratio = found["ratio"]
    return {"says": found["says"], "speedup": None if ratio is None else 1 / ratio, "over": found["over"]}


def _comparison(document: Document) -> Document:
    judged = sum(one["ratio"] is not None for one in document["changes"])
    changes = [_change(one, judged) for one in document["changes"]]
    return {"comparison": {"base": document["base"], "head": document["head"], "changes": changes}}


def _change(found: Document, judged: int) -> Document:
    ratio = ("ratio", "low", "high", "confidence")
    kept = {name: value for name, value in found.items() if name not in (*ratio, "told", "rounds_s")}
    judgement = found["ratio"] is not None and {
        "head_over_base": inverted({name: found[name] for name in ratio}),
        "rounds": len(found["rounds_s"]),
        "wanted": wanted_confidence(judged),
    }
    return {**kept, "judgement": judgement or None, "rounds": found["rounds_s"]}


_KINDS = {"machine": _report, "calibration": _calibration, "changes": _comparison, "rows": _study}


def _renamed(found: Document, **names: Any) -> Document:
    """The values under their new names. `names` gives, for each old name, the new name and a function of the value."""
    kept = {name: value for name, value in found.items() if name not in names}
    return {**kept, **{new: turned(found.get(old)) for old, (new, turned) in names.items()}}


def inverted(ratio: Document | None) -> Document | None:
    """The speed-up for a ratio of times: the inverse, with the ends of the interval exchanged."""
    if ratio is None:
        return None
    middle, low, high = (1 / ratio[name] for name in ("ratio", "high", "low"))
    return _speedup(middle, low, high, ratio["confidence"])


def same(ratio: Document | None) -> Document | None:
    """The speed-up for a ratio that was a speed-up already: only the names change."""
    return ratio and _speedup(ratio["ratio"], ratio["low"], ratio["high"], ratio["confidence"])


def _speedup(middle: float, low: float, high: float, confidence: float) -> Document:
    # `smallest_change` follows from the other figures, and Speedup computes it.
    return {"speedup": middle, "low": low, "high": high, "confidence": confidence, "smallest_change": 0.0}
