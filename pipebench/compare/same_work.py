"""Whether two sides did the same work: their outputs, for the same inputs and the same seed. Pure functions.

An output is compared leaf by leaf (see `leaves`): structure and type, shape, dtype, a digest of the contents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pipebench.compare.leaves import Content, Leaf
from pipebench.results.comparison import NOTHING, Difference, Outputs

SIDES = ("base", "head")
PARTS = ("output", "unseen")
VARIES = "?"  # stands for what is not the same twice on one side
# Rounding, in units of the last place at the array's largest value: a formula written another way ends a few roundings
# of half a unit apart. Less than single precision is compared exactly, because a unit there is 0.1 % or more.
ROUNDING_ULPS = 4
ROUNDED = ("float32", "float64", "float")
EXACT = ("float16", "bfloat16", "complex64", "complex128")  # 0.0 equals -0.0, and one NaN another; nothing else does
CACHED = 0.5  # the share of the inputs that must be answered from the cache; one may set something up for itself

Within = Callable[[], bool]  # whether the task's own tolerance allows the difference


@dataclass(frozen=True)
class Shown:
    """What one side showed of one pass."""

    leaves: tuple[Leaf, ...]
    samples: int = 0
    repeated: tuple[int, int] = (0, 0)  # unseen inputs that were answered from a cache the second time, and all of them
    unread: tuple[str, ...] = ()
    contents: Mapping[int, Content] | None = None

    @property
    def outputs(self) -> list[Leaf]:
        """The leaves of all outputs, without those of the inputs."""
        return [one for one in self.leaves if one[0] != "input"]

    @property
    def empty(self) -> bool:
        """Whether there is no output, or none but `None`: such a pass shows nothing of the work."""
        kinds = {one[2] for one in self.outputs}
        return not kinds or ("NoneType" in kinds and kinds <= {"NoneType", "list", "tuple"})

    @property
    def cached(self) -> bool:
        return _most(self.repeated)


@dataclass(frozen=True)
class Examined:
    """What one side showed of a function on inputs that it is not timed on.

    `repeated`: of how many inputs the second answer came from a cache, and of how many in all. `unchanged`: on how many
    of them it returned what it returns for the timed input. `unseen`: why it could not be called on other inputs.
    """

    repeated: tuple[int, int] = (0, 0)
    unchanged: tuple[int, int] = (0, 0)
    unseen: str = ""


def _most(share: tuple[int, int]) -> bool:
    count, of = share
    return count > 0 and count >= CACHED * of


def same(base: Shown, head: Shown) -> bool:
    """Whether nothing differs: all leaves, the number of samples, and whether a cache answers."""
    return (base.outputs, base.samples, base.cached) == (head.outputs, head.samples, head.cached)


def to_fetch(base: Shown, head: Shown, most_bytes: int) -> list[int]:
    """The places in both lists of leaves whose contents show how much the values differ; about `most_bytes` at most."""
    if len(base.leaves) != len(head.leaves):
        return []
    found: list[int] = []
    size = 0
    for index, (ours, theirs) in enumerate(zip(base.leaves, head.leaves, strict=True)):
        if ours[:5] == theirs[:5] and ours[5] != theirs[5]:
            size += 8 * math.prod(ours[3])
            if found and size > most_bytes:
                break
            found.append(index)
    return found


def examined(known: Outputs, base: Examined, head: Examined) -> Outputs:
    """What other inputs show, beside what is `known`: an answer from a cache, or one that ignores its input."""
    if base.unseen or head.unseen:
        return replace(known, unseen=base.unseen or head.unseen)
    answers = [_most(one.repeated) for one in (base, head)]
    known = replace(known, cached=tuple(name for name, one in zip(SIDES, answers, strict=True) if one))
    if answers[0] != answers[1]:
        return replace(known, state="changed", difference=_by_one_side("cached", answers, base.repeated, head.repeated))
    ignored = base.unchanged, head.unchanged
    clear = [_most(one) and not other[0] for one, other in (ignored, ignored[::-1])]
    if any(clear):
        return replace(known, state="changed", difference=_by_one_side("ignored", clear, *ignored))
    return known


def _by_one_side(
    kind: Literal["cached", "ignored"], which: Sequence[bool], base: tuple[int, int], head: tuple[int, int]
) -> Difference:
    """What only one side does, on so many inputs of so many."""
    count, of = base if which[0] else head
    return Difference(kind, "unseen", base=str(which[0]), head=str(which[1]), leaves=count, all_leaves=of)


def judged(base: Sequence[Shown], head: Sequence[Shown], within: Within = lambda: False) -> Outputs:
    """What the passes of both sides show. Each side has one pass, or several after the same seed, with equal histories.

    The last pass has the contents. `within` is asked only where values differ.
    """
    if all(one.empty for one in (*base, *head)) and same(base[-1], head[-1]):
        return Outputs("unknown", reason=NOTHING)
    cached = tuple(name for name, one in zip(SIDES, (base, head), strict=True) if one[-1].cached)
    known = Outputs("same", unread=tuple(sorted({*base[-1].unread, *head[-1].unread})), cached=cached)
    sides = _steady(base), _steady(head)
    varying = [{_place(one) for one in side.leaves if one[5] == VARIES} for side in sides]
    gone = [varies_whole(one) for one in (base, head)]
    if any(gone):
        return _unrepeatable(known, gone, "", gone[1] and not gone[0])
    alike = varying[0] | varying[1]
    found = difference(*(replace(one, leaves=_blanked(one.leaves, alike)) for one in sides))
    if found is None and alike:
        only_head = varying[1] - varying[0]
        changed = bool(only_head) and not (_all_rounded((base[-1], head[-1]), only_head) or within())
        return _unrepeatable(known, list(map(bool, varying)), _first(only_head if changed else alike), changed)
    if found is None:
        return known
    if found.kind != "values":
        return replace(known, state="changed", difference=_blamed(found, *sides))
    close = _rounding(found, sides) or within()
    return replace(known, state="close" if close else "changed", difference=found if close else _blamed(found, *sides))


def _first(places: set[tuple[str, str]]) -> str:
    return min(places, key=lambda place: (place[0] != "output", place))[1]


def _unrepeatable(known: Outputs, which: Sequence[bool], place: str, changed: bool) -> Outputs:
    """What is not the same twice. It is a change if the base returns the same each time and the head does not."""
    if changed:
        return replace(known, state="changed", difference=Difference("unrepeatable", place=place))
    named = tuple(name for name, one in zip(SIDES, which, strict=True) if one)
    return replace(known, state="unrepeatable", sides=named, place=place)


def _place(leaf: Leaf) -> tuple[str, str]:
    return leaf[0], leaf[1]


def varies_whole(passes: Sequence[Shown]) -> bool:
    """Whether even the structure of a side's outputs is not the same twice."""
    places = [[_place(leaf) for leaf in one.outputs] for one in passes]
    return any(one != places[0] for one in places)


def _steady(passes: Sequence[Shown]) -> Shown:
    """The last pass, in which `VARIES` is the digest of every leaf that was another in an earlier one."""
    seen = [dict(zip(map(_place, one.leaves), one.leaves, strict=True)) for one in passes]
    leaves = tuple(
        one if all(before.get(_place(one)) == one for before in seen) else _varying(one, seen)
        for one in passes[-1].leaves
    )
    return replace(passes[-1], leaves=leaves)


def _varying(leaf: Leaf, seen: Sequence[Mapping[tuple[str, str], Leaf]]) -> Leaf:
    """The leaf with `VARIES` for its digest, and also for its shape and dtype if these vary."""
    others = [before.get(_place(leaf)) for before in seen]
    if all(one is not None and one[:5] == leaf[:5] for one in others):
        return (*leaf[:5], VARIES)
    return (leaf[0], leaf[1], VARIES, (), VARIES, VARIES)


def _blanked(leaves: Sequence[Leaf], alike: set[tuple[str, str]]) -> tuple[Leaf, ...]:
    """The leaves without the contents of those at the places `alike`."""
    return tuple((*one[:5], VARIES) if _place(one) in alike else one for one in leaves)


def difference(base: Shown, head: Shown) -> Difference | None:
    """The first difference: in the outputs, then in those of unseen inputs, then an answer from a cache on one side."""
    if base.samples != head.samples:
        return Difference("samples", base=str(base.samples), head=str(head.samples))
    for part in PARTS:
        if found := _in_part(base, head, part):
            return found
    if base.cached != head.cached:
        return _by_one_side("cached", (base.cached, head.cached), base.repeated, head.repeated)
    return None


def _in_part(base: Shown, head: Shown, part: str) -> Difference | None:
    ours, theirs = ({_place(leaf): leaf for leaf in one.leaves if leaf[0] == part} for one in (base, head))
    pairs = [(place, ours.get(place), theirs.get(place)) for place in {**ours, **theirs}]
    kinds: tuple[tuple[Literal["structure", "shape", "dtype", "values"], slice], ...] = (
        ("structure", slice(2, 3)), ("shape", slice(3, 4)), ("dtype", slice(4, 5)), ("values", slice(5, 6)),
    )  # fmt: skip
    for kind, field in kinds:
        apart = [(place, one, other) for place, one, other in pairs if _differ(one, other, field)]
        if apart:
            (_, place), one, other = apart[0]
            found = Difference(kind, part, place, _named(one, kind), _named(other, kind), _shape(one), _shape(other),
                               len(apart), len(pairs))  # fmt: skip
            return _measured(found, base, head) if kind == "values" else found
    return None


def _differ(one: Leaf | None, other: Leaf | None, field: slice) -> bool:
    if one is None or other is None:
        return one is not other
    if VARIES in (one[2], other[2]):
        return False  # nothing of it is the same twice
    return one[field] != other[field]


def _named(leaf: Leaf | None, kind: str) -> str:
    if leaf is None:
        return "nothing"
    return leaf[2] if kind == "structure" else leaf[4]


def _shape(leaf: Leaf | None) -> tuple[int, ...]:
    return leaf[3] if leaf else ()


def _measured(found: Difference, base: Shown, head: Shown) -> Difference:
    """The difference with how much the values differ, over all leaves that differ and were fetched."""
    fetched = sorted(set(base.contents or {}) & set(head.contents or {}))
    ours, theirs = base.leaves, head.leaves
    wanted = [index for index in fetched if ours[index][0] == found.part and ours[index][5] != theirs[index][5]]
    pairs = [(_array(base, index), _array(head, index)) for index in wanted]
    pairs = [(one, other) for one, other in pairs if one.size and one.shape == other.shape]
    if not pairs:
        return found
    count = sum(one.size for one, _ in pairs)
    apart = [_apart(one, other) for one, other in pairs]
    return replace(
        found,
        share=sum(int(np.count_nonzero(one)) for one in apart) / count,
        largest=max(float(one.max()) for one in apart),
        mean=sum(float(one.sum()) for one in apart) / count,
    )


def _array(shown: Shown, index: int) -> Any:
    dtype, raw = (shown.contents or {})[index]
    return np.frombuffer(raw, np.dtype(dtype)).astype(np.float64)


def _apart(one: Any, other: Any) -> Any:
    """How far apart the values are. Equal infinities and two NaNs are not apart; one NaN is infinitely so."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other))
    return np.where(np.isnan(apart), np.inf, apart)


def _rounding(found: Difference, sides: tuple[Shown, Shown]) -> bool:
    """Whether every leaf that differs does so by no more than rounding. All of them must have been fetched."""
    base, head = sides
    places = [
        index
        for index, (ours, theirs) in enumerate(zip(base.leaves, head.leaves, strict=False))
        if ours[0] in PARTS and ours[5] != theirs[5] and VARIES not in (ours[5], theirs[5])
    ]
    return found.largest is not None and all(_rounded(base, head, index) for index in places)


def _all_rounded(sides: tuple[Shown, Shown], places: set[tuple[str, str]]) -> bool:
    """Whether the two sides differ by no more than rounding at these places, in what was fetched of their last pass."""
    base, head = sides
    if [_place(one) for one in base.leaves] != [_place(one) for one in head.leaves]:
        return False
    return all(_rounded(base, head, index) for index, one in enumerate(base.leaves) if _place(one) in places)


def _rounded(base: Shown, head: Shown, index: int) -> bool:
    dtype = base.leaves[index][4]
    alike = base.leaves[index][:5] == head.leaves[index][:5]
    fetched = all(index in (one.contents or {}) for one in (base, head))
    if not alike or not fetched or dtype not in (*ROUNDED, *EXACT):
        return False
    ours, theirs = _array(base, index), _array(head, index)
    unit = float(np.finfo(np.float32 if dtype == "float32" else np.float64).eps)
    scale = float(np.abs(ours[np.isfinite(ours)]).max(initial=0.0))
    allowed = 0.0 if dtype in EXACT else ROUNDING_ULPS * unit * scale
    return bool(_apart(ours, theirs).max(initial=0.0) <= allowed)


def _blamed(found: Difference, base: Shown, head: Shown) -> Difference:
    """The difference of the inputs, where already these differ: the stage before made them."""
    return _in_part(base, head, "input") or found
