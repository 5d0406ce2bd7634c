"""Renders what the user writes, or why it is not written out, and what became of the patch. Pure."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator

from pipebench.render.frameworks import setting
from pipebench.results.advice import Change, NoText, Part, Patch, Snippet
from pipebench.units import printable

_MOST_LINES = 3  # of a snippet
_ROOM = 70  # columns of code
_PAGE = 78  # columns of text behind an indent
_WHY: dict[NoText, str] = {
    "no-change": "No change is advised.",
    "new-loader-each-pass": "First the script must make the loader once, before its passes.",
    "by-hand": "This change is written by hand.",
    "library": "A library makes the loader, and its files stay as they are.",
    "no-call": "The call that makes the loader was not found, or it hides its arguments: write the change by hand.",
    "other-loaders": "This call makes other loaders too, or it may, and they were not tried: change only this loader.",
    "encoding": "The file is not UTF-8, or not readable: write the change by hand.",
    "no-python": "Python could not read the changed file: write the change by hand.",
    "changed": "The file was changed during the run: run pipebench again, or write the change by hand.",
    "outside": "The file is not in the current folder: run pipebench in a folder that holds it.",
    "not-saved": "The file could not be written: name another one.",
}
_SAID: tuple[NoText, ...] = ("other-loaders", "encoding", "no-python", "changed")  # also where nobody asked for a patch


def untold(reason: NoText, patch: Patch | None) -> Iterator[str]:
    """Why the lines of a change are not shown, if the line about the patch does not say it."""
    if reason in _SAID and (patch is None or patch.reason != reason):
        yield _WHY[reason]


def in_library(change: Change, made_by: str, words: str, file: str, line: int) -> Iterator[str]:
    """The settings for the library that makes the loader, in the `words` of a library ("": in those of torch)."""
    called = f", called from {short(file)}:{line}" if file else ""
    where = "" if words else ", in the loader or the settings that it takes"
    yield f"{printable(made_by) or 'A library'} makes the loader{called}. Set{where}:"
    for name, value in change.settings.items():
        text = f"{name}={value!r}"
        whole, alone = setting(text, words), setting(name, words)
        yield f"  {f'{alone} to {value!r}' if whole == text and alone != name else whole}"


def patched(patch: Patch | None, by_hand: bool = False) -> Iterator[str]:
    """Where the patch is, or why there is none, if one was asked for. `by_hand`: there is a change without one."""
    if patch is None:
        return
    if patch.reason == "no-change" and by_hand:
        yield "No patch can be written for this change: make it by hand."
    elif patch.reason:
        yield f"No patch was written. {_WHY[patch.reason]}"
    else:
        rest = ", but not all of this change: write the rest by hand" if patch.partly else ""
        yield f"The patch is in {short(patch.file)}{rest}."


def written(found: Snippet) -> Iterator[str]:
    """The lines of a short place, or the few lines of a long one that change."""
    if len(found.after) <= _MOST_LINES:
        yield f"Write, in {short(found.file)}:{found.line}:"
        yield from _lines(found)
        return
    parts = difflib.SequenceMatcher(None, found.before, found.after, autojunk=False).get_opcodes()
    changed = [
        (found.line + place, found.after[place])
        for kind, _, _, begin, end in parts
        for place in (range(begin, end) if kind != "equal" else ())
    ]
    if 0 < len(changed) <= _MOST_LINES:
        yield f"Write, in {short(found.file)}:"
        for line, new in changed:
            first, *rest = _pieces(printable(new.strip()))
            yield f"  {line} + {first}"
            yield from (f"      {one}" for one in rest)


def _lines(found: Snippet) -> Iterable[str]:
    same = set(found.before) & set(found.after)
    indent = min((len(one) - len(one.lstrip()) for one in found.after if one.strip()), default=0)
    for line in found.after:
        first, *rest = _pieces(printable(line[indent:]))
        yield f"  {' ' if line in same else '+'} {first}"
        yield from (f"    {one}" for one in rest)


def _pieces(code: str) -> list[str]:
    """A line in parts that end behind commas, if it holds a word that is wider than a page: that would lose its middle.

    >>> _pieces("f(a, b)"), _pieces("f(" + "a" * 40 + "," + "b" * 40 + ")")[1]
    (['f(a, b)'], 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb)')
    """
    parts = [""]
    for one in re.findall("[^,]*,|[^,]+", code) if any(len(word) > _ROOM for word in code.split(" ")) else [code]:
        if parts[-1] and len(parts[-1]) + len(one) > _ROOM:
            parts.append(one.lstrip(" "))
        else:
            parts[-1] += one
    return parts


def by_hand(change: Change) -> Iterator[str]:
    """How the user writes a change that is no keyword."""
    for one in (Part(change.how, change.at), *change.parts):
        if one.how and (at := one.at) is not None:
            yield f"Change {printable(at.name)} in {short(at.file)}:{at.line}:" if at.line else f"Change {at.name}:"
        yield from (f"  {printable(line)}" for line in _filled(one.how))


def _filled(how: tuple[str, ...]) -> tuple[str, ...]:
    """The lines, or where one is wider than a page, all of them as one text, which the page then breaks."""
    return (" ".join(how),) if any(len(one) > _PAGE for one in how) else how


def of_script(change: Change) -> Iterator[str]:
    """The same of a change of the script besides its loader, with what it is for."""
    if change.how and change.at is None:
        yield f"For {printable(change.title)}:"
    yield from by_hand(change)


def one_thread(change: Change, place: str) -> Iterator[str]:
    """What limits the workers, and not the script's own process. The trial limited them after the script's own init."""
    pools = [printable(one) for one in dict.fromkeys(change.pools)]
    variables = [one.partition("=") for one in pools if "(" not in one]
    yield f"Let the worker_init_fn of the loader in {place} end with:"
    if variables:
        yield f"  os.environ.update({', '.join(f'{name}={value!r}' for name, _, value in variables)})"
        yield "  threadpoolctl.threadpool_limits(1)"
    yield from (f"  {one}" for one in pools if "(" in one)
    if variables:
        yield "threadpoolctl limits what is already loaded: pip install threadpoolctl."


def loop_threads(change: Change) -> Iterator[str]:
    """The line that sets torch's threads, where the report does not show the place for it."""
    if change.rewrites:  # else `how` says it
        yield f"Before the training loop: torch.set_num_threads({change.loop_threads})"


def short(file: str) -> str:
    """The path from the current folder, if it is shorter."""
    try:
        near = os.path.relpath(file)
    except ValueError:
        return printable(file)
    return printable(min(near, file, key=len))
