"""Transforms that make images smaller, in front of those that work as well on small images.

What it has of the source: the one list that shows them, and the lines that move. What it has of a worker: the moved
transforms, and a comparison with the same random numbers for each of them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pipebench.remedies.seen import Seen, share_of, were_free
from pipebench.remedies.source import Source, called, sources
from pipebench.results.advice import Change, Place, Rewrite
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.compared import Comparing, compare_first, put_back
from pipebench.watch.trial.edits import Refused
from pipebench.watch.trial.pictures import checked
from pipebench.watch.worker.draws import random_state

COST = "other pixels"
LEAST_SHARE = 0.15  # of the time of the workers
CONVERSIONS = (*chains.FIRST, *chains.CONVERSIONS, chains.LAST)
FLIPS = ("RandomHorizontalFlip", "RandomVerticalFlip")
_REST_OF_LINE = re.compile(rb",[ \t]*(#[^\r\n]*)?\r?\n")
PlaceOf = Callable[[Sequence[str]], slice | None]


class Steps(NamedTuple):
    """The entries of one list in the user's file: what makes images `smaller`, and those `before` it."""

    source: Source
    before: list[ast.expr]
    smaller: ast.expr

    @property
    def names(self) -> list[str]:
        return [called(one) for one in self.before]

    @property
    def keywords(self) -> list[ast.keyword]:
        return self.smaller.keywords if isinstance(self.smaller, ast.Call) else []


def in_source(seen: Seen, place_of: PlaceOf, wanted: Sequence[str]) -> tuple[bool, Steps | None]:
    """Whether the list is known that this loader uses, and its steps, if `place_of` finds some that can change places.

    A list of another loader, as for validation, has nothing behind what has rows here. Of two such lists, none is
    known; so where none has all rows that are `wanted`.
    """
    rows = {one.name.split(" (")[0] for one in seen.stages if one.kind == "transform"}
    needed = rows & {*wanted}
    known, found = False, []
    for source in sources(seen):
        for node in source.nodes(ast.List):
            entries = node.elts if isinstance(node, ast.List) else []
            names = [called(one) for one in entries]
            known |= needed <= set(names)
            if (place := place_of(names)) is not None and rows.issuperset(names[place]):
                *before, smaller = entries[place]
                found.append(Steps(source, before, smaller))
    return (known, None) if not found else (len(found) == 1, found[0] if len(found) == 1 else None)


def share(seen: Seen, names: Sequence[str], resizing: str = "") -> float:
    """The share of the workers' time in the transforms of these names.

    What is `resizing` behind them counts, too, if it gets floats there: in front of them, it resizes bytes.
    """
    more = [resizing] if resizing and set(names) & {*chains.FIRST} else []
    return sum(share_of(seen, "transform", one) for one in dict.fromkeys([*names, *more]))


def begin_of(names: Sequence[str], end: int, same: Sequence[str]) -> int:
    """Where the names before `end` begin that are all among the `same`."""
    while end and names[end - 1] in same:
        end -= 1
    return end


def change(remedy: str, title: str, share: float, steps: Steps | None, how: str = "") -> Change:
    """What is proposed. `how` says it in words where no list shows the steps."""
    at = None
    if steps is not None:
        how = f"Move {ast.unparse(steps.smaller)} in front of {steps.names[0]}."
        at = Place(called(steps.smaller), steps.source.file, steps.smaller.lineno)
    return Change(
        remedy, {}, COST, predicted=were_free(share), title=title, edits={remedy: {}}, how=(how,), at=at, discards=True,
        rewrites=_rewrites(steps) if steps is not None else (),
        group=chains.TO_FLOAT if steps is not None and {*CONVERSIONS} & {*steps.names} else "",
    )  # fmt: skip


def _rewrites(steps: Steps) -> tuple[Rewrite, ...]:
    """Moves the line of the last, or else the text of each entry by one place; nothing if comments stand between."""
    source, entries = steps.source, [*steps.before, steps.smaller]
    if any(source.end_of_group(one) > source.end(one) for one in entries):
        return ()
    first, last = _line(source, entries[0]), _line(source, entries[-1])
    if first is not None and last is not None:
        moved = Rewrite(source.file, first[0], first[0], _text(source, *last))
        return moved, Rewrite(source.file, last[0] - 1, last[1] - 1, "")  # with the end of the line before
    places = [(source.begin(one), source.end(one)) for one in entries]
    if any(b"#" in source.raw[end:begin] for (_, end), (begin, _) in itertools.pairwise(places)):
        return ()
    texts = [_text(source, *one) for one in (places[-1], *places)]
    return tuple(Rewrite(source.file, *place, text) for place, text in zip(places, texts, strict=False))


def _line(source: Source, node: ast.expr) -> tuple[int, int] | None:
    """Where the lines of an entry begin and end, if nothing else but its comma and a comment stands there."""
    begin, ending = source.begin(node), _REST_OF_LINE.match(source.raw, source.end(node))
    first = source.raw.rfind(b"\n", 0, begin) + 1
    return (first, ending.end()) if ending and not source.raw[first:begin].strip() else None


def _text(source: Source, begin: int, end: int) -> str:
    return source.raw[begin:end].decode(errors="replace").replace("\r\n", "\n")


def never(height: int, width: int) -> str:
    """No image is refused for its size."""
    return ""


def move_in_worker(
    fetcher: Any, patches: Patches, chain: chains.Chain, refuses: Callable[[int, int], str], tolerance: float
) -> None:
    """Lets the last step of `chain` come first, if samples differ by at most `tolerance`, a share of their range.

    `refuses(height, width)` is the code of why it cannot for an image of this size ("": it can). Raises `Refused`.
    """
    moved = _Moved(chain.steps, refuses)

    def done() -> list[Any]:
        moved.comparing = False
        return checked(moved.made, "no-such-transforms")

    how = Comparing(None, mean_share=tolerance)
    compare_first(fetcher, functools.partial(chain.replace, moved, patches), how, done)


class _Moved:
    """In place of `steps`: the last of them comes first. `made` has 1 as soon as there was an image.

    While it is `comparing`, each step draws the random numbers that it drew in the old order, and flips stay in front:
    in front of a crop, they choose another one.
    """

    def __init__(self, steps: Sequence[Any], refuses: Callable[[int, int], str]) -> None:
        self.steps, self.refuses = steps, refuses
        self.comparing = True
        self.made: list[int] = []

    def __call__(self, *images: Any) -> Any:
        if why := self._refused(images):
            raise Refused(why)
        if not self.made:
            self.made.append(1)
        return self._with_same_numbers(images[0]) if self.comparing else self._moved(images[0])

    def _moved(self, image: Any) -> Any:
        for step in (self.steps[-1], *self.steps[:-1]):
            image = step(image)
        return image

    def _with_same_numbers(self, image: Any) -> Any:
        states, before = [], image.copy() if hasattr(image, "getbands") else image.clone()  # a step may change it
        for step in self.steps:
            states.append(random_state())
            before = step(before)
        end = random_state()
        for place in sorted(range(len(self.steps)), key=self._turn):
            put_back(states[place])
            image = self.steps[place](image)
        put_back(end)
        return image

    def _turn(self, place: int) -> int:
        """0: a flip; 1: what makes it smaller; 2: the rest."""
        if place == len(self.steps) - 1:
            return 1
        return 0 if type(self.steps[place]).__name__ in FLIPS else 2

    def _refused(self, images: Sequence[Any]) -> str:
        image: Any = images[0] if len(images) == 1 else None
        if hasattr(image, "getbands"):
            return self.refuses(image.height, image.width)
        tensor = isinstance(image, sys.modules["torch"].Tensor)
        return self.refuses(*image.shape[-2:]) if tensor else "no-such-transforms"
