"""What samples are read from, by place: from records of reads, and from looks at what workers wait for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipebench.results.reads import ReadPlace
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.gather import Run, added, percentile
from pipebench.watch.record.read_lines import PlaceReads, ReadSums
from pipebench.watch.record.reads import Place

_NS = 1e-9
_FEWEST = 100  # reads, for a 99th percentile
_LARGE = 0.3  # of the time, or of the looks: then a place is named as a cause


class _Of(NamedTuple):
    """In how many samples reads were counted, and how long one of the loader's samples takes in all."""

    samples: int
    sample_s: float


def reads(run: Run, loaders: Iterable[int], footprint: Footprint) -> tuple[ReadPlace, ...]:
    """The places of each loader, first the one with most of the time."""
    return tuple(one for loader in loaders for one in _of_loader(run, loader, footprint))


def _of_loader(run: Run, loader: int, footprint: Footprint) -> list[ReadPlace]:
    lines = [one for process in run.processes for one in run.shown.holds(process.of(ReadSums)) if one.loader == loader]
    looked = [one for one in lines if one.looked]
    sums = [one for _, one in run.sums(loader)]
    samples, busy_s = sum(one.samples for one in sums), sum(one.busy_ns for one in sums) * _NS
    sample_s = busy_s / samples if samples else 0.0
    all_of, some_of = _Of(samples, sample_s), _Of(sum(one.samples for one in looked), sample_s)
    waits = _looks(run, loader, footprint)
    found = [
        _place(loader, place, rows, remote, all_of if remote else some_of, waits)
        for remote in (True, False)
        for place, rows in _by_place(one for one in lines if one.looked != remote).items()
    ]
    known = {(one.kind, one.place) for one in found if not one.remote}
    found += [
        ReadPlace(loader, place[1], place[0], False, looks_share=share)
        for place, share in waits.items()
        if place not in known
    ]
    return sorted(found, key=lambda one: (-max(one.share or 0.0, one.looks_share or 0.0), one.kind, one.place))


def _by_place(lines: Iterable[ReadSums]) -> dict[Place, list[PlaceReads]]:
    found: dict[Place, list[PlaceReads]] = {}
    for line in lines:
        for one in line.places:
            found.setdefault((one.kind, one.name), []).append(one)
    return found


def _looks(run: Run, loader: int, footprint: Footprint) -> dict[Place, float]:
    """The share of the looks at a loader's workers in which these waited for a file of each mount."""
    pids = [one.pid for one in run.workers_of(loader)]
    seen = [footprint.processes[pid].over_time for pid in pids if pid in footprint.processes]
    looks = sum(one.looks for one in seen)
    counts = Counter[Place]()
    for one in seen:
        counts.update(one.waits_at)
    return {place: count / looks for place, count in counts.items()} if looks else {}


def _place(
    loader: int, place: Place, rows: Sequence[PlaceReads], remote: bool, of: _Of, waits: dict[Place, float]
) -> ReadPlace:
    count, read_s = sum(one.reads for one in rows), sum(one.read_ns for one in rows) * _NS
    read_bytes, spent_s = sum(one.read_bytes for one in rows), read_s + sum(one.open_ns for one in rows) * _NS
    told = [one.retries for one in rows if one.retries is not None]
    lengths = added(one.lengths for one in rows)
    return ReadPlace(
        loader=loader,
        place=place[1],
        kind=place[0],
        remote=remote,
        samples=of.samples,
        reads=count,
        reads_per_sample=count / of.samples if of.samples else None,
        bytes_per_s=read_bytes / read_s if read_s and read_bytes else None,
        p50_s=percentile(lengths, 0.5),
        p99_s=percentile(lengths, 0.99) if count >= _FEWEST else None,
        longest_s=percentile(lengths, 1.0),
        retries=sum(told) if told else None,
        share=min(1.0, spent_s / of.samples / of.sample_s) if of.samples and of.sample_s else None,
        looks_share=None if remote else waits.get(place),
    )


def read_values(result: WatchResult, one: LoaderResult, storage: bool = False) -> dict[str, str | int | float]:
    """What names the place that takes most of the time in which batches are made; empty if none takes much.

    With `storage`, only mounts count.
    """
    own = [each for each in result.reads if each.loader == one.loader and not (storage and each.remote)]
    most = max(own, key=lambda each: max(each.share or 0.0, each.looks_share or 0.0), default=None)
    if most is None or not most.kind or max(most.share or 0.0, most.looks_share or 0.0) < _LARGE:
        return {}
    large = most.share is not None and most.share >= _LARGE
    how = {"read_share": most.share or 0.0} if large else {"read_looks": most.looks_share or 0.0}
    return {"read_at": most.place, "read_kind": most.kind, "read_remote": int(most.remote), **how}
