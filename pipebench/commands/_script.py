"""Refuses a command line that names no script, before anything is started."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click

from pipebench.errors import UsageError


def check_script(argv: Sequence[str], context: click.Context) -> None:
    """Raises `UsageError` if `argv`, the script and its arguments, begins with an unknown option or a notebook."""
    name = context.info_name
    if not argv:
        raise UsageError(f"there is no script to {name}", f"name one: pipebench {name} train.py [its arguments]")
    first = argv[0]
    if first.startswith("-") and len(first) > 1:
        options = [option for one in context.command.params if isinstance(one, click.Option) for option in one.opts]
        close = difflib.get_close_matches(first.partition("=")[0], options, 1)
        known = f"did you mean {close[0]}?" if close else f"`pipebench {name} --help` lists the options"
        raise UsageError(f"{name} has no option {first.partition('=')[0]}", known)
    if first.endswith(".ipynb"):
        script = first.removesuffix(".ipynb") + ".py"
        raise UsageError(
            f"{first} is a notebook, and {name} runs Python files",
            f"make one: jupyter nbconvert --to script {first}; then: pipebench {name} {script}. Inside a notebook, "
            "`with pipebench.watching() as seen:` watches the loop of a cell",
        )
