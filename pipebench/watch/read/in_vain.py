"""Tells what workers decode or transform in vain: samples of a chain that a later `select` drops. Pure.

Each stage of a chain of iterators, such as webdataset's, counts the items that it gave on. What stands before the
`select` and does not depend on its answer is done for those that it drops, too.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pipebench.results.watched import LoaderResult
from pipebench.watch.read.chains import MAKES, chain, counts
from pipebench.watch.read.gather import Process
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.lines import FetchSums

_SELECTS = "select"
_FEWEST = 50  # samples that came to the select
_MUCH = 0.2  # of the time in which samples are made


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
