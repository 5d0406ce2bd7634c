"""Writes a change into the user's own text: the lines before and after, and a unified diff."""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import itertools
import os
import re
import tokenize
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pipebench.remedies.source import Source
from pipebench.results.advice import Change, NoText, Rewrite, Snippet, Value
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.trial_lines import LoaderMade

_NO_NEWLINE = "\\ No newline at end of file"
_OPERANDS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Dict)
_POSITIONS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
"""The parameters of a DataLoader that can be given without their names, in their order."""

_OF_WORKERS = ("prefetch_factor", "multiprocessing_context")
"""What torch refuses without workers."""


class Unwritten(Exception):
    """A change that cannot be written into the user's files, and why."""

    def __init__(self, reason: NoText) -> None:
        super().__init__(reason)
        self.reason: NoText = reason


class Written(NamedTuple):
    """What the user writes: the lines before and after, of the loader's call or of the first place, and a unified diff.

    The diff is for `git apply` or `patch -p1`, with paths relative to the current folder. `no_snippet` and `no_diff`
    say why there is none.
    """

    snippet: Snippet | None
    diff: str | None
    no_snippet: NoText = ""
    no_diff: NoText = ""


def written(made: LoaderMade, change: Change, every: Iterable[LoaderMade] = ()) -> Written:
    """How the user writes a change. `every` are all loaders of the script."""
    try:
        edits = _edits(made, change, every)
    except Unwritten as error:
        return Written(None, None, error.reason, error.reason)
    found = Written(None, None)
    try:
        found = found._replace(snippet=_snippet(made, change, edits))
    except Unwritten as error:
        found = found._replace(no_snippet=error.reason)
    try:
        return found._replace(diff="".join(map(_diff, edits)))
    except Unwritten as error:
        return found._replace(no_diff=error.reason)


def changed(made: LoaderMade, change: Change, since_s: float) -> bool:
    """Whether a file that the change is written into was changed after `since_s` (of `time.time`)."""
    with contextlib.suppress(OSError):
        files = {one.file for one in change.rewrites} | ({made.file} if change.settings else set())
        return any(os.stat(one).st_mtime > since_s for one in files if one)
    return False


@dataclass(frozen=True)
class _Edit:
    """The text of one file before and after, and what is replaced."""

    file: str
    before: str
    after: str
    rewrites: list[Rewrite]


def _edits(made: LoaderMade, change: Change, every: Iterable[LoaderMade]) -> list[_Edit]:
    """Every file that changes. Raises Unwritten."""
    found = [*_of_call(made, change.settings), *change.rewrites] if change.settings else change.rewrites
    if not found:
        raise Unwritten("by-hand")
    if any(owner(one.file) for one in found):
        raise Unwritten("library")
    if _of_other_loaders(made, found, every):
        raise Unwritten("other-loaders")
    files: dict[str, list[Rewrite]] = {}
    for one in found:
        files.setdefault(os.path.realpath(one.file), []).append(one)
    return [_edit(rewrites[0].file, rewrites) for rewrites in files.values()]


def _of_other_loaders(made: LoaderMade, found: Iterable[Rewrite], every: Iterable[LoaderMade]) -> bool:
    """Whether these places lie in the call that made a loader, and other loaders come from this call."""
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        source = Source(made.file)
        call = source.call_at(made)
        if call is None or not any(source.holds(call, one) for one in found):
            return False
        others = any(_place(one) == _place(made) for one in every if one.loader != made.loader)
        return bool(made.others) or others or source.repeats(call)
    return False


def _place(made: LoaderMade) -> tuple[object, ...]:
    return made.file, made.line, made.end_line, made.column, made.end_column


def _edit(file: str, rewrites: list[Rewrite]) -> _Edit:
    text = _text(file)
    if text is None:
        raise Unwritten("encoding")
    places = sorted((one.begin, one.end) for one in rewrites)
    apart = all(begin >= end for (_, end), (begin, _) in itertools.pairwise(places))
    after = _edited(text, rewrites)
    try:
        ast.parse(after.encode())
    except (SyntaxError, ValueError):
        apart = False
    if not apart:
        raise Unwritten("no-python")
    return _Edit(file, text, after, rewrites)


def _snippet(made: LoaderMade, change: Change, edits: list[_Edit]) -> Snippet:
    """The lines of the first file, without those of helpers."""
    edit = next((one for one in edits if not all(part.helper for part in one.rewrites)), None)
    if edit is None:
        raise Unwritten("by-hand")
    shown = [one for one in edit.rewrites if not one.helper]
    raw, after = edit.before.encode(), _edited(edit.before, shown)
    first = raw[: min(one.begin for one in shown)].count(b"\n")
    last = raw[: max(one.end for one in shown)].count(b"\n") + 1
    if change.settings:
        first, last = min(first, made.line - 1), max(last, made.end_line)
    old, new = _lines(edit.before), _lines(after)
    parts = (old[first:last], new[first : last + len(new) - len(old)])
    before, then = (tuple(line.rstrip("\r\n") for line in one) for one in parts)
    return Snippet(edit.file, first + 1, before, then)


def _diff(edit: _Edit) -> str:
    name = _inside(edit.file)
    name += "\t" if " " in name else ""  # for `patch`, a blank ends a name unless a tab does
    lines = difflib.unified_diff(_lines(edit.before), _lines(edit.after), f"a/{name}", f"b/{name}")
    return "".join(one if one.endswith("\n") else f"{one}\n{_NO_NEWLINE}\n" for one in lines)


def _inside(file: str) -> str:
    """The path from the current folder, without links: git takes no other. Raises Unwritten if it is not in there."""
    folder, real = Path.cwd().resolve(), Path(file).resolve()
    if not real.is_relative_to(folder) or not str(real).isprintable():
        raise Unwritten("outside")
    return str(real.relative_to(folder))


def _edited(text: str, found: Iterable[Rewrite]) -> str:
    raw = text.encode()
    end = "\r\n" if b"\r\n" in raw else "\n"
    for one in sorted(found, key=lambda one: (one.begin, one.end), reverse=True):
        raw = raw[: one.begin] + one.new.replace("\n", end).encode() + raw[one.end :]
    return raw.decode(errors="replace")


def _lines(text: str) -> list[str]:
    """Lines with their ends, as git splits them: a form feed or a carriage return ends none."""
    return re.findall("[^\n]*\n|[^\n]+", text)


def _text(file: str) -> str | None:
    """The text of a file with its ends of lines. None: it cannot be read, or it is not UTF-8 for Python, too."""
    with contextlib.suppress(OSError, UnicodeError, SyntaxError, LookupError):
        raw = Path(file).read_bytes() if file else b""
        text, encoding = raw.decode(), tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        return text if raw.decode(encoding).removeprefix("\ufeff") == text.removeprefix("\ufeff") else None
    return None


def _of_call(made: LoaderMade, settings: dict[str, Value]) -> tuple[Rewrite, ...]:
    """Writes these keywords into the call. Raises Unwritten if nothing there takes keywords of a DataLoader."""
    if owner(made.file):
        raise Unwritten("library")
    try:
        source = Source(made.file)
    except (OSError, SyntaxError, ValueError):
        raise Unwritten("no-call") from None
    if _text(made.file) is None:
        raise Unwritten("encoding")
    call = source.call_at(made)
    if call is None or not (call.args or call.keywords):
        raise Unwritten("no-call")

    def place(node: ast.expr) -> tuple[int, int]:
        return source.begin(node), source.end(node)

    before = source.given_before(call)
    present = _present(call, before or 0)
    hidden = [one.value for one in call.keywords if one.arg is None]
    settings = _complete(settings, present, bool(hidden))
    starred = before is None or any(isinstance(one, ast.Starred) for one in call.args)
    if starred and any(name in _POSITIONS and name not in present for name in settings):
        raise Unwritten("no-call")
    edits = [(*place(present[name]), repr(value)) for name, value in settings.items() if name in present]
    exchanged = [Rewrite(made.file, *one) for one in edits]
    added = {name: value for name, value in settings.items() if name not in present}
    if added and hidden:
        return (*exchanged, *_into_dictionary(source, hidden, added))
    text = ", ".join(f"{name}={value!r}" for name, value in added.items())
    return (*exchanged, source.with_keyword(call, text)) if added else tuple(exchanged)


def _complete(settings: dict[str, Value], present: Collection[str], hidden: bool) -> dict[str, Value]:
    """Without workers, what the call says of them goes, and what it may say in `hidden` arguments."""
    without = settings.get("num_workers") == 0
    return settings | ({name: None for name in _OF_WORKERS if hidden or name in present} if without else {})


def _present(call: ast.Call, before: int) -> dict[str, ast.expr]:
    """The arguments that the call shows, by the name of their parameter. A partial call gave those `before`."""
    shown = itertools.takewhile(lambda one: not isinstance(one, ast.Starred), call.args)
    return {
        **dict(zip(_POSITIONS[before:], shown, strict=False)),
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
