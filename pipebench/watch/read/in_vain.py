"""Tells what workers decode or transform in vain: samples, or fields of each, that a later stage drops. Pure.

Each stage of a chain of iterators, such as webdataset's, counts the items that it gave on. What stands before a
`select` and does not depend on its answer is done for those that it drops, too. A decoder makes all fields of a sample,
unless it is told which ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from pipebench.results.account import Cause
from pipebench.results.watched import LoaderResult
from pipebench.units import listed
from pipebench.watch.read.all_made import times_made
from pipebench.watch.read.begins import stream_begins
from pipebench.watch.read.chains import MAKES, chain, counts
from pipebench.watch.read.gather import Process, loaders_found
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.lines import FetchSums
from pipebench.watch.record.worker_lines import FieldSums

_SELECTS = "select"
_FEWEST = 50  # samples that came to the select
_MUCH = 0.2  # of the time in which samples are made
HALF = 0.5  # of what is to be explained: less work that is not needed is not all that is told of it
_WAITS = ("wait-for-worker", "make-batch")  # rows
FIELDS = "fields-in-vain"


class InVain(NamedTuple):
    """`made` samples came to a `select` of a loader's workers, which dropped the share `dropped` of them.

    What `stage` and others made of these took `s` seconds of each worker, on average.
    """

    made: int
    dropped: float
    stage: str
    s: float


def in_vain(seen: Seen, one: LoaderResult) -> InVain | None:
    """None if the workers of a loader drop too little of what they made."""
    found = [told for process in seen.run.workers_of(one.loader) if (told := _of_worker(process)) is not None]
    busy_s = sum(worker.busy_s for worker in seen.workers(one))
    made, kept = sum(told[0] for told in found), sum(told[1] for told in found)
    took: Counter[str] = sum((told[2] for told in found), Counter())
    if made < _FEWEST or not took or not busy_s:
        return None
    dropped = 1 - kept / made
    spent = took.total() / 1e9 * dropped
    if spent < _MUCH * busy_s:
        return None
    (stage, _), *_ = took.most_common(1)
    return InVain(made, dropped, stage, spent / max(1, one.workers))


def not_needed(seen: Seen, one: LoaderResult, whole: Cause, of: float | None = None) -> Cause | None:
    """Workers of a stream that make samples which they do not give: all samples each, or some that they drop.

    These must take a half of what is to be explained: the whole, or `of` it.
    """
    if (times := times_made(seen.run, one.loader)) is not None:
        return replace(whole, code="each-makes-all", values={**whole.values, "times": times})
    if (vain := in_vain(seen, one)) is None or vain.s < HALF * (whole.s if of is None else of):
        return None
    told: dict[str, str | int | float] = {"made": vain.made, "dropped": vain.dropped, "stage": vain.stage}
    saved = None if whole.recoverable_s is None else min(whole.recoverable_s, vain.s)
    return replace(whole, code="made-in-vain", recoverable_s=saved, values={**whole.values, **told})


def _of_worker(process: Process) -> tuple[int, int, Counter[str]] | None:
    """How many items came to a select of a worker's chain and left it, and what stages before it took.

    What runs inside a stage of the chain, as a decoder, has no count. It is taken to be before the select if nothing
    behind that makes anything, or if it decodes and so does a stage before.
    """
    select = next((one for one in chain(process) if one.stage.name == _SELECTS and one.makes), None)
    if select is None:
        return None
    took: Counter[int] = Counter()
    for line in process.of(FetchSums):
        took.update(line.stages_ns)
    kinds = {number: kind for number in took if (kind := process.stage(number).kind) in MAKES}
    stages = counts(process)
    later = any(number in kinds and number > select.number for number in stages)
    decodes = any(kinds.get(number) == "decode" for number in stages if number < select.number)
    before = [number for number in kinds if number in stages and number < select.number]
    inside = [number for number in kinds if number not in stages]
    if later:
        inside = [number for number in inside if decodes and kinds[number] == "decode"]
    spent = Counter({process.stage(one).name: took[one] for one in (*before, *inside)})
    return select.came, select.gave, spent


def fields_in_vain(seen: Seen) -> Iterable[Cause]:
    """Fields of samples that are decoded, of which a later stage drops each one.

    Without them, the loop is taken to wait as much less as each worker would work less: for later batches, and for the
    first ones of passes that begin a stream anew. What stages made of these fields later is not counted. While a device
    trains, nothing is saved.
    """
    for one in seen.in_loop:
        lines = [line for _, line in seen.run.sums(one.loader)]
        found = _fields(lines)
        vain = {name: sums for name, sums in found.items() if not sums.kept and sums.dropped >= _FEWEST}
        busy_ns, spent_ns = sum(line.busy_ns for line in lines), sum(sums.spent_ns for sums in vain.values())
        if not vain or spent_ns <= _MUCH * busy_ns:
            continue
        share = min(1.0, spent_ns / busy_ns)
        anew = _begun_anew_s(seen, one)
        spent = min(seen.s(*_WAITS, loader=one.loader) + anew, spent_ns / 1e9 / max(1, one.workers))
        first = sorted(vain, key=lambda name: -vain[name].spent_ns)
        kept = [name for name in found if name not in vain]
        decoding = spent_ns / sum(sums.spent_ns for sums in found.values())
        values: dict[str, str | int | float] = {
            "decoded": len(found), "dropped": len(vain), "names": listed(first), "share": share, "decoding": decoding,
            "only": listed([repr(name) for name in kept], most=len(kept)) if all(map(_plain, kept)) else "",
        }  # fmt: skip
        saved = min(spent, (seen.saved(*_WAITS, loader=one.loader) or 0.0) + anew) if seen.on_device else spent
        yield Cause(FIELDS, spent, saved, one.loader, values)


def _fields(lines: Iterable[FetchSums]) -> dict[str, FieldSums]:
    found: dict[str, FieldSums] = {}
    for line in lines:
        for name, sums in line.fields.items():
            before = found.get(name, FieldSums())
            found[name] = FieldSums(*map(sum, zip(before, sums, strict=True)))
    return found


def _begun_anew_s(seen: Seen, one: LoaderResult) -> float:
    """What the loop waited longer for the first batches of later passes than for others."""
    known = loaders_found(seen.run.processes).get(one.loader)
    begins = stream_begins(seen.run, known) if known is not None else None
    return min(seen.s("start-up", loader=one.loader), begins.more_s) if begins is not None else 0.0


def _plain(name: str) -> bool:
    """Whether a name can stand in a line of code as it is."""
    return bool(re.fullmatch(r"[\w.-]+", name))
