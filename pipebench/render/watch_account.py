"""Renders where a whole run went: a sentence for each large cause, and a table with bars. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part
from pipebench.render.of_workers import without_part
from pipebench.render.watch_causes import SENTENCES
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.beginning import beginning, small_beside
from pipebench.results.watched import WatchResult
from pipebench.units import percent, printable, seconds, seconds_scale

_BAR = 16  # columns
_ROWS = 5
_FEW_ROWS = 3  # where the page has more to say
_SHORT = 0.1  # of the run: loops of which nothing can be worth a change, whatever they wait
_SMALLEST = 0.01  # of the run; smaller rows are shown as one

# the rows of the short table, each with the codes of an account that it holds
SHORT = (
    ("before the first loop", ("interpreter", "before-loops")),
    ("start-up of passes", ("start-up",)),
    ("sampler", ("sampler", "send-indices")),
    ("waiting for batches", ("wait-for-worker", "make-batch", "after-loader", "next")),
    ("receiving, unpickling", ("receive", "unpickle")),
    ("pinning", ("pin",)),
    ("host to device", ("host-to-device",)),
    ("functions of --span", ("spans",)),
    ("preparing batches", ("prepare",)),
    ("data and forward", ("before-backward",)),
    ("forward and backward", ("forward", "backward")),
    ("optimiser", ("optimiser",)),
    ("other in the loop", ("other",)),
    ("pipebench itself", ("recording",)),
    ("end of passes", ("end-of-pass",)),
    ("validation loops", ("validation",)),
    ("between loops", ("outside-loops",)),
    ("after the last loop", ("after-loops", "exit")),
    ("not recorded", ("not-recorded",)),
)

# the parts of a wait, by their codes
WAIT = {
    "sampler": "sampler",
    "send-indices": "sending indices",
    "wait-for-worker": "no batch was there",
    "receive": "receiving bytes",
    "unpickle": "unpickling",
    "pin": "pinning",
    "after-loader": "stages after the loader",
}
LONG = {
    **WAIT,
    "interpreter": "interpreter, recording",
    "before-loops": "before the first loop",
    "start-up": "start-up, first batches",
    "make-batch": "making batches",
    "next": "the rest of next()",
    "host-to-device": "host to device",
    "spans": "functions of --span",
    "prepare": "preparing batches",
    "before-backward": "data and forward",
    "other": "other in the loop",
    "recording": "pipebench itself",
    "end-of-pass": "end of passes",
    "validation": "validation loops",
    "outside-loops": "between loops",
    "after-loops": "after the last loop",
    "exit": "exit of the process",
    "not-recorded": "not recorded",
}


_COULD, _COULD_STILL = " could save about ", " could still save about "
_RUNS, _WATCHED = "run's", "watched"


def causes(result: WatchResult, of: str = _RUNS, *, nothing: bool = True) -> list[Part]:
    """The sentences about the whole run, first what could save most; none if the verdict on the loop comes first.

    `of` is what was recorded: of a part of a run, "watched". Without `nothing`, it is not said that nothing is worth a
    change.
    """
    account, begins = result.account, beginning(result)
    if account is None:
        return []
    said = list(_cut_short(result, account))
    said += [_nothing(account)] if begins.nothing and nothing else []
    small = small_beside(account)
    for one in begins.causes:
        if one.code in SENTENCES:
            told = _sentence(one, account, of)
            said.append(told.replace(_COULD, _COULD_STILL) if small and one not in small else told)
    return [Line(said[0], "bold"), *said[1:]] if said else []


def smaller_causes(result: WatchResult, part: bool = False) -> list[Part]:
    """The sentences of the causes that are too small for the begin of the report; "training" is none to change."""
    account, said = result.account, beginning(result).causes
    left = [one for one in account.causes if one not in said] if account is not None else []
    known = [one for one in left if one.code in SENTENCES and one.code != "training"]
    if account is None or not known:
        return []
    of = _WATCHED if part else _RUNS
    return ["", Line("Smaller causes", "bold"), *(f"  {_sentence(one, account, of)}" for one in known)]


def _not_recorded_s(account: Account) -> float:
    """What no record covers of the run; 0 if that is next to nothing."""
    lost = sum(one.s for one in account.rows if one.code == "not-recorded")
    return lost if lost >= _SMALLEST * account.wall_s else 0.0


def _cut_short(result: WatchResult, account: Account) -> Iterable[str]:
    """That the records end before the run: nothing of the rest is known."""
    if any(one.code == "recording-stopped" and "worker" not in one.values for one in result.notes):
        lost = _not_recorded_s(account)
        yield (
            f"Of {seconds(account.wall_s)}, {seconds(account.wall_s - lost)} were recorded: then the records could not "
            "be written. Set TMPDIR to a folder on a disk with free space, and run it again."
        )


def _nothing(account: Account) -> str:
    lost = _not_recorded_s(account)
    what, part = ("that was recorded ", f", of which {seconds(lost)} were not recorded") if lost else ("", "")
    short = account.loops_s < _SHORT * account.wall_s
    took = f": its loops took {seconds(account.loops_s)}" if short else ""
    return f"Nothing {what}in the loops of this run, {seconds(account.wall_s)} long{part}, is worth a change{took}."


def _sentence(one: Cause, account: Account, of: str) -> str:
    lost = _not_recorded_s(account)
    of, whole = ("recorded", account.wall_s - lost) if lost else (of, account.wall_s)
    part = f"{seconds(one.s)} of the {of} {seconds(whole)} ({percent(one.s / whole)})"
    unsure = " Other causes of the same time are possible." if one.unsure and "even" not in one.values else ""
    device = " Not verified on a GPU." if one.on_device else ""
    idle = without_part(one) if "idle" in one.values and one.code != "few-parts" else ""
    return printable(f"{SENTENCES[one.code](one, one.values, part)}{idle}{unsure}{device}")


def title(account: Account, part: bool = False) -> str:
    """`part`: only what was watched before trials."""
    took = seconds(account.wall_s)
    return f"Where the first {took} went, before the trials" if part else f"Where the {took} of the run went"


def table(account: Account | None, *, full: bool = False, part: bool = False) -> list[Part]:
    """Where the run went. The short table has one row for each kind; the full one has a row for each loader too."""
    if account is None or not account.wall_s or not account.rows:
        return []
    if not full:
        return _short(account)
    rows = list(_full(account.rows))
    scale = seconds_scale([account.wall_s])
    longest = max(s for _, s, _ in rows) or 1.0
    cells = tuple(
        (
            *name.split("|"),
            "█" * round(_BAR / 2 * s / longest),
            scale.number(s),
            percent(s / account.wall_s, 1),
            scale.number(saved) if saved else "",
        )
        for name, s, saved in rows
    )
    headers = ("", "loader", "", scale.unit, "share", "saves ≈")
    return [Table(title(account, part), headers, cells, frozenset({1, 3, 4, 5}), tuple(_below(account, full)))]


def _short(account: Account) -> list[Part]:
    """A line for each large row: its name, a bar, its seconds, its share, and what a change could save of it."""
    return [*_bars(account, title(account), _ROWS), *(f"  {line}" for line in _below(account, full=False))]


def of_watched(account: Account | None) -> list[Part]:
    """The largest rows of the part of a run that was watched before trials, for a page that has more to say."""
    if account is None or not account.wall_s or not account.rows:
        return []
    return _bars(account, title(account, part=True), _FEW_ROWS)


def _bars(account: Account, what: str, most: int) -> list[Part]:
    rows = list(merged(account, most))
    scale = seconds_scale([account.wall_s])
    longest = max(s for _, s, _ in rows) or 1.0
    made: list[Part] = ["", Line(f"{what}, in {scale.unit}", "bold")]
    for name, s, saved in rows:
        bar = "█" * round(_BAR * s / longest)
        end = f"   about {scale.number(saved)} less" if saved and saved >= _SMALLEST * account.wall_s else ""
        made.append(f"  {name:<21} {bar:<{_BAR}} {scale.number(s):>6} {percent(s / account.wall_s):>5}{end}")
    return made


def _below(account: Account, full: bool) -> Iterable[str]:
    if account.beside_s >= _SMALLEST * account.wall_s:
        yield f"Loops in other threads took {seconds(account.beside_s)} beside this; no row holds them."
    if full:
        yield "The rows add up. What a change can save is predicted from them, and was not tried."
    if any(one.on_device for one in account.rows):
        yield "Rows that rest on CUDA figures: not verified on a GPU."


Shown = tuple[str, float, float | None]
"""The name of a row, its seconds, and what could be saved of it."""


def short(codes: Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    """`SHORT`, and below it each of these codes that this version does not know, as a kind of its own."""
    known = {code for _, codes in SHORT for code in codes}
    return [*SHORT, *dict.fromkeys((printable(one), (one,)) for one in codes if one not in known)]


def kinds(rows: Sequence[AccountRow]) -> Iterable[tuple[str, list[AccountRow]]]:
    """The rows by their kind, in the order of a run."""
    for name, codes in short(one.code for one in rows):
        if own := [one for one in rows if one.code in codes]:
            alone = {one.code for one in own} == {"backward"}  # of loops without a loader
            yield "backward" if alone else name, own


def merged(account: Account, most: int = _ROWS) -> Iterable[Shown]:
    """The `most` largest kinds in the order of a run, a row each, and the small ones, which are one together."""
    found = [
        (name, sum(one.s for one in own), sum(one.recoverable_s or 0.0 for one in own) or None)
        for name, own in kinds(account.rows)
    ]
    least = sorted((s for _, s, _ in found), reverse=True)[min(most, len(found)) - 1]
    least = max(least, _SMALLEST * account.wall_s)
    yield from (one for one in found if one[1] >= least)
    small = [one for one in found if one[1] < least]
    if small:
        name = small[0][0] if len(small) == 1 else f"{len(small)} smaller rows"
        yield name, sum(s for _, s, _ in small), None


def _full(rows: Sequence[AccountRow]) -> Iterable[Shown]:
    """Every row. The name ends with `|` and the number of the loader."""
    for one in rows:
        loader = one.loader if one.loader is not None else ""
        yield f"{LONG.get(one.code, printable(one.code))}|{loader}", one.s, one.recoverable_s
        for inner in one.inside:
            yield f"· {LONG.get(inner.code, printable(inner.code))}|{loader}", inner.s, inner.recoverable_s
