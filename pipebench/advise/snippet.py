"""Writes a change into the user's own call of DataLoader: the lines before and after, and a unified diff."""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pipebench.results.advice import Change, Snippet, Value
from pipebench.watch.record.trial_lines import LoaderMade

_NO_NEWLINE = "\\ No newline at end of file"
_BEFORE_WORKERS = 5  # positional parameters of a DataLoader before `num_workers`


def snippet(made: LoaderMade, change: Change) -> Snippet | None:
    """The call's lines before and after. None: the change is no keyword, or the call is not one of a DataLoader."""
    text = _text(made.file)
    after = _edited(text, made, change.settings) if text is not None and change.settings else None
    if text is None or after is None:
        return None
    old, new = _lines(text), _lines(after)
    end = made.end_line + len(new) - len(old)
    shown = [
        [line.rstrip("\r\n") for line in one] for one in (old[made.line - 1 : made.end_line], new[made.line - 1 : end])
    ]
    return Snippet(made.file, made.line, tuple(shown[0]), tuple(shown[1]))


def diff(made: LoaderMade, change: Change) -> str | None:
    """The change as a unified diff, for `git apply` or `patch -p1`. Paths are relative to the current folder."""
    text = _text(made.file)
    after = _edited(text, made, change.settings) if text is not None and change.settings else None
    if text is None or after is None:
        return None
    name = os.path.relpath(made.file)
    lines = difflib.unified_diff(_lines(text), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(one if one.endswith("\n") else f"{one}\n{_NO_NEWLINE}\n" for one in lines)


def _lines(text: str) -> list[str]:
    """Lines with their ends, as git splits them: a form feed or a carriage return ends none."""
    return re.findall("[^\n]*\n|[^\n]+", text)


def _text(file: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return Path(file).read_bytes().decode() if file else None  # keeps the ends of lines
    return None


def _edited(text: str, made: LoaderMade, settings: dict[str, Value]) -> str | None:
    """The text with these keywords in the call; None if the call at that place takes no keywords of a DataLoader."""
    call = next(_calls(text, made), None)
    if call is None or not _takes(call, settings):
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
    closed = re.match(rb"(\s*\))*", raw[max(given) : place(call)[1] - 1])
    last = max(given) + (closed.end() if closed else 0)  # after the parentheses around the last argument
    for begin, end, new in sorted([*edits, (last, last, added)], reverse=True):
        raw = raw[:begin] + new.encode() + raw[end:]
    return raw.decode()


def _takes(call: ast.Call, settings: dict[str, Value]) -> bool:
    """Whether these keywords can be written: the call is a DataLoader's and hides none of them."""
    if not ast.unparse(call.func).endswith("DataLoader") or not (call.args or call.keywords):
        return False
    hidden = any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)
    if hidden:
        return settings.keys() <= {one.arg for one in call.keywords}
    return len(call.args) <= _BEFORE_WORKERS


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
