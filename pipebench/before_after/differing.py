"""What differs between two reports besides their figures: machine, versions, script, workload, data, settings."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pipebench.host import identity
from pipebench.host.machine import Machine
from pipebench.results.before_after import Differing
from pipebench.results.report import Report
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.units import size

Of = Literal["machine", "versions", "script", "workload", "data", "settings", "report"]
_MACHINE = ("cpu", "usable_cores", "memory_bytes", "device")  # with another one, the figures are of another machine
_BESIDE = ("storage", "system", "start_method", "last_level_cache_bytes")
_SIZES = ("memory_bytes", "last_level_cache_bytes")
_MEMORY = 0.02  # two boots of one machine have a little more or less
_BUSY = 0.5  # cores
_DATA = 0.01  # of the mean size of an image
_SAMPLES = 0.02  # of the samples of a loader: what its workers made ahead is among them
_WRITES = ("--export-json", "--export-html", "--export-trace", "--passport", "--format")  # each has a value
_THERE = "there"
_SETTINGS = (
    ("num_workers", "workers"), ("batch_size", "batch_size"), ("start method", "start_method"), ("dataset", "dataset"),
    ("made by", "made_by"),
)  # fmt: skip


def differing(base: Report, head: Report) -> tuple[Differing, ...]:
    """All that differs: what makes the figures those of two things comes first.

    The loaders of the head have the numbers of the same loaders in the base (see `loaders`).
    """
    found = [*_script(base, head), *_machine(base, head), *_versions(base, head)]
    found += [*_workload(base, head), *_data(base, head), *_samples(base.watched, head.watched)]
    found += [*_settings(base.watched, head.watched), *_busy(base.watched, head.watched), *_sides(base, head)]
    return tuple(sorted(found, key=lambda one: not one.apart))


def _changes(of: Of, base: Any, head: Any, names: Iterable[str], apart: bool) -> Iterator[Differing]:
    for name in names:
        ours, theirs = getattr(base, name), getattr(head, name)
        if ours != theirs:
            yield Differing(of, name.replace("_", " "), _text(name, ours), _text(name, theirs), apart)


def _text(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name in _SIZES:
        return size(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _machine(base: Report, head: Report) -> Iterator[Differing]:
    ours, theirs = base.machine, head.machine
    if ours is None or theirs is None:
        if ours is not theirs:
            yield Differing("machine", "machine", _known(ours), _known(theirs), apart=True)
        return
    for one in _changes("machine", ours, theirs, _MACHINE, True):
        if one.name != "memory bytes" or abs(ours.memory_bytes / max(1, theirs.memory_bytes) - 1) > _MEMORY:
            yield dataclasses.replace(one, name=one.name.removesuffix(" bytes"))
    yield from _which(ours, theirs)
    yield from _changes("machine", ours, theirs, _BESIDE, False)


def _which(ours: Machine, theirs: Machine) -> Iterator[Differing]:
    """Another machine, although it may have the same parts; or another name, where nothing tells whose."""
    digests = identity.telling(ours.identity, theirs.identity)
    if digests is not None and digests[0] != digests[1]:
        base, head = (f"{one.host} ({digest[:6]})" for one, digest in zip((ours, theirs), digests, strict=True))
        yield Differing("machine", "machine", base, head, apart=True)
    elif ours.host != theirs.host:
        unknown = "" if digests else " (perhaps another machine)"
        yield Differing("machine", f"host{unknown}", ours.host, theirs.host)


def _known(machine: Machine | None) -> str:
    return machine.host if machine is not None else "unknown"


def _versions(base: Report, head: Report) -> Iterator[Differing]:
    if base.pipebench != head.pipebench:
        yield Differing("versions", "pipebench", base.pipebench or "unknown", head.pipebench or "unknown")
    if base.machine is None or head.machine is None:
        return
    yield from _changes("versions", base.machine, head.machine, ("python",), False)
    ours, theirs = base.machine.libraries, head.machine.libraries
    for name in dict.fromkeys([*ours, *theirs]):
        if ours.get(name) != theirs.get(name):
            yield Differing("versions", name, ours.get(name, "none"), theirs.get(name, "none"))


def _script(base: Report, head: Report) -> Iterator[Differing]:
    """The command lines of watched runs, if both are known and differ in more than where they write."""
    ours, theirs = (_command(one) if one.watched is not None else "" for one in (base, head))
    if ours and theirs and ours != theirs:
        yield Differing("script", "command line", ours, theirs)


def _command(report: Report) -> str:
    """The command line without what says where a report goes."""
    try:
        words = iter(shlex.split(report.started_by))
    except ValueError:  # its end was left out
        words = iter(report.started_by.split())
    kept = [one for one in words if one != "--force" and not (one in _WRITES and next(words, "-"))]
    return shlex.join(one for one in kept if not one.startswith(tuple(f"{name}=" for name in _WRITES)))


def _workload(base: Report, head: Report) -> Iterator[Differing]:
    ours, theirs = base.workload, head.workload
    if ours is not None and theirs is not None:
        names = [one.name for one in dataclasses.fields(ours)]
        yield from _changes("workload", ours, theirs, [one for one in names if one not in ("data", "quick")], True)
        yield from _changes("workload", ours, theirs, ["quick"], False)
    if base.training is not None and head.training is not None:
        yield from _changes("workload", base.training, head.training, ("consumer", "batch_size"), True)


def _data(base: Report, head: Report) -> Iterator[Differing]:
    if base.workload is not None and head.workload is not None:
        yield from _changes("data", base.workload, head.workload, ("data",), True)
    ours, theirs = base.data, head.data
    if ours is None or theirs is None:
        return
    yield from _changes("data", ours, theirs, ("images",), True)
    if ours.mean_bytes and theirs.mean_bytes and abs(ours.mean_bytes / theirs.mean_bytes - 1) > _DATA:
        yield Differing("data", "mean size", size(ours.mean_bytes), size(theirs.mean_bytes), apart=True)


def _settings(base: WatchResult | None, head: WatchResult | None) -> Iterator[Differing]:
    """The settings of the script's loaders: what somebody changed. Another dataset is other data."""
    if base is None or head is None:
        return
    for ours, theirs in _loaders(base, head):
        of = f" of loader {ours.loader}" if len(base.loaders) > 1 else ""
        yield from _of_loader(ours, theirs, of)
        yield from _prefetch(base, head, ours.loader, of)
    known = [{one.loader for one in side.loaders} for side in (base, head)]
    for side, others in ((base, known[1]), (head, known[0])):
        for one in side.loaders:
            if one.loader not in others:
                ends = (_THERE, "") if side is base else ("", _THERE)
                yield Differing("settings", f"loader {one.loader} ({_made(one)})", *ends)


def _loaders(base: WatchResult, head: WatchResult) -> Iterator[tuple[LoaderResult, LoaderResult]]:
    """The loaders that both runs have."""
    theirs = {one.loader: one for one in head.loaders}
    return ((one, theirs[one.loader]) for one in base.loaders if one.loader in theirs)


def _made(one: LoaderResult) -> str:
    return f"{one.dataset}, {os.path.basename(one.file)}:{one.line}" if one.file else one.dataset


def _samples(base: WatchResult | None, head: WatchResult | None) -> Iterator[Differing]:
    """How much each loader loaded: with more samples, a run is longer and no slower."""
    for ours, theirs in _loaders(base, head) if base is not None and head is not None else ():
        if abs(ours.samples - theirs.samples) > _SAMPLES * max(ours.samples, theirs.samples):
            yield Differing("workload", f"samples of loader {ours.loader}", f"{ours.samples:,}", f"{theirs.samples:,}")


def _of_loader(ours: LoaderResult, theirs: LoaderResult, of: str) -> Iterator[Differing]:
    for name, where in _SETTINGS:
        before, after = getattr(ours, where), getattr(theirs, where)
        if before != after:
            of_data = where == "dataset"
            kind: Of = "data" if of_data else "settings"
            yield Differing(kind, f"{name}{of}", _text(where, before), _text(where, after), apart=of_data)


def _prefetch(base: WatchResult, head: WatchResult, loader: int, of: str) -> Iterator[Differing]:
    ours, theirs = (
        next((one.prefetch_factor for one in side.costs if one.loader == loader), None) for side in (base, head)
    )
    if ours is not None and theirs is not None and ours != theirs:
        yield Differing("settings", f"prefetch_factor{of}", str(ours), str(theirs))


def _busy(base: WatchResult | None, head: WatchResult | None) -> Iterator[Differing]:
    """Cores that other processes used, where they were busy in one of the runs at least."""
    used = [one.host.foreign_cores for one in (base, head) if one is not None and one.host is not None]
    known = [one for one in used if one is not None]
    said = [f"{one:.1f}" for one in known]
    if len(set(said)) == 2 and max(known) >= _BUSY:
        yield Differing("machine", "cores used by others", said[0], said[1])


def _sides(base: Report, head: Report) -> Iterator[Differing]:
    if base.sync_points is not None and head.sync_points is not None:
        yield from _changes("workload", base.sync_points, head.sync_points, ("function", "device"), True)
    if base.comparison is not None and head.comparison is not None:
        yield from _changes("workload", base.comparison, head.comparison, ("base", "head"), False)
        yield from _changes("data", base.comparison, head.comparison, ("data",), True)
    studies = [{one.study: one for one in side.studies} for side in (base, head)]
    for name in dict.fromkeys([*studies[0], *studies[1]]):
        ours, theirs = (side.get(name) for side in studies)
        if ours is None or theirs is None:
            ends = ("", _THERE) if ours is None else (_THERE, "")
            yield Differing("report", f"study {name}", *ends)
            continue
        yield from _changes("workload", ours, theirs, ("size",), True)
        yield from _changes("workload", ours, theirs, ("setting",), False)
