"""The cell magic `%%pipebench`: watches what a cell of a notebook runs, and shows the result below it."""

from __future__ import annotations

import argparse
import functools
import shlex
from typing import Any, NoReturn

from pipebench.watch.with_block import WatchedBlock, Watching


class _Said(Exception):
    """An exception that a notebook shows as these lines, without a traceback. Without lines it only ends the cells."""

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
    with Watching(functions=tuple(chosen.span), warmup=chosen.warmup) as seen:
        done = shell.run_cell(cell)
    if chosen.name:
        shell.user_ns[chosen.name] = seen.result
    if not done.success:  # its traceback was shown; the cells below must not run
        shell.displayhook(seen.result)
        raise _Said
    return seen.result
