"""Tells the user's own work in a loop that does not train, as metrics, decoding or plots, from its model. Pure.

Looks at such a loop find Python at work besides the model. Where it is most of what they find, it is told, and where.
What operations of torch do there is no such work: it may be the model's own, or its loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipebench.results.account import AccountRow
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.gather import Run
from pipebench.watch.read.in_loop import as_values, enough, innermost, surely_most
from pipebench.watch.read.of_causes import MATTERS, Seen
from pipebench.watch.read.own_lines import alone
from pipebench.watch.read.slow_line import line_inside
from pipebench.watch.read.together import in_steps
from pipebench.watch.record.trial_lines import LoopLooks, PlaceLooks


def beside_model(seen: Seen, row: AccountRow, one: LoaderResult | None) -> dict[str, str | int | float]:
    """What looks say of such a loop, of which `row` is the time, as values of a cause; none if they do not say it.

    `apart_s` is how long that work took. Beside a device, nobody knows: a wait for it has the same lines.
    """
    if one is None or shares_loop(seen.run, one) or not alone(seen, one.loader):
        return {}
    own = {inside.code: inside.s for inside in row.inside}
    lines = seen.run.looks(one.loader)
    places = [place for line in lines for place in line.places]
    found = [place for place in places if place.apart]
    looks = sum(place.looks for place in places) + sum(line.later_looks for line in lines)
    count = sum(place.looks for place in found)
    sure = enough(lines, looks) and surely_most(count, looks)
    spent = own.get("other", 0.0) * count / max(1, looks)
    if not sure or "spans" in own or spent < MATTERS * seen.loops_s:
        return {}
    where = _where(found, lines, count)
    return {"apart_s": spent, **where, **line_inside(seen, one.loader, where)}


def shares_loop(run: Run, one: LoaderResult) -> bool:
    """Whether a loader trains in some of its loops, or shares the loop of another one: then its looks are of that."""
    shared = {outer[0] for outer, _ in run.around} | set[int]().union(*map(set, in_steps(run)))
    return one.training or one.loader in shared


def _where(found: Sequence[PlaceLooks], lines: Sequence[LoopLooks], looks: int) -> dict[str, str | int | float]:
    """Where most of these looks were, or the largest part of them. Lines of the loop itself count together."""
    counts = Counter[tuple[str, str]]()
    for one in found:
        counts[one.file, "".join(one.functions[:1])] += one.looks
    (file, function), most = counts.most_common(1)[0]
    same = [one for one in found if (one.file, "".join(one.functions[:1])) == (file, function)]
    by_line = Counter[int]()
    for one in same:
        by_line[one.line] += one.looks
    line, _ = by_line.most_common(1)[0]
    place = innermost(same[0]._replace(line=line), same, lines, looks)
    return as_values(*place) | ({"less": 1} if 2 * most < looks else {})
