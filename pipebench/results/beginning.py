"""What the text of a watched run begins with, and the code of its verdict, from the same figures."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pipebench.results.account import Account, Cause
from pipebench.results.watched import WatchResult

OfWatch = Literal[
    "data", "training", "other-cause", "nothing-to-gain", "nothing-watched", "no-iteration", "no-such-loader",
    "no-loader", "not-followed",
]  # fmt: skip
_LOADING = (
    "small-batches",
    "sampler", "hand-off", "pin", "no-workers", "many-tensors", "workers-blocked", "storage", "stage", "pickling",
    "threads-over-cores", "cores-used-up", "head-of-line", "periodic-stalls", "uneven-workers", "few-parts",
    "slow-worker", "waiting", "workers-compete", "host-to-device", "shared-lock", "loading-takes-cores",
)  # fmt: skip
_ONCE = ("before-loops", "after-loops", "outside-loops")
_APART = ("memory-growth", "sync-points")  # said besides the first cause, whatever their size
_MOST_CAUSES, _BESIDE_FIRST = 2, 0.2
_FAR_MORE = 3.0  # times what the first cause could save: then what comes once before the loops is said, too
_ENDS_SOON_S = 1800.0  # memory that grew in each of several passes
_SMALL = 0.05  # of the run between its first loop and the end of its last one


class Beginning(NamedTuple):
    """What the text of a watched run begins with, and its code.

    What is done between the loops is said, too, where it took at least as long as the first cause, or is the next move;
    and what comes before them, where it took much longer, or first, if a change there could save more; and a wait for
    another process after the last loop, where it took longer.
    Memory comes first that grew in each pass and ends soon: then the run does, too.
    Before causes that could all save little of the run, training comes, or what is done between the loops: see
    `small_beside`.

    With `nothing`, the first sentence says that nothing in the loops is worth a change. Then the `causes` follow, first
    what could save most. Without both, the first sentence is what the verdict on the loop says.
    """

    code: OfWatch
    causes: tuple[Cause, ...] = ()
    nothing: bool = False


def small_beside(account: Account) -> tuple[Cause, ...]:
    """The parts beside which all causes of the loops could save little of the run, the largest first.

    They are training, if it takes most of the loops, and what is done between loops. Empty: some cause could save more.
    """
    causes = [one for one in account.causes if one.code not in (*_ONCE, "training", *_APART)]
    most_s = max((one.at_most_s for one in causes), default=0.0)
    if not causes or most_s >= _SMALL * account.loops_s:
        return ()
    large = [one for one in account.causes if one.code in ("training", "outside-loops")]
    large = [one for one in large if one.s >= _SMALL * account.loops_s]
    return tuple(sorted(large, key=lambda one: -one.s))


def beginning(found: WatchResult) -> Beginning:
    """The code and the first sentences of a watched run, from the same figures."""
    limit, causes = found.verdict.limit, found.account.causes if found.account is not None else ()
    in_loops = [one for one in causes if one.code not in (*_ONCE, "training", *_APART)]
    in_loops = [one for one in in_loops if one.at_most_s >= _BESIDE_FIRST * in_loops[0].ranked_s][:_MOST_CAUSES]
    between = [one for one in causes if one.code == "outside-loops"]
    judged = limit in ("data", "training")
    if found.account is None or not (in_loops or judged or (between and limit == "no-loader")):
        return Beginning(limit)
    said = in_loops or ([one for one in causes if one.code not in _APART] if judged else between)
    before = small_beside(found.account)
    if before:
        said = [*before, *in_loops]
    elif in_loops:
        moved = found.next_move is not None and found.next_move.action == "do-less-between"
        said += [one for one in between if moved or one.s >= in_loops[0].ranked_s]
        first_s = in_loops[0].ranked_s
        start = [one for one in causes if one.code == "before-loops"]
        said = [*(one for one in start if one.saving_s > first_s), *said]
        said += [one for one in start if one.saving_s <= first_s and one.s >= _FAR_MORE * first_s]
        waits = [one for one in causes if one.code == "after-loops" and "for_process" in one.values]
        said += [one for one in waits if one.s >= first_s]
    apart = [one for one in causes if one.code in _APART]
    soon = [one for one in apart if "pass_bytes" in one.values and float(one.values["lasts_s"]) <= _ENDS_SOON_S]
    said = [*soon, *said, *(one for one in apart if one not in soon)]
    if not in_loops and not any(one.code in ("outside-loops", "memory-growth") for one in causes):
        return Beginning("training" if limit == "training" else "nothing-to-gain", tuple(said), nothing=True)
    first = said[0].code
    code: OfWatch = "data" if first in _LOADING else "training" if first == "training" else "other-cause"
    return Beginning(code, tuple(said))
