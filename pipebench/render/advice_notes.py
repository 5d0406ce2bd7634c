"""Renders what the watched part says beside the advice: the line that takes most of loading, others' cores. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pipebench.render import watch, watch_account
from pipebench.render.advice_names import named
from pipebench.render.layout import Line, Part, Spare, Sparing, flat
from pipebench.render.screen import LATE
from pipebench.render.started import fitting
from pipebench.render.watch_verdict import TRIED, next_move
from pipebench.results.advice import Advice
from pipebench.results.beginning import beginning
from pipebench.results.drilled import DrilledLine
from pipebench.results.trial_reads import summed
from pipebench.results.watched import WatchResult
from pipebench.units import code_place, percent, printable, seconds, size

_MOST_OF_LOADING = 0.5  # of the time in which samples are made
_AFTER = LATE + 1  # causes after the first: a page leaves them out before where time went
WENT = LATE + 3
_EARLY = 10  # in the order in which a short page leaves parts out
_MUCH = 0.5  # of a core, used by other processes: then the loop may wait less than on a quiet machine
_WAITS = 1.1  # the speed-up without waits from which loading matters


class SlowLine(NamedTuple):
    """A line with its share of the time in which samples are made (0 to 1), and whether it only lets time pass."""

    share: float
    place: str
    sleeps: bool


def slow_line(advice: Advice, watched: WatchResult | None) -> SlowLine | None:
    """The line of the user's own code that takes most of the time in which samples are made.

    None: the loop hardly waits, or no line surely takes so much.
    """
    if watched is None or (advice.most is not None and advice.most < _WAITS):
        return None
    lines = [
        (row.worker_share * one.share, one)
        for row in watched.drilled
        if row.loader == advice.loader
        for one in row.lines
        if one.file and one.line and row.worker_share * one.low >= _MOST_OF_LOADING
    ]
    if not lines:
        return None
    share, found = max(lines, key=lambda one: one[0])
    return SlowLine(share, _place(found), found.sleeps)


def _place(one: DrilledLine) -> str:
    calls = f" → {printable(one.calls)}" if one.calls else ""
    return f"{code_place(one.file, one.line)}{calls}"


def of_line(found: SlowLine | None) -> str:
    """The sentence of the verdict on that line ("": there is none)."""
    if found is None:
        return ""
    change = "which sleeps: more workers sleep at once" if found.sleeps else "make that cheaper"
    return f" {percent(found.share)} of loading is {found.place}{', ' if found.sleeps else ': '}{change}."


def beside_others(watched: WatchResult | None) -> str:
    """What other processes took of the cores, before it is said that nothing gains ("": not much, or not known)."""
    used = watched.host if watched is not None else None
    if used is None or used.foreign_cores is None or used.foreign_cores < _MUCH:
        return ""
    return (
        f"Other processes used {used.foreign_cores:.2f} cores while the loop was watched. What follows holds beside "
        "them: a loop that computes longer waits less for data, so measure again on a quiet machine. "
    )


def of_threads(advice: Advice, watched: WatchResult) -> list[Sparing]:
    """That fewer threads, which gained beside other programs, may lose without them."""
    used, chosen = watched.host, advice.chosen
    if used is None or (used.foreign_cores or 0.0) < _MUCH or chosen is None or not chosen.change.loop_threads:
        return []
    return [
        "Without these other processes, all of torch's threads may be faster: try this again on a quiet machine before "
        "you keep it."
    ]


def of_discarding(advice: Advice) -> list[Sparing]:
    """That more is tried where the weights may be spoiled, if the loop would wait for data after the advised change."""
    gained = advice.chosen.gain.speedup if advice.chosen is not None and advice.chosen.gain is not None else 1.0
    hardly = advice.most is not None and advice.most < _WAITS * gained
    allowed = advice.discarded or any(one.change.discards for one in advice.findings)
    if advice.loader is None or hardly or allowed or advice.ended in ("refused", "fault"):
        return []
    said = "--yes-discard-weights also tries caches of what samples make again in each pass, and cheaper decoding."
    return [Spare((said,), _EARLY)]


def otherwise(watched: WatchResult | None) -> str:
    """What comes next where trials brought nothing: the move of the watched part, if trials cannot make it.

    They try some ways to make a stage cheaper: others are left for the user.
    """
    move = watched.next_move if watched is not None else None
    left = move is not None and (move.action not in TRIED or move.action == "make-stage-cheaper")
    told = next_move(move) if left else None
    again = f"pipebench watch --full {fitting(watched.started) if watched is not None else ''}".strip()
    return told or f"Then: `{again}` shows which stage takes the time."


def of_reads(advice: Advice) -> list[Sparing]:
    """How much of what trials read came from the page cache, and whether that made the advised change look faster."""
    read = [one.read for one in advice.findings if one.read is not None]
    found, chosen = summed(read), advice.chosen
    if not found.told:
        return []
    share = f"Of {size(found.whole)} that trials read, {percent(found.cached_share)} came from the page cache."
    if chosen is None or chosen.read is None or not chosen.read.warmer:
        return [Spare((share,), LATE)]
    own = chosen.read
    return [
        f"{share} While {named(chosen.change)} was tried, storage gave {size(own.changed_stored)} to it and "
        f"{size(own.present_stored)} to the present loader: a part of the gain may be the cache's."
    ]


def too_long(advice: Advice) -> str:
    """How long a trial of what is left takes, where the budget has time left, and less than that ("": it has none)."""
    needed = [one.needs_s for one in advice.findings if one.reason == "budget" and one.gain is None]
    shortest = min((one for one in needed if one is not None), default=None)
    left_s = advice.budget_s - advice.spent_s
    if advice.ended != "budget" or None in needed or shortest is None or not 0 < left_s < shortest:
        return ""
    took, left = seconds(shortest), seconds(left_s)
    return f"A trial of what is left takes {took} or more, and the budget leaves {left}: raise --budget."


def causes(advice: Advice, watched: WatchResult) -> list[Sparing]:
    """The sentences of the account. A short page leaves out the first of them late, or not, if it could save more.

    Where a change is named, the first one goes before the rows of where time went; else it is what there is to say.
    """
    gains = advice.followed is not None or advice.larger is not None or (advice.most or 1.0) >= _WAITS
    said = watch_account.causes(watched, of="watched", nothing=not gains)
    told: list[Part] = [_as_tried(one.text if isinstance(one, Line) else one, advice) for one in said]
    late = WENT - 1 if advice.followed is not None else WENT + 1
    first = told[:1] if _saves_more(advice, watched) else [Spare(tuple(told[:1]), late)]
    return [*first, Spare(tuple(told[1:]), _AFTER)] if told else []


def _as_tried(said: Part, advice: Advice) -> Part:
    """The same, without a word that more workers were not tried, if they were."""
    tried = any("num_workers" in one.change.settings and one.gain is not None for one in advice.findings)
    if not (isinstance(said, str) and tried and "More workers" in said):
        return said
    return said.replace("(predicted, not tried)", "(predicted)")


def _saves_more(advice: Advice, watched: WatchResult) -> bool:
    """Whether the first cause is of another loader, and could save more of the loops than the change to follow."""
    account, begins, found = watched.account, beginning(watched), advice.followed
    gain = (found.in_run() or found.predicted) if found is not None else None
    if account is None or begins.nothing or not begins.causes or gain is None:
        return False
    cause, loops_s = begins.causes[0], account.loops_s
    other = cause.loader is not None and cause.loader != advice.loader
    return other and loops_s > gain.speedup * (loops_s - cause.at_most_s)


def until_trials(watched: WatchResult) -> WatchResult:
    """The watched part without notes of workers whose end was not recorded.

    Its records end while workers go on. So that says nothing, unless it is known how they ended.
    """
    told = (one for one in watched.notes if one.code != "worker-lost" or {"signal", "status"} & set(one.values))
    return replace(watched, notes=tuple(told))


def before(watched: WatchResult) -> list[Part]:
    """Every figure of the watched part. The advice has its sentences, and says what to do next."""
    named = watch.sections(until_trials(watched), full=True, part=True)
    made = flat([part for name, parts in named if name not in ("verdict", "next") for part in parts])
    return made[1:] if made and made[0] == "" else made
