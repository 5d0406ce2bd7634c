"""Writes a change into the user's own text: the lines before and after, and a unified diff."""

from __future__ import annotations

import ast
import contextlib
import difflib
import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path

from pipebench.remedies.source import Source
from pipebench.results.advice import Change, Rewrite, Snippet, Value
from pipebench.watch.record.trial_lines import LoaderMade

_NO_NEWLINE = "\\ No newline at end of file"
_OPERANDS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Dict)
_POSITIONS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
"""The parameters of a DataLoader that can be given without their names, in their order."""


def snippet(made: LoaderMade, change: Change) -> Snippet | None:
    """The lines before and after: of the loader's call, or of the first place. None: the change cannot be written."""
    found = _rewrites(made, change)
    shown = [one for one in found or () if not one.helper]
    shown = [one for one in shown if one.file == shown[0].file]
    text = _text(shown[0].file) if shown else None
    if text is None:
        return None
    raw, after = text.encode(), _edited(text, shown)
    first = raw[: min(one.begin for one in shown)].count(b"\n")
    last = raw[: max(one.end for one in shown)].count(b"\n") + 1
    if change.settings:
        first, last = min(first, made.line - 1), max(last, made.end_line)
    old, new = _lines(text), _lines(after)
    parts = (old[first:last], new[first : last + len(new) - len(old)])
    before, then = (tuple(line.rstrip("\r\n") for line in one) for one in parts)
    return Snippet(shown[0].file, first + 1, before, then)


def diff(made: LoaderMade, change: Change) -> str | None:
    """The change as a unified diff, for `git apply` or `patch -p1`. Paths are relative to the current folder."""
    found = _rewrites(made, change)
    if not found:
        return None
    return "".join(_diff(file, [one for one in found if one.file == file]) for file in {one.file: 0 for one in found})


def _diff(file: str, found: list[Rewrite]) -> str:
    text, name = _text(file) or "", os.path.relpath(file)
    lines = difflib.unified_diff(_lines(text), _lines(_edited(text, found)), f"a/{name}", f"b/{name}")
    return "".join(one if one.endswith("\n") else f"{one}\n{_NO_NEWLINE}\n" for one in lines)


def _edited(text: str, found: Iterable[Rewrite]) -> str:
    raw = text.encode()
    for one in sorted(found, key=lambda one: (one.begin, one.end), reverse=True):
        raw = raw[: one.begin] + one.new.encode() + raw[one.end :]
    return raw.decode()


def _rewrites(made: LoaderMade, change: Change) -> tuple[Rewrite, ...] | None:
    """Every place to write. None: one of the change's settings cannot be written."""
    if not change.settings:
        return change.rewrites
    of_call = _of_call(made, change.settings) if _text(made.file) is not None else None
    return None if of_call is None else (*of_call, *change.rewrites)


def _lines(text: str) -> list[str]:
    """Lines with their ends, as git splits them: a form feed or a carriage return ends none."""
    return re.findall("[^\n]*\n|[^\n]+", text)


def _text(file: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return Path(file).read_bytes().decode() if file else None  # keeps the ends of lines
    return None


def _of_call(made: LoaderMade, settings: dict[str, Value]) -> tuple[Rewrite, ...] | None:
    """Writes these keywords into the call; None if the call at that place takes no keywords of a DataLoader."""
    try:
        source = Source(made.file)
    except (OSError, SyntaxError, ValueError):
        return None
    call = source.call_at(made)
    if call is None or not (call.args or call.keywords):
        return None

    def place(node: ast.expr) -> tuple[int, int]:
        return source.begin(node), source.end(node)

    present = _present(call)
    starred = any(isinstance(one, ast.Starred) for one in call.args)
    if starred and any(name in _POSITIONS and name not in present for name in settings):
        return None
    edits = [(*place(present[name]), repr(value)) for name, value in settings.items() if name in present]
    written = [Rewrite(made.file, *one) for one in edits]
    added = {name: value for name, value in settings.items() if name not in present}
    hidden = [one.value for one in call.keywords if one.arg is None]
    if added and hidden:
        return (*written, *_into_dictionary(source, hidden, added))
    text = ", ".join(f"{name}={value!r}" for name, value in added.items())
    return (*written, source.with_keyword(call, text)) if added else tuple(written)


def _present(call: ast.Call) -> dict[str, ast.expr]:
    """The arguments that the call shows, by the name of their parameter."""
    shown = itertools.takewhile(lambda one: not isinstance(one, ast.Starred), call.args)
    return {
        **dict(zip(_POSITIONS, shown, strict=False)),
        **{one.arg: one.value for one in call.keywords if one.arg},
    }


def _into_dictionary(source: Source, hidden: list[ast.expr], added: dict[str, Value]) -> Iterable[Rewrite]:
    """Puts the keywords behind those of the dictionaries of a call, which may hold the same ones: the last one counts.

    Several dictionaries become one.
    """
    pairs = [f"{name!r}: {value!r}" for name, value in added.items()]
    merged = ", ".join([*(f"**{_operand(source, one)}" for one in hidden), *pairs])
    for one, new in zip(hidden, [f"{{{merged}}}", *["{}"] * len(hidden)], strict=False):
        yield Rewrite(source.file, source.begin(one), source.end(one), new)


def _operand(source: Source, node: ast.expr) -> str:
    """The text of an expression behind `**`. In a dictionary, a choice such as `a if b else c` needs parentheses."""
    text = source.raw[source.begin(node) : source.end(node)].decode()
    return text if isinstance(node, _OPERANDS) else f"({text})"
