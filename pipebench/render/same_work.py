"""Words for the outputs of two commits: whether they are the same, and how they differ. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from pipebench import units
from pipebench.results.comparison import NOTHING, Change, Comparison, Difference, Outputs
from pipebench.results.comparison import uncompared as not_compared
from pipebench.units import counted, percent, printable

PARTS = {"output": "", "unseen": "for inputs that were not timed: ", "input": "it gets another input already: "}
WHAT = {"input": "changed input"}
STATES = {"same": "equal", "close": "equal within rounding or tolerance", "changed": "changed",
          "unrepeatable": "not repeatable", "unknown": "not compared"}  # fmt: skip


def label(outputs: Outputs) -> str:
    """What the row of a benchmark reads whose two sides did other work."""
    return WHAT.get(outputs.difference.part if outputs.difference else "", "changed output")


def changed(changes: Sequence[Change]) -> list[str]:
    """The names of the benchmarks whose two sides did other work."""
    return [printable(one.benchmark) for one in changes if one.changed]


def uncompared(changes: Sequence[Change]) -> str | None:
    """Why a gate on changed outputs has no result; None if all outputs were compared."""
    found = not_compared(changes)
    if not found:
        return None
    outputs = found[0].outputs
    said = (notes(outputs) or [f"{NOTHING}, so its work was not compared"]) if outputs else []
    more = f" (and {counted(len(found) - 1, 'more benchmark')} not compared)" if len(found) > 1 else ""
    return f"{printable(found[0].benchmark)}: {said[0] if said else 'its outputs were not looked at'}{more}"


def notes(outputs: Outputs) -> list[str]:
    """What is to be said of the outputs of one benchmark; nothing if they are equal."""
    return [
        *_state(outputs),
        *_unread(outputs.unread),
        *_cached(outputs),
    ]


def footer(found: Comparison) -> list[str]:
    """How the outputs were compared, and how many were equal."""
    known = [one.outputs for one in found.changes if one.outputs]
    if not known:
        return []
    labels = [STATES[one.state if one.compared else "unknown"] for one in known]
    counts = [(labels.count(said), said) for said in STATES.values()]
    made = ", ".join(f"{count} {said}" for count, said in counts if count)
    again = ", and if equal once more after them" if any(map(_same, known)) and _all_twice(known) else ""
    made = f"outputs, compared before the rounds{again}: {made}."
    seeded = "Both sides get the same seed before each round (random, NumPy, torch)."
    return [f"{made} {seeded}" if found.seeded else made, *_nothing(found.changes), *_unseen(found.changes)]


def _nothing(changes: Sequence[Change]) -> Iterator[str]:
    """The benchmarks that return nothing: most of an asv suite, so they share a line."""
    if names := [one.benchmark for one in changes if one.outputs and one.outputs.reason == NOTHING]:
        verb, whose, them = ("returns", "its", "it") if len(names) == 1 else ("return", "their", "them")
        yield f"{listed(names)} {verb} nothing, so {whose} work was not compared: let {them} return what is made"


def _unseen(changes: Sequence[Change]) -> Iterator[str]:
    """The benchmarks whose answers could come from a cache without being seen, by the reason."""
    found = [(printable(one.outputs.unseen), one.benchmark) for one in changes if one.outputs]
    for reason in dict.fromkeys(reason for reason, _ in found if reason):
        names = [name for one, name in found if one == reason]
        yield f"an answer from a cache would not be seen in {listed(names)}: {reason}"


def _same(outputs: Outputs) -> bool:
    return outputs.state in ("same", "close")


def _all_twice(known: Sequence[Outputs]) -> bool:
    return all(one.at_end for one in known if _same(one))


def _state(outputs: Outputs) -> list[str]:
    if outputs.state == "changed" and outputs.difference:
        return [f"{label(outputs)}: {difference(outputs.difference)}"]
    if outputs.state == "close" and outputs.difference:
        return [f"its output is equal within rounding or its tolerance: {difference(outputs.difference)}"]
    if outputs.state == "unrepeatable":
        where = f" ({printable(outputs.place)})" if outputs.place else ""
        who = " and ".join(outputs.sides)
        return [f"its output{where} in {who} is not repeatable after the same seed, so it is not compared"]
    if outputs.state == "unknown" and outputs.reason != NOTHING:  # those are named together
        return [f"its outputs could not be compared: {printable(outputs.reason)}"]
    return []


def _unread(types: Sequence[str]) -> list[str]:
    if not types:
        return []
    return [f"its output holds values whose contents cannot be compared: {', '.join(map(printable, types))}"]


def _cached(outputs: Outputs) -> list[str]:
    if len(outputs.cached) < 2:
        return []
    return ["base and head answer a repeated input from a cache: these are the times of repeated inputs"]


def difference(one: Difference) -> str:
    """How an output differs: `3×112×112 instead of 3×224×224 (25 % of the values)`."""
    words: dict[str, Callable[[], str]] = {
        "samples": lambda: f"{one.head} samples instead of {one.base}",
        "structure": lambda: f"{printable(one.head)} instead of {printable(one.base)}",
        "shape": lambda: f"{_shape(one.head_shape)} instead of {_shape(one.base_shape)}{_share(one)}",
        "dtype": lambda: _dtype(one),
        "values": lambda: _values(one),
        "cached": lambda: _from_cache(one),
        "ignored": lambda: f"{_by(one)} returns for other inputs what it returns for the timed one ({_inputs(one)})",
        "unrepeatable": lambda: "head does not return the same twice after the same seed, and base does",
    }
    said = words[one.kind]()
    place = f", at {printable(one.place)}" if one.place else ""
    place += f" and {one.leaves - 1} more of {one.all_leaves} parts" if place and one.leaves > 1 else ""
    return f"{PARTS.get(one.part, '') if one.kind not in ('cached', 'ignored') else ''}{said}{place}"


def _from_cache(one: Difference) -> str:
    return f"{_by(one)} answers a repeated input from a cache ({_inputs(one)})"


def _by(one: Difference) -> str:
    return "head" if one.head == "True" else "base"


def _inputs(one: Difference) -> str:
    return f"{one.leaves} of {counted(one.all_leaves, 'input')}"


def _dtype(one: Difference) -> str:
    """Two dtypes; or two lists of names, by what only one of them has."""
    lists = [text.split(", ") for text in (one.base, one.head)]
    if all(len(names) == 1 for names in lists):
        return f"{printable(one.head)} instead of {printable(one.base)}"
    gone, new = ([name for name in mine if name not in other] for mine, other in (lists, lists[::-1]))
    parts = [f"{verb} {listed(names)}" for verb, names in (("lacks", gone), ("has also", new)) if names]
    return " and ".join(parts) or "another order"


def listed(names: Sequence[str]) -> str:
    """The first names of a list, as they can be printed; of a long one it says how many more there are."""
    return units.listed([printable(one) for one in names])


def _shape(shape: Sequence[int]) -> str:
    return f"length {shape[0]}" if len(shape) == 1 else "×".join(map(str, shape)) or "a single value"


def _share(one: Difference) -> str:
    before = prod(one.base_shape)
    return f" ({percent(prod(one.head_shape) / before)} of the values)" if before else ""


def _values(one: Difference) -> str:
    if one.share is None or one.largest is None or one.mean is None:
        return "other contents"
    if one.largest == 0:  # the values are the same numbers: what they stand for differs
        return "other palette" if one.base == one.head == "P" else "other contents"
    share = percent(one.share) if one.share >= 0.01 else "under 1 %"
    return f"{share} of the values differ, by {one.largest:.3g} at most and {one.mean:.3g} on average"
