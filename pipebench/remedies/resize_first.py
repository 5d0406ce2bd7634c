"""The Resize before flips, rotations, changes of colour and ToTensor, which then work on small images.

Resizing takes weighted means of neighbouring pixels. What moves each pixel with its neighbours, or changes its colour
by nearly the same line as theirs, gives about the same before and after. So not what has a size in pixels, as a crop
or a blur, what jumps, as Posterize, or what looks at the darkest pixel, as Autocontrast. Some pixels differ, so the
weights of the trial are worth nothing, and the difference of some samples is measured and shown.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipebench.remedies.seen import Seen, share_of, were_free
from pipebench.remedies.source import Source, called, sources
from pipebench.results.advice import Change, Finding, Place, Rewrite
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import chains
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit, Refused
from pipebench.watch.trial.pictures import checked

PLACE = 8
TITLE = "Resize first"
COST = "other pixels"
LEAST_SHARE = 0.15  # of the time of the workers
# Of the range of the values, on average. The photographs of `datasets/`, at 112 pixels, differ by up to 1.6 % for a
# bilinear rotation, 2.5 % for one by nearest pixels, 3.6 % for a RandomAffine, and by up to 16 % if it distorts them.
TOLERANCE = 0.05
HOW = "Move the Resize of the Compose in front of its flips, rotations, changes of colour and ToTensor."
HOW_KNOWN = "Move {} in front of {}."
_RESIZE = "Resize"
_TURNS = ("RandomRotation", "RandomAffine")  # about the centre, and only if width and height shrink alike
SAME_WHEN_SMALL = (
    "RandomHorizontalFlip", "RandomVerticalFlip", *_TURNS, "ColorJitter", "Grayscale", "RandomGrayscale",
    "RandomInvert", "RandomChannelPermutation", "RandomPhotometricDistort", "RGB",
)  # fmt: skip
_CONVERSIONS = (*chains.FIRST, *chains.CONVERSIONS, chains.LAST)  # may stand among them, but are not worth a trial
_REST_OF_LINE = re.compile(rb",[ \t]*(#[^\r\n]*)?\r?\n")


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.discards or not seen.workers or not share_of(seen, "transform", _RESIZE):
        return None
    known, steps = _in_source(seen)
    share = _share(seen, known, steps)
    if share < LEAST_SHARE:
        return None
    how, at = HOW, None
    if steps is not None:
        how = HOW_KNOWN.format(ast.unparse(steps.resize), called(steps.before[0]))
        at = Place(_RESIZE, steps.source.file, steps.resize.lineno)
    return Change(
        "resize_first", {}, COST, predicted=were_free(share), title=TITLE, edits={"resize_first": {}}, how=(how,),
        at=at, discards=True, rewrites=_rewrites(steps) if steps is not None else (),
    )  # fmt: skip


def share_before(seen: Seen) -> float:
    """The share of the workers' time in what could come after the Resize: at most so much where no list shows it."""
    return _share(seen, *_in_source(seen))


def _share(seen: Seen, known: bool, steps: _Steps | None) -> float:
    names = [called(one) for one in steps.before] if steps is not None else [] if known else [*SAME_WHEN_SMALL]
    if set(names) & set(chains.FIRST):  # then it resizes bytes, and not floats
        names.append(_RESIZE)
    return sum(share_of(seen, "transform", one) for one in dict.fromkeys(names))


def place_of(names: Sequence[str]) -> slice | None:
    """Where transforms with these names end with the only Resize, and begin with what may as well stand behind it."""
    if names.count(_RESIZE) != 1:
        return None
    begin = end = names.index(_RESIZE)
    while begin and names[begin - 1] in (*SAME_WHEN_SMALL, *_CONVERSIONS):
        begin -= 1
    while begin < end and names[begin] in (*chains.CONVERSIONS, chains.LAST):
        begin += 1
    return slice(begin, end + 1) if begin < end else None


class _Steps(NamedTuple):
    """The entries of one list in the user's file: the Resize, and those `before` it that would come after it."""

    source: Source
    before: list[ast.expr]
    resize: ast.expr


def _in_source(seen: Seen) -> tuple[bool, _Steps | None]:
    """Whether the list is known that this loader uses, and its steps, if its Resize can be moved.

    A list of another loader, as for validation, has no Resize behind what has rows here. Of two such lists, none is
    known; so where none has all these rows.
    """
    rows = {one.name.split(" (")[0] for one in seen.stages if one.kind == "transform"}
    wanted = rows & {_RESIZE, *SAME_WHEN_SMALL}
    known, found = False, []
    for source in sources(seen):
        for node in source.nodes(ast.List):
            entries = node.elts if isinstance(node, ast.List) else []
            names = [called(one) for one in entries]
            known |= wanted <= set(names)
            if (place := place_of(names)) is not None and rows.issuperset(names[place]):
                *before, resize = entries[place]
                found.append(_Steps(source, before, resize))
    return (known, None) if not found else (len(found) == 1, found[0] if len(found) == 1 else None)


def _rewrites(steps: _Steps) -> tuple[Rewrite, ...]:
    """Moves the line of the Resize, or else the text of each entry by one place; nothing if comments stand between."""
    source, entries = steps.source, [*steps.before, steps.resize]
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


class _ResizeFirst(Edit):
    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        chain = chains.only_chain(fetcher.dataset, place_of)
        if any(getattr(one, "expand", False) or getattr(one, "center", None) is not None for one in chain.steps):
            raise Refused("no-such-transforms")
        made: list[int] = []

        def change() -> None:
            chain.replace(_First(chain.steps, made), patches)

        how = Comparing(None, mean_share=TOLERANCE)
        compare_first(fetcher, change, how, functools.partial(checked, made, "no-such-transforms"))


edit = _ResizeFirst


class _First:
    """In place of transforms that end with a Resize: it comes first. `made` gets 1 as soon as it gets an image."""

    def __init__(self, steps: Sequence[Any], made: list[int]) -> None:
        *self.before, self.resize = steps
        self.made = made
        self.turns = any(type(one).__name__ in _TURNS for one in self.before)

    def __call__(self, *images: Any) -> Any:
        if len(images) != 1 or not self._may_be_first(images[0]):
            raise Refused("no-such-transforms")
        if not self.made:
            self.made.append(1)
        image = self.resize(images[0])
        for step in self.before:
            image = step(image)
        return image

    def _may_be_first(self, image: Any) -> bool:
        """Whether this is an image; one that is turned must keep its shape, but for a pixel."""
        if hasattr(image, "getbands"):
            width, height = image.size
        elif isinstance(image, sys.modules["torch"].Tensor):
            height, width = image.shape[-2:]
        else:
            return False
        sides = self.resize.size if isinstance(self.resize.size, (list, tuple)) else [self.resize.size]
        return not self.turns or len(sides) == 1 or abs(width * sides[0] / height - sides[1]) <= 1
