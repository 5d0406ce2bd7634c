"""Renders the ranks of one training: which of them the others wait for, why, and what that costs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part
from pipebench.render.screen import FEWEST_ROWS
from pipebench.results.ranks import FEWEST_STEPS, Hang, LateInFew, RankRow, Ranks, SlowStage
from pipebench.units import Scale, counted, percent, printable, rate_number, seconds, seconds_scale

_FEW = 8  # ranks in the short report
_FEW_MISSING = 2
_MOST_LISTED = 4
_UNEVEN = 1.05
_WORTH_A_WORD = 0.02  # of the loop
_ROUNDS_TO_NONE = 0.005
_MOSTLY_LAST = 0.6
_WORTH_A_PART = 0.05  # of what a sample takes longer
_LEGEND = "Own work: all but backward and collectives. last: share of the steps {}."
_CUT = "+: the records of this rank have no end, so it may have loaded more."
_UNVERIFIED = "not verified on a GPU"
_PARTS = {"wait": "waits {} longer for batches", "work": "works {} longer between two collectives"}


def parts(found: Ranks, *, full: bool = False, errors: Mapping[int, str] | None = None) -> list[Part]:
    """The verdict on the ranks, and a row for each. `errors` are the exceptions that ended ranks."""
    table = [_table(found, full)] if found.steps else []
    said = *_why(found), *_in_all(found), *_outside(found), *_late(found), *_shorter_passes(found), *_uneven(found)
    if found.hang is None:
        return [Line(verdict(found), "bold"), *said, *table]
    hung = Line(_hung(found.hang, len(found.rows), errors or {}), "bold")
    before = [f"Before that: {verdict(found)}", *said] if found.straggler is not None else []
    return [hung, *before, *table]


def _hung(found: Hang, of: int, errors: Mapping[int, str]) -> str:
    """Which ranks hung, for how long, who waited for them, and what ended them."""
    no_step = f"no rank made a step for {seconds(found.s)} before the end"
    if not found.ranks:
        if len(found.waiting) == of:
            return (
                f"The ranks hung: {no_step}, and all of them waited in backward or another collective. Look for a "
                "collective that not all of them call."
            )
        return f"The ranks hung: {no_step}. Which of them held the others up is not known."
    who = f"Rank{'s' * (len(found.ranks) > 1)} {_listed(found.ranks)}"
    did = "held the others up outside the training iterations (validation, a checkpoint)" if found.outside else "hung"
    said = [f"{who} {did}: {no_step}."]
    if found.waiting:
        others = f"rank{'s' * (len(found.waiting) > 1)} {_listed(found.waiting)}"
        said.append(f"Meanwhile, {others} waited in backward or another collective.")
    for rank in found.ranks[:_FEW_MISSING]:
        if error := errors.get(rank):
            said.append(f"What ended rank {rank} shows where it was: {printable(error)}.")
    return " ".join(said)


def _listed(ranks: Iterable[int]) -> str:
    """As "1", "1 and 2", "1, 2 and 3", "0, 1, 2 and 5 more"."""
    names = [str(one) for one in ranks]
    if len(names) > _MOST_LISTED:
        names[_MOST_LISTED - 1 :] = [f"{len(names) - _MOST_LISTED + 1} more"]
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def verdict(found: Ranks) -> str:
    if len(found.rows) == 1:
        return f"1 of {found.of} ranks was seen here{_missing(found)}, so there is none to compare it with."
    seen = _seen(found)
    if not found.steps:
        return f"{seen}. No step of all of them was recorded, so they are not compared."
    if found.readers:
        return f"{seen}. {_who_loads(found)} of all of them and {_hands(found)} over, so the ranks are not compared."
    if not found.step_s:
        return f"{seen}. How long a step takes was not recorded, so what the last of them costs is not known."
    return f"{seen}. {_in_a_step(found)}"


def opening(found: Ranks) -> str:
    """The first sentence of the verdict, which says only how many ranks there are ("": it says more, or is another)."""
    return "" if found.hang is not None or len(found.rows) == 1 else f"{_seen(found)}."


def _seen(found: Ranks) -> str:
    if len(found.rows) < found.of:
        return f"{len(found.rows)} of {found.of} ranks were seen here{_missing(found)}"
    return f"{counted(len(found.rows), 'rank')} train together"


def _in_a_step(found: Ranks) -> str:
    """What waiting for the last rank costs in a step, and which rank causes it."""
    if found.hidden == "work":
        return (
            "Their own parts of a step are equally long, though they do not wait equally long for batches. A "
            "rank may wait for the others within its own work, so what the last of them costs is not known."
        )
    cost = f"{seconds(found.cost_share * found.step_s)} of each step of {seconds(found.step_s)}"
    if found.straggler is not None:
        slow = _row(found, found.straggler)
        return (
            f"Rank {slow.rank} comes last in {percent(slow.last_share)} of the steps: it "
            f"{_PARTS[found.part or 'work'].format(seconds(found.behind_s))} than {_others(found)}. That costs {cost} "
            f"({percent(found.cost_share)}; {_tried(found)})."
        )
    if found.cost_share < _WORTH_A_WORD:
        little = f"under 1 % of each step of {seconds(found.step_s)}"
        return _none(found, f"{cost} ({percent(found.cost_share)})" if found.cost_share >= _ROUNDS_TO_NONE else little)
    if (few := found.late_in_few) is not None:
        return _in_few(found, few)
    return (
        f"Waiting for the last of them costs {cost} ({percent(found.cost_share)}; {_tried(found)}). {_no_cause(found)}"
    )


def _in_few(found: Ranks, few: LateInFew) -> str:
    """Which rank held the others up in a few steps, by what, and what the other steps cost."""
    by = {"wait": "by waiting for batches", "work": "by its own work before a collective"}[few.part]
    waits = "the other rank waited" if len(found.rows) == 2 else "the others waited"
    steps_s, others_s = found.steps * found.step_s, max(0.0, found.cost_s - few.s)
    left_s = others_s / max(1, found.steps - few.steps)
    left = "next to nothing" if others_s < _ROUNDS_TO_NONE * steps_s else seconds(left_s)
    return (
        f"Rank {few.rank} came late to {counted(few.steps, 'step')} of {found.steps:,}, {by}: {waits} {seconds(few.s)} "
        f"for it ({percent(few.s / steps_s)} of all steps). In the other steps, waiting for the last one costs {left}."
    )


def _tried(found: Ranks) -> str:
    return f"predicted, {_UNVERIFIED}" if found.hidden else "predicted, not tried"


def _none(found: Ranks, cost: str) -> str:
    """That no rank costs much in a step, and what is not known of that."""
    if found.hidden:
        return (
            f"Longer waits for batches on one of them cost {cost}. Whether one works longer is not known, because the "
            f"host waits for the other ranks where it waits for its device ({_UNVERIFIED})."
        )
    if found.outside_share >= _WORTH_A_WORD or found.uneven is not None or found.late is not None:
        return f"Within the steps, waiting for the last one costs {cost}."
    return f"None holds the others up: waiting for the last one costs {cost}.{_not_slower(found)}"


def _not_slower(found: Ranks) -> str:
    """Why a rank comes last in most steps, if that costs nothing."""
    most = max(found.rows, key=lambda one: one.last_share)
    if most.last_share < _MOSTLY_LAST or most.wait_s < _MOSTLY_LAST * (most.wait_s + most.work_s):
        return ""
    return (
        f" Rank {most.rank} comes last in {percent(most.last_share)} of them, because the workers of the others load "
        "while these wait for it: its own are no slower."
    )


def _no_cause(found: Ranks) -> str:
    if found.steps < FEWEST_STEPS:
        return f"So few steps ({found.steps}) do not tell which rank causes it."
    return "No single rank is shown to cause it."


def _who_loads(found: Ranks) -> str:
    if len(found.readers) == 1:
        return f"Rank {found.readers[0]} loads the batches"
    return f"Some ranks ({len(found.readers)} of {len(found.rows)}) load the batches"


def _hands(found: Ranks) -> str:
    return "hands them" if len(found.readers) == 1 else "hand them"


def _missing(found: Ranks) -> str:
    """Which few ranks left no report: they, or what watched them, were killed."""
    missing = sorted(set(range(found.of)) - {one.rank for one in found.rows})
    return f", without rank {' and '.join(map(str, missing))}" if len(missing) <= _FEW_MISSING else ""


def next_of(found: Ranks) -> str:
    """The next move where a rank holds the others up by its own work, which no change of its loader makes shorter."""
    if (few := found.late_in_few) is not None:
        step = "that step" if few.steps == 1 else "these steps"
        what = "which samples were slow" if few.part == "wait" else "what it did there (a checkpoint, a metric, a file)"
        return f"Next: find out about {step} of rank {few.rank}, whose figures are above: {what}."
    if found.straggler is None or found.part != "work" or found.saved_share < _WORTH_A_WORD:
        return ""
    if found.tokens is not None:
        return "Next: balance the batches, so that each rank has about as many tokens."
    if found.fewer_cores is not None:
        return f"Next: give rank {found.straggler} as many cores as {_others(found)} may use."
    return (
        f"Next: find what rank {found.straggler} does for longer between two collectives (its data, a branch, logging, "
        "other programs on its cores): --full shows its phases."
    )


def _others(found: Ranks) -> str:
    return "the other rank" if len(found.rows) == 2 else "the median of the others"


def _why(found: Ranks) -> Iterable[str]:
    if (stage := found.stage) is not None:
        theirs = f"{seconds(stage.others_s)} on" if stage.others_s else "does not run on"
        yield (
            f"{printable(stage.name)} ({printable(stage.kind)}) takes {seconds(stage.s)} of a sample there, and "
            f"{theirs} {_others(found)}.{_of_worker(stage)}"
        )
    if found.tokens is not None:
        own, usual = found.tokens
        yield (
            f"A sample has {rate_number(own)} tokens there, and {rate_number(usual)} on {_others(found)}: that is more "
            "work for its model. Give each rank about as many tokens."
        )
    if found.fewer_workers is not None:
        few, usual_workers = found.fewer_workers
        with_few = f"with {counted(few, 'worker')}" if few else "without workers"
        yield f"It loads {with_few}, and {_others(found)} with {usual_workers:g}."
    if found.fewer_cores is not None:
        own, usual = found.fewer_cores
        yield f"It may use {_cores(own)}, and {_others(found)} {usual:g}."
    if (longer := found.longer) is not None:
        more = {
            "computing": longer.cpu_s,
            "without a core": longer.core_wait_s,
            "blocked (storage, a network, a lock, sleep)": longer.blocked_s,
        }
        whole = sum(more.values())
        parts = (f"{seconds(s)} {what}" for what, s in more.items() if s >= _WORTH_A_PART * whole)
        yield f"Its workers take {seconds(whole)} longer for a sample: {', '.join(parts)}."


def _cores(count: float) -> str:
    return f"{count:g} core{'' if count == 1 else 's'}"


def _of_worker(stage: SlowStage) -> str:
    return "" if stage.worker is None else f" Worker {stage.worker} causes it, with {seconds(stage.worker_s)}."


def _in_all(found: Ranks) -> Iterable[str]:
    """What the straggler costs the job, unless it is below what the report calls worth a word."""
    if found.straggler is None or found.saved_share < _WORTH_A_WORD:
        return
    stage = found.stage
    worker = f" (worker {stage.worker}, {printable(stage.name)})" if stage and stage.worker is not None else ""
    yield (
        f"In all, rank {found.straggler}{worker} costs the job {percent(found.saved_share)} of its time: "
        f"{found.hours_a_day:.1f} h of each day would be saved if it were as fast as the median rank (predicted)."
    )


def _outside(found: Ranks) -> Iterable[str]:
    """What a rank does while the others wait, but in no iteration."""
    if found.outside_rank is not None and found.outside_share >= _WORTH_A_WORD:
        waits = "which waits" if len(found.rows) == 2 else "and they wait"
        yield (
            f"Between its training iterations (validation, checkpoints, start of passes), rank {found.outside_rank} "
            f"spends {seconds(found.outside_s)} more than {_others(found)}, {waits} meanwhile: "
            f"{percent(found.outside_share)} of the time of these steps and of what is between them."
        )


def _late(found: Ranks) -> Iterable[str]:
    """Which rank the others waited for before the training."""
    if found.late is not None:
        rank, late_s = found.late
        waits = "which waited" if len(found.rows) == 2 else "and they waited"
        yield (
            f"Before the training, rank {rank} came to init_process_group {seconds(late_s)} after {_others(found)}, "
            f"{waits} there for it."
        )


def _shorter_passes(found: Ranks) -> Iterable[str]:
    """Which rank waits at the end of each pass, because it had fewer iterations."""
    if found.uneven is not None:
        (there, most), (rank, fewest) = found.uneven
        who = f"rank {rank} waits" if len(found.rows) == 2 else "those with fewer wait"
        yield (
            f"Rank {there} trained {most:,.4g} iterations a pass, and rank {rank} {fewest:,.4g}: {who} at the end of "
            "each pass for the rest. Give each rank as many batches."
        )


def _uneven(found: Ranks) -> Iterable[str]:
    """By how much what the ranks loaded differs. Where one ended early, that says nothing of the others."""
    if found.early:
        return
    amounts = {"samples": [float(one.samples) for one in found.rows]}
    tokens = [one.tokens for one in found.rows if one.tokens is not None]
    if len(tokens) == len(found.rows):
        amounts["tokens"] = tokens
    for what, each in amounts.items():
        most, least = max(each), min(each)
        if most > _UNEVEN * least:
            there, other = (found.rows[each.index(amount)].rank for amount in (most, least))
            yield f"Rank {there} loaded {most:,.0f} {what}, and rank {other} {least:,.0f}."


def _row(found: Ranks, rank: int) -> RankRow:
    return next(one for one in found.rows if one.rank == rank)


def _table(found: Ranks, full: bool) -> Table:
    rows = list(found.rows)
    if not full and len(rows) > _FEW:
        rows = sorted(sorted(rows, key=lambda one: -one.cost_s)[:_FEW], key=lambda one: one.rank)
    if not full and len(rows) > FEWEST_ROWS:  # the first rows are those that a screen always has
        rows = sorted(rows, key=lambda one: one.rank != found.straggler)
    scale = seconds_scale([max((one.wait_s + one.work_s for one in found.rows), default=0.0)])
    last = "in which it waited longest for batches" if found.hidden == "device" else "to which it came last"
    left = len(found.rows) - len(rows)
    more = (f"{counted(left, 'more rank')}: --full shows them.",) if left else ()
    if any(one.cut for one in rows):
        more = (_CUT, *more)
    return Table(
        f"Own part of a step, over {counted(found.steps, 'step')}",
        ("rank", "process", f"wait, {scale.unit}", f"own work, {scale.unit}", "last", "samples"),
        tuple(_cells(one, scale) for one in rows),
        frozenset(range(6)),
        (_LEGEND.format(last), *more) if full else more,
    )


def _cells(one: RankRow, scale: Scale) -> tuple[str, ...]:
    return (
        str(one.rank), str(one.pid), scale.number(one.wait_s), scale.number(one.work_s), percent(one.last_share),
        f"{one.samples:,}{'+' * one.cut}",
    )  # fmt: skip
