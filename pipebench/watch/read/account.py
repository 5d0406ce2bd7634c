"""Divides a whole run into rows that add up to its wall time. Pure.

The arithmetic is in whole nanoseconds, so no rounding opens a gap: what no record covers is the row "not-recorded".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from pipebench.results.account import Account, AccountRow
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.begins import first_made_ns
from pipebench.watch.read.collectives import other_alone_s
from pipebench.watch.read.compiling import compiled
from pipebench.watch.read.described import again, other_data, remade, single
from pipebench.watch.read.device_idle import besides_share, in_waits
from pipebench.watch.read.gather import NO_LOADER, Place, Process, Run, loaders_found
from pipebench.watch.read.in_loop import told_apart
from pipebench.watch.read.prepared import (
    FORWARDS,
    ROW,
    Idle,
    late_share,
    outside_ns,
    prepared,
    taken_over,
    waits_share,
)
from pipebench.watch.read.script_cpu import without_spinning
from pipebench.watch.read.together import with_training
from pipebench.watch.record.lines import LoaderFound, LoopSums, PassBegun, PassEnded
from pipebench.watch.record.record_file import SAMPLER, WAIT
from pipebench.watch.record.spent import END_OF_PASS, ROWS, START_UP, TimeSpent

_NS = 1e-9
_OUTSIDE = {"before": "before-loops", "between": "outside-loops", "after": "after-loops"}
_LAST = ("outside-loops", "after-loops", "exit", "not-recorded")

# row -> the change that could save it. What training itself needs has none.
REASONS = {
    "sampler": "sampler-ahead", "send-indices": "sampler-ahead", "wait-for-worker": "faster-loading",
    "receive": "smaller-hand-off", "unpickle": "smaller-hand-off", "pin": "pinning", "make-batch": "more-overlap",
    "after-loader": "more-overlap", "host-to-device": "overlap-copies", "other": "off-the-path",
}  # fmt: skip
_WAITS = ("wait-for-worker", "receive", "unpickle", "pin", "make-batch", "after-loader", "send-indices", "sampler")
_ENDING, _ANEW = START_REASONS = "persistent-workers", "one-iterator"  # what workers, or iterators, start anew for
_ON_DEVICE = (*_WAITS, "host-to-device", "forward", "backward", "optimiser", "other")  # where CUDA runs beside the host
_FOR_OTHERS = 0.05  # of a loop without a loader: a shorter wait for others says little of what these do meanwhile
_STEPS = 8  # passes of one batch at least that count as steps where no loop over a loader trains


class MadeInLoop(NamedTuple):
    """A loader without workers: the `share` of making batches (0 to 1) that needs a core.

    `script_cores` is how many cores the script's own process uses in its loop (None: not known).
    """

    share: float
    script_cores: float | None = None


def made_in_loop(loaders: Iterable[LoaderResult]) -> dict[int, MadeInLoop]:
    """The loaders without workers of which it is known what making a batch needs."""
    known = [one for one in loaders if not one.workers and one.sample_s and one.sample_cpu_s is not None]
    return {
        one.loader: MadeInLoop(min(1.0, (one.sample_cpu_s or 0.0) / (one.sample_s or 1.0)), one.script_cores)
        for one in known
    }


@dataclass
class Spent:
    """The nanoseconds of one run. `outside` has those outside all loops; each list in `passes` is by `ROWS`."""

    wall_ns: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    passes: dict[Place, list[int]] = field(default_factory=dict)
    beside_ns: int = 0
    cpu_ns: int = 0

    def add(self, line: TimeSpent) -> None:
        name = _OUTSIDE[line.where]
        self.outside[name] = self.outside.get(name, 0) + line.outside_ns
        for one in line.passes:
            rows = self.passes.setdefault((one.loader, one.number_of_pass), [0] * len(ROWS))
            for row, spent in enumerate(one.spent_ns):
                rows[row] += spent
        self.beside_ns += line.beside_ns
        self.cpu_ns = max(self.cpu_ns, line.cpu_ns)


def spent_in(process: Process, lived: tuple[int, int] | None = None) -> Spent | None:
    """The time of a script's process that lived from `lived[0]` to `lived[1]`; None if it wrote no such records.

    Without `lived`, it lived from its first line to its last one.
    """
    lines = process.of(TimeSpent)
    if not lines:
        return None
    end = process.moment("end")
    began, ended = lived or (process.started.at, end if end is not None else lines[-1].end)
    found = Spent(ended - began)
    found.outside["interpreter"] = lines[0].begin - began
    for line in lines:
        found.add(line)
    last = "exit" if end is not None and process.moment("stop") is None else "not-recorded"
    rest = found.wall_ns - sum(found.outside.values()) - sum(map(sum, found.passes.values()))
    found.outside[last] = found.outside.get(last, 0) + rest
    return found


def account(
    run: Run,
    lived: tuple[int, int] | None,
    busy: Mapping[int, float],
    alone: Mapping[int, MadeInLoop] | None = None,
    idle: Mapping[int, Idle] | None = None,
    cores: float = math.inf,
) -> Account | None:
    """The account of the script's process; None if it iterated no loader or its records are too few.

    `busy` is the share of their time in which the workers of a loader made batches: a loop with less to do waits for
    them. `alone` are the loaders without workers: these could not be faster than the usable `cores`. `idle` is what
    workers could take over from a loop.
    """
    script = next(iter(run.of_script()), None)
    spent = spent_in(script, lived) if script is not None else None
    if spent is None or not spent.passes:
        return None
    _between_passes(spent, outside_ns(run))
    described = loaders_found(run.processes)
    trained = run.trained_places & set(spent.passes)
    training = {loader for loader, _ in trained}
    counts = {one: sum(line.turns for line in run.turns(one)) for one in described}
    enclosing = {outer for outer, _ in run.around}
    in_step = with_training(run, training, counts) - training - {loader for loader, _ in enclosing}
    trained |= enclosing | {place for place in spent.passes if place[0] in in_step}
    groups: dict[tuple[int, bool], dict[Place, list[int]]] = {}
    for place, rows in sorted(spent.passes.items()):
        groups.setdefault((place[0], not trained or place in trained), {})[place] = rows
    anew = {loader for loader, one in described.items() if throws_away(run, one)}
    saving = {
        loader: (_one_iterator_ns if loader in anew else start_up_saving_ns)(run, one, spent)
        for loader, one in described.items()
        if remade(run, loader) != "other"  # workers cannot live on then, nor can one iterator
    }
    inside: list[AccountRow] = []
    taken = _taken(run)
    for (loader, trains), passes in groups.items():
        total = [sum(column) for column in zip(*passes.values(), strict=True)]
        apart = told_apart(run, loader)
        not_own = max(apart.device if apart is not None else 0.0, _together_share(run, total) if trains else 0.0)
        idle_shares = _idle_shares(run, loader, total)
        parts = _rows_of(loader, total, _share(saving.get(loader, {}), passes), idle_shares, not_own)
        if loader in anew:
            parts = [replace(one, reason=_ANEW) if one.reason == _ENDING else one for one in parts]
        most_s = sum(total) * _NS * (1.0 - busy.get(loader, 0.0))
        found = tuple(_at_most(one, most_s) if one.code == "other" else one for one in parts)
        if alone is not None and loader in alone:
            turns = sum(one.turns for one in run.of_loader(LoopSums, loader))
            found = tuple(_on_cores(one, total, turns, alone[loader], cores) for one in found)
        if not trained & set(passes):  # then what the loop does is its purpose
            found = tuple(
                one if one.code != "other" else replace(one, recoverable_s=None, reason=None) for one in found
            )
        if trains:
            found = tuple(_with_prepared(run, found, sum(total) * _NS, (idle or {}).get(loader)))
        part = trains or loader in anew or loader not in taken  # of training
        inside += found if part else (_untrained(loader, found, len(passes)),)
    ends = [
        AccountRow(name, spent.outside[name] * _NS) for name in ("interpreter", "before-loops") if name in spent.outside
    ]
    last = [AccountRow(name, spent.outside[name] * _NS) for name in _LAST if spent.outside.get(name)]
    return Account(
        wall_s=spent.wall_ns * _NS,
        rows=(*ends, *inside, *last),
        beside_s=spent.beside_ns * _NS,
        script_cpu_s=spent.cpu_ns * _NS,
    )


def _between_passes(spent: Spent, outside: int) -> None:
    """Moves what lies between the passes of a loop without a loader out of what comes before the backward."""
    forward = ROWS.index("forward")
    for (loader, _), rows in spent.passes.items():
        if loader == NO_LOADER and outside:
            moved_ns = min(outside, rows[forward])
            rows[forward] -= moved_ns
            outside -= moved_ns
            spent.outside["outside-loops"] = spent.outside.get("outside-loops", 0) + moved_ns


def _with_prepared(run: Run, rows: Iterable[AccountRow], loop_s: float, idle: Idle | None) -> Iterable[AccountRow]:
    """The rows, with the part of forward that only makes batches ready as a row of its own.

    What a loop without a loader does after its last step goes to the other work. If it waits for others before the
    model, these may work meanwhile: what less of that saves is not known.
    """
    rows = list(rows)
    waits_s = sum(one.s * waits_share(run, NO_LOADER) for one in rows if one.code == "before-backward")
    late_s = sum(one.s * late_share(run, NO_LOADER) for one in rows if one.code == "before-backward")
    for one in rows:
        told = prepared(run, one.loader) if one.code in FORWARDS and one.loader is not None else None
        if told is not None:
            divided_s = max(0.0, one.s - compiled(run, one.loader or NO_LOADER).forward_s)
            own = AccountRow(ROW, divided_s * told.share, one.loader)
            waits = told.rests and one.loader == NO_LOADER  # then a source that has them ready by then saves all
            saves = taken_over(told, own.s, loop_s, idle) if idle is not None and not waits else None
            saved_s = own.s if waits else None if saves is None else saves.s
            yield own if saved_s is None else replace(own, recoverable_s=saved_s, reason="in-workers")
            one = replace(one, s=one.s - own.s)
        if one.code == "before-backward":
            one = replace(one, s=one.s - late_s)
        if one.code == "other" and late_s:
            saved_s = (one.recoverable_s or 0.0) + late_s
            one = replace(one, s=one.s + late_s, recoverable_s=saved_s, reason="off-the-path")
        if one.code == "other" and waits_s >= _FOR_OTHERS * loop_s:
            one = replace(one, recoverable_s=None, reason=None)
        yield one


def _at_most(row: AccountRow, most_s: float) -> AccountRow:
    return row if row.recoverable_s is None else replace(row, recoverable_s=min(row.recoverable_s, most_s))


def _on_cores(row: AccountRow, spent: Sequence[int], turns: int, alone: MadeInLoop, cores: float) -> AccountRow:
    """What workers could save of making batches in a loop of so many iterations, with the times `spent`.

    With any number of workers, the loop takes what the cores need for all that its process does now, as far as it is no
    spinning, and training has what one worker leaves. If that is not known, the loop's own work counts as one core.
    Start-up and the end of a pass have no batches to make.
    """
    if row.code != "make-batch":
        return row
    loop_s = sum(spent[START_UP + 1 : END_OF_PASS]) * _NS
    rest_s = loop_s - row.s
    if alone.script_cores is None:
        least_s = (alone.share * row.s + rest_s) / max(1.0, cores)
    else:
        made_s = alone.share * row.s
        trained_s = without_spinning(alone.script_cores * loop_s - made_s, cores * rest_s, turns)
        least_s = max((made_s + trained_s) / cores, trained_s / max(1.0, cores - alone.share))
    return _at_most(row, max(0.0, loop_s - max(rest_s, least_s)))


def _taken(run: Run) -> set[int]:
    """The loaders from which a batch was taken. Some only start their workers: another rank hands the batches over."""
    turns = {one.loader for process in run.of_script() for one in process.of(LoopSums)}
    return turns | {one.loader for process in run.of_script() for one in process.of(PassEnded)}


def _together_share(run: Run, spent: Sequence[int]) -> float:
    """The share of "other" that may be collectives."""
    forward, optimiser, other = (spent[ROWS.index(name)] * _NS for name in ("forward", "optimiser", "other"))
    alone = other_alone_s(run, forward, optimiser)
    return 0.0 if alone is None or not other else 1 - min(1.0, alone / other)


def _idle_shares(run: Run, loader: int, spent: Sequence[int]) -> dict[str, float] | None:
    """The share of each part of the waits, and of "other", in which the device did not train; None without a device.

    Only this part costs time. What the sampler does before a pass begins is in no wait: a device is idle then. Without
    a share of "other", it is not known.
    """
    turns = run.turns(loader)
    idle = in_waits(turns)
    if idle is None:
        return None
    later = [(one.turns, 0) if one.first_wait_ns is None else (one.turns - 1, one.first_wait_ns) for one in turns]
    waits = sum(one.phases_ns[WAIT] for one in turns) - sum(first for _, first in later)  # as in `idle`: no start-up
    share = min(1.0, idle.s * sum(count for count, _ in later) / (waits * _NS)) if waits else 0.0
    besides = besides_share(run, loader)
    asked = sum(sum(one.wait_parts_ns[SAMPLER : SAMPLER + 1]) for one in run.of_loader(LoopSums, loader))
    of_waits = min(1.0, asked / max(1, spent[ROWS.index("sampler")]))
    other = {} if besides is None else {"other": besides}
    return {**dict.fromkeys(_WAITS, share), "sampler": 1 - of_waits + of_waits * share, **other}


def _rows_of(
    loader: int, spent: Sequence[int], saving_ns: Mapping[str, int], idle: Mapping[str, float] | None, not_own: float
) -> Iterable[AccountRow]:
    """The rows of one loader. `not_own` of its "other" may be a device's work or collectives: no saving."""
    for name, ns in zip(ROWS, spent, strict=True):
        if not ns:
            continue
        if loader == NO_LOADER and name == "forward":
            name = "before-backward"  # nothing tells the making of a batch from forward
        row = AccountRow(name, ns * _NS, loader)
        if idle is not None and name in _ON_DEVICE:
            row = replace(row, on_device=True)
        if name in saving_ns:
            yield replace(row, recoverable_s=min(ns, saving_ns[name]) * _NS, reason=_ENDING)
        elif name in REASONS and (part := _part(name, idle, not_own)) is not None:
            yield replace(row, recoverable_s=ns * part * _NS, reason=REASONS[name])
        else:
            yield row


def _part(name: str, idle: Mapping[str, float] | None, not_own: float) -> float | None:
    """The part of a row that a change could save; None: with a device, the loop may wait for it in that row."""
    if name == "other":
        most = 1.0 if idle is None else idle.get(name)
        return None if most is None else min(most, 1.0 - not_own)
    return 1.0 if idle is None else idle.get(name, 1.0)


def _untrained(loader: int, rows: Sequence[AccountRow], passes: int) -> AccountRow:
    """The loops of a loader that did not train, as one row. What it computes is no waste; its waits may be saved."""
    inside = tuple(rows)
    saved = [one.recoverable_s for one in inside if one.recoverable_s is not None]
    total = sum(one.s for one in inside)
    return AccountRow("validation", total, loader, sum(saved) if saved else None, "faster-loading" if saved else None,
                      inside=inside, passes=passes)  # fmt: skip


def start_up_saving_ns(run: Run, one: LoaderFound, spent: Spent) -> dict[Place, dict[str, int]]:
    """What workers that live on would save, by pass and row: later start-ups, and the ends of all passes but the last.

    A later pass must still make its first batch, and that is not saved. Its making is taken from the worker's record.
    Nor can workers live on where a pass is over other data.
    """
    passes = sorted(place for place in spent.passes if place[0] == one.loader)
    living = one.persistent and not again(run, one.loader)
    if not one.workers or living or not one.can_persist or len(passes) < 2:
        return {}
    made = first_made_ns(run, one)
    start, end = ROWS.index("start-up"), ROWS.index("end-of-pass")
    usual = max(made.values(), default=0)
    found: dict[Place, dict[str, int]] = {place: {} for place in passes}
    new = other_data(run, one.loader)
    for before, place in ((before, place) for before, place in pairwise(passes) if place[1] not in new):
        found[place]["start-up"] = max(0, spent.passes[place][start] - made.get(place, usual))
        found[before]["end-of-pass"] = spent.passes[before][end]
    return found


def throws_away(run: Run, one: LoaderFound) -> bool:
    """Whether each batch of a loader is the first of a new iterator, which throws away what its workers made ahead.

    So does `next(iter(loader))` in each step. Workers that do not live on start anew there, too: a single batch now
    and then, as for validation, is then another matter. Where no other loop trains, several of them are of the steps.
    """
    if single(run, one.loader) != "left":
        return False
    passes = len(run.of_loader(PassBegun, one.loader))
    steps = sum(line.trained for process in run.of_script() for line in process.of(LoopSums))
    of_steps = 2 * passes >= max(steps, _STEPS) if steps else passes >= _STEPS
    return (one.persistent and one.workers > 0) or of_steps


def _one_iterator_ns(run: Run, one: LoaderFound, spent: Spent) -> dict[Place, dict[str, int]]:
    """What one iterator for all batches would save. It would wait for as long as the workers need for one, at most.

    Workers that do not live on would end once.
    """
    records = [record for _, record in run.sums(one.loader)]
    busy, batches = sum(record.busy_ns for record in records), sum(record.batches for record in records)
    each, start = busy // max(1, batches) // max(1, one.workers), ROWS.index("start-up")
    end = ROWS.index("end-of-pass")
    passes = sorted(place for place in spent.passes if place[0] == one.loader)
    return {
        place: {"start-up": max(0, spent.passes[place][start] - each), "end-of-pass": spent.passes[place][end]}
        for place in passes[1:]
    }


def _share(saving: Mapping[Place, Mapping[str, int]], passes: Iterable[Place]) -> dict[str, int]:
    total: dict[str, int] = {}
    for place in passes:
        for name, ns in saving.get(place, {}).items():
            total[name] = total.get(name, 0) + ns
    return total
