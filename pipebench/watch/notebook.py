"""The cell magic `%%pipebench`: watches what a cell of a notebook runs, and shows the result below it."""

from __future__ import annotations

import argparse
import contextlib
import functools
import shlex
from collections.abc import Iterator
from typing import Any, NoReturn

from pipebench.watch.with_block import WatchedBlock, Watching


class _Said(Exception):
    """An exception that a notebook shows as these lines, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [*self.args]


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Said(f"%%pipebench: {message}", self.format_usage().strip())


def count(text: str) -> int:
    """A number that is not negative. Raises ValueError, of which `argparse` makes a message with this name."""
    if (number := int(text)) < 0:
        raise ValueError
    return number


def name(text: str) -> str:
    """The name of a variable. Raises ValueError for another text, under which nobody would find the result again."""
    if not text.isidentifier():
        raise ValueError
    return text


def _options() -> _Options:
    made = _Options("%%pipebench", add_help=False, allow_abbrev=False)
    made.add_argument("name", nargs="?", type=name, metavar="NAME")
    made.add_argument("--span", action="append", default=[], metavar="MODULE:FUNCTION")
    made.add_argument("--warmup", type=count, default=0, metavar="N")
    return made


def load(shell: Any) -> None:
    """Gives an IPython shell the magic."""
    shell.register_magic_function(functools.partial(_run, shell), "cell", "pipebench")


def _run(shell: Any, line: str, cell: str) -> WatchedBlock:
    """Watches the DataLoaders that this cell iterates, and shows where the time went.

    `%%pipebench NAME` also keeps the result under this name. `--span module:function` times that function too
    (`__main__:f` is one of the notebook), and `--warmup N` leaves out the first N iterations.
    """
    options = _options()
    try:
        words = shlex.split(line)
    except ValueError as error:
        options.error(str(error))
    chosen = options.parse_args(words)
    with Watching(functions=tuple(chosen.span), warmup=chosen.warmup) as seen, _not_shown(shell) as lines:
        done = shell.run_cell(cell)
    if chosen.name:
        shell.user_ns[chosen.name] = seen.result
    if done.success:
        return seen.result
    shell.displayhook(seen.result)
    raise _as_shown(done.error_in_exec or done.error_before_exec or _Said(), lines)


@contextlib.contextmanager
def _not_shown(shell: Any) -> Iterator[list[str]]:
    """Keeps the lines of a traceback that IPython would show, until the cell around ends with the same error."""
    lines: list[str] = []
    plain = shell._showtraceback  # all its ways to show one end there, also those of a kernel
    shell._showtraceback = lambda kind, error, shown: lines.extend(map(str, shown))
    try:
        yield lines
    finally:
        shell._showtraceback = plain


def _as_shown(error: BaseException, lines: list[str]) -> BaseException:
    """The error of the cell, which IPython shows by these lines: without our frames. The cells below do not run."""
    with contextlib.suppress(AttributeError, TypeError):  # a class may allow no attributes
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error
