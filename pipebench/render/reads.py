"""Renders what samples are read from: a row for each bucket, host or mount. Pure; names become inert text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pipebench.render.cells import Table
from pipebench.results.reads import ReadPlace
from pipebench.results.watched import WatchResult
from pipebench.units import Scale, percent, printable, rate_number, rate_scale, seconds_scale

_FEW = 3  # rows in the short report
_LEAST = 0.01  # of the time in which batches are made: less is no matter there
_NONE = "-"
_MEANS = (  # each with the column that it is of; "": of all
    ("", "The rate is while reading."),
    ("most", "most: the longest, of fewer than 100 reads."),
    ("share", "share: of the time in which batches are made, in reads and opens."),
    ("waits", "waits: of the looks from outside, those at a worker that waited for a file there."),
)
_PYTHONS = "Reads of files are those that Python makes: what code in C reads by itself (HDF5, OpenCV) is not counted."


def spoken_place(kind: str, place: str, remote: bool) -> str:
    """A place as it is known: `s3://bucket`, `/mnt/data (nfs4)`."""
    if not kind:
        return "further places"
    if kind == "pipe":
        return f"pipe:{printable(place)}"
    return f"{printable(kind)}://{printable(place)}" if remote else f"{printable(place)} ({printable(kind)})"


def tables(result: WatchResult, *, full: bool) -> list[Table]:
    """A table for each loader whose reads were seen; in the short report, that of the verdict, if they take time."""
    made = []
    for loader, found in groupby(result.reads, key=lambda one: one.loader):
        rows = list(found)
        if not full:
            rows = [one for one in rows if _most(one) >= _LEAST][:_FEW] if loader == result.verdict.loader else []
        made += [_table(loader, rows, full)] if rows else []
    return made


def _most(one: ReadPlace) -> float:
    return max(one.share or 0.0, one.looks_share or 0.0)


def _table(loader: int, rows: Sequence[ReadPlace], full: bool) -> Table:
    scale = seconds_scale([one.p50_s for one in rows if one.p50_s])
    rates = rate_scale([one.bytes_per_s for one in rows if one.bytes_per_s])
    times = f"p50 {scale.unit}", f"p99 {scale.unit}"
    headers = ("place", "reads/sample", rates.unit, *times, "retries", "share", "waits")
    cells = [_cells(one, scale, rates) for one in rows]
    told = [any(row[index] != _NONE for row in cells) for index in range(len(headers))]
    cells = [tuple(cell if known else "" for cell, known in zip(row, told, strict=True)) for row in cells]
    spare = (1, 7, 5) if told[6] else (1, 5)
    shown = {name for name, known in zip(headers, told, strict=True) if known}
    shown |= {"", *(["most"] if any("most" in row[4] for row in cells) else [])}
    means = " ".join(said for column, said in _MEANS if column in shown)
    python = [_PYTHONS] if any(one.reads and not one.remote for one in rows) else []
    notes = (*(_counted(one) for one in rows if one.reads), *python, *([means] if full else []))
    return Table(f"Reads for loader {loader}", headers, tuple(cells), frozenset(range(1, 8)), notes, spare).filled()


def _cells(one: ReadPlace, scale: Scale, rates: Scale) -> tuple[str, ...]:
    longest = one.p99_s is None and one.longest_s is not None
    tail = one.longest_s if longest else one.p99_s
    return (
        spoken_place(one.kind, one.place, one.remote),
        _NONE if one.reads_per_sample is None else rate_number(one.reads_per_sample),
        _NONE if one.bytes_per_s is None else rates.number(one.bytes_per_s),
        _NONE if one.p50_s is None else scale.number(one.p50_s),
        _NONE if tail is None else f"{'most ' if longest else ''}{scale.number(tail)}",
        _NONE if one.retries is None else f"{one.retries:,}",
        _NONE if one.share is None else percent(one.share),
        _NONE if one.looks_share is None else percent(one.looks_share),
    )


def _counted(one: ReadPlace) -> str:
    """Of how many reads the figures are."""
    place = spoken_place(one.kind, one.place, one.remote)
    number = f"{one.reads:,} read{'' if one.reads == 1 else 's'}"
    of = f"{number} of {one.samples:,} samples"
    return f"{place}: all {of}." if one.remote else f"{place}: {of} that were looked into."


def said(values: Any) -> str:
    """Where the time goes, after a sentence on workers that wait; "" if no place takes much."""
    if "read_at" not in values:
        return ""
    place = spoken_place(str(values["read_kind"]), str(values["read_at"]), bool(values["read_remote"]))
    if "read_share" in values:
        some = "" if values["read_remote"] else " (of some samples)"
        return f" Reads from {place} take {percent(values['read_share'])} of the time in which batches are made{some}."
    return f" They waited for files on {place} in {percent(values['read_looks'])} of the looks."
