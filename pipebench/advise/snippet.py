"""Writes a change into the user's own call of DataLoader: the lines before and after, and a unified diff."""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from pipebench.results.advice import Change, Snippet, Value
from pipebench.watch.record.trial_lines import LoaderMade


def snippet(made: LoaderMade, change: Change) -> Snippet | None:
    """The call's lines before and after. None: the change is no keyword, or the call is not one of a DataLoader."""
    text = _text(made.file)
    after = _edited(text, made, change.settings) if text is not None and change.settings else None
    if text is None or after is None:
        return None
    old = text.splitlines()[made.line - 1 : made.end_line]
    more = len(after.splitlines()) - len(text.splitlines())
    return Snippet(made.file, made.line, tuple(old), tuple(after.splitlines()[made.line - 1 : made.end_line + more]))


def diff(made: LoaderMade, change: Change) -> str | None:
    """The change as a unified diff, for `git apply` or `patch -p1`. Paths are relative to the current folder."""
    text = _text(made.file)
    after = _edited(text, made, change.settings) if text is not None and change.settings else None
    if text is None or after is None:
        return None
    name = os.path.relpath(made.file)
    lines = difflib.unified_diff(
        text.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(lines)


def _text(file: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return Path(file).read_text(encoding="utf-8") if file else None
    return None


def _edited(text: str, made: LoaderMade, settings: dict[str, Value]) -> str | None:
    """The text with these keywords in the call; None if the call at that place takes no keywords of a DataLoader."""
    call = next(_calls(text, made), None)
    if call is None or not ast.unparse(call.func).endswith("DataLoader"):
        return None
    raw = text.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int | None, column: int | None) -> int:
        return starts[(line or 1) - 1] + (column or 0)

    def place(node: ast.expr) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    present = {one.arg: one.value for one in call.keywords if one.arg}
    edits = [(*place(present[name]), repr(value)) for name, value in settings.items() if name in present]
    added = "".join(f", {name}={value!r}" for name, value in settings.items() if name not in present)
    given = [place(one)[1] for one in [*call.args, *(one.value for one in call.keywords)]]
    if not given:
        return None
    for begin, end, new in sorted([*edits, (max(given), max(given), added)], reverse=True):
        raw = raw[:begin] + new.encode() + raw[end:]
    return raw.decode()


def _calls(text: str, made: LoaderMade) -> Iterator[ast.Call]:
    """The call at the place where the loader was made."""
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == (
                made.line,
                made.end_line,
                made.column,
                made.end_column,
            ):
                yield node
