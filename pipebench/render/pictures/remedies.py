"""What each remedy brings: tried ones with their interval, predicted ones hollow, and the most that any can bring.

Where nothing was tried: what a change could save of the run, by its account.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.advice import verdict
from pipebench.render.advice_names import named
from pipebench.render.cells import Table, spoken
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Row, draw_below, in_unit, reaching, rows
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.forest import Tree, draw
from pipebench.render.pictures.sheet import Box, Sheet, note
from pipebench.results.account import Account
from pipebench.results.advice import Advice, Finding
from pipebench.results.report import Report
from pipebench.units import percent, printable, seconds, seconds_scale

_MOST = 14  # rows
_OF_WORKERS = ("stage", "cores-used-up")  # causes that may hold what training waits for their cores
_KEY = "Filled: tried on this run, with its interval. Hollow: predicted."
_SAVES = {
    "persistent-workers": "workers that stay",
    "one-iterator": "one iterator",
    "faster-loading": "faster loading",
    "more-overlap": "loading beside training",
    "sampler-ahead": "a cheaper sampler",
    "smaller-hand-off": "a smaller hand-off",
    "pinning": "pinning beside the loop",
    "overlap-copies": "copies beside computing",
    "off-the-path": "less besides training",
    "in-workers": "work in the workers",
    "one-tensor": "samples in one tensor",
    "less-kept": "keeping less",
    "kept-outputs": "kept outputs",
    "unused-gradients": "no unused gradients",
}


def pictures(report: Report) -> Iterator[Picture]:
    account = report.watched.account if report.watched is not None else None
    if report.advice is not None:
        yield from _tried(report.advice)
    elif account is not None and account.wall_s:
        yield from _savings(account)


def _tried(advice: Advice) -> Iterator[Picture]:
    shown = [place for place, one in enumerate(advice.findings) if one.gain or one.predicted or one.change.predicted]
    shown.sort(key=lambda place: (advice.findings[place].change.knock_out, -_size(advice.findings[place])))
    if advice.best in shown[_MOST:]:
        shown[_MOST - 1] = advice.best
    trees = [_tree(advice, place) for place in shown[:_MOST]]
    if not trees:
        return
    bound = (advice.most, "no wait for data:") if advice.most else None
    cells = tuple((_name(one), _kind(one), _words(one), one.change.cost) for one in advice.findings)
    table = Table("", ("remedy", "", "speed-up", "cost"), cells, frozenset({2}))
    yield picture(
        "remedies", "remedies", "What each remedy brings", verdict(advice), table,
        lambda sheet: draw(sheet, trees, "speed-up of the training loop", bound, _KEY),
    )  # fmt: skip


def _tree(advice: Advice, place: int) -> Tree:
    one = advice.findings[place]
    colour = "7" if one.change.knock_out else "2" if place == advice.best else "0"
    if one.gain is not None:
        return Tree(_name(one), one.gain, colour, strong=place == advice.best)
    if one.predicted is not None:
        return Tree(_name(one), one.predicted, colour, hollow=True)
    most = one.change.predicted or 1.0
    return Tree(_name(one), None, colour, hollow=True, most=most, value=f"at most {most:.2f}×")


def _name(one: Finding) -> str:
    return f"were {one.change.title} free" if one.change.knock_out else named(one.change)


def _kind(one: Finding) -> str:
    return "tried" if one.gain else "predicted" if one.predicted or one.change.predicted else "not tried"


def _words(one: Finding) -> str:
    if found := one.gain or one.predicted:
        return spoken(found)
    return f"at most {one.change.predicted:.2f}×" if one.change.predicted else ""


def _size(one: Finding) -> float:
    found = one.gain or one.predicted
    return found.speedup if found else one.change.predicted or 0.0


def _savings(account: Account) -> Iterator[Picture]:
    saved: dict[str, float] = {}
    for one in account.rows:
        if one.reason and one.recoverable_s:
            saved[one.reason] = saved.get(one.reason, 0.0) + one.recoverable_s
    _as_the_verdict(account, saved)
    for cause in account.causes:  # the lines that are known to be slow
        if "slow_title" in cause.values and "slow_where" not in cause.values:
            title = printable(str(cause.values["slow_title"]))
            saved[title] = saved.get(title, 0.0) + float(cause.values["slow_s"])
    found = sorted(saved.items(), key=lambda pair: -pair[1])
    found = [pair for pair in found if pair[1] >= 0.005 * account.wall_s]
    if not found:
        return
    name, most = _SAVES.get(found[0][0], found[0][0]), found[0][1]
    alt = (
        f"{name.capitalize()} could save the most: about {seconds(most)} of the {seconds(account.wall_s)} of the run "
        f"({percent(most / account.wall_s)}). Predicted, not tried."
    )
    scale = seconds_scale([account.wall_s])
    cells = tuple((_SAVES.get(code, code), scale.number(s), percent(s / account.wall_s, 1)) for code, s in found)
    table = Table("", ("change", f"saves about, {scale.unit}", "of the run"), cells, frozenset({1, 2}))
    yield picture(
        "savings", "remedies", "What a change could save", alt, table, lambda sheet: _bars(sheet, account, found)
    )


def _as_the_verdict(account: Account, saved: dict[str, float]) -> None:
    """What else faster loading saves, as the verdict says: training waits for the cores that workers use."""
    cores = {one.loader: float(one.values.get("core_s", 0.0)) for one in account.causes if one.code in _OF_WORKERS}
    if sum(cores.values()):
        saved["faster-loading"] = saved.get("faster-loading", 0.0) + sum(cores.values())


def _bars(sheet: Sheet, account: Account, found: Sequence[tuple[str, float]]) -> float:
    words = [
        Row(_SAVES.get(code, code), f"{seconds(s)} · {percent(s / account.wall_s)}", place == 0)
        for place, (code, s) in enumerate(found)
    ]
    laid = rows(sheet, words, 2.0)
    axis = reaching([found[0][1]], laid.begin, laid.end)
    scale = seconds_scale([axis.high])
    unit = f"{scale.unit} of the run, about"
    below = draw_below(sheet, axis, laid, in_unit(scale), unit)
    for (code, s), y in zip(found, laid.middles, strict=True):
        tip = f"{_SAVES.get(code, code)}: about {seconds(s)}"
        sheet.add(Box(axis.begin, y - 7, axis.at(s) - axis.begin, 14, "0", opacity=0.25))
        sheet.add(Box(axis.begin, y - 7, axis.at(s) - axis.begin, 14, "0", hollow=True, tip=tip))
    return note(sheet, "Predicted from the account; nobody has tried them.", below)
