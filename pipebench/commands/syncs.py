"""`pipebench syncs module:function`: where one iteration would make the host wait for a device."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import click

from pipebench.errors import PipebenchError, UsageError
from pipebench.terminal import delivered, exported, formatted, place
from pipebench.units import printable


@click.command(short_help="List the lines that make the host wait for the device")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--steps", type=click.IntRange(1), default=3, show_default=True, help="Examine this many calls.")
@click.option("--device", help="Device of its tensors.  [default: their own; without a device, as if on one]")
@click.option(
    "--fail-above", type=click.FloatRange(0), metavar="N", help="Exit with 3 if a step has more than N sync points."
)
@formatted
@exported
def command(
    function: str,
    steps: int,
    device: str | None,
    fail_above: float | None,
    style: str,
    export_json: Path | None,
    force: bool,
) -> int:
    """List the lines of MODULE:FUNCTION that make the host wait for a device.

    The function is called without arguments; one call is one iteration. It works without a device: the tensors that
    the function makes are then treated as if on one. What the function prints goes to standard error.
    """
    export_json = place(export_json, force)
    with contextlib.redirect_stdout(sys.stderr):
        found = _imported(function)
        from pipebench.results.report import new
        from pipebench.syncpoints import examine

        report = examine.examine(found, iterations=steps, device=device, name=function)
    delivered(new(sync_points=report), style, export_json)
    return 3 if fail_above is not None and report.per_step > fail_above else 0


def _imported(name: str) -> Callable[[], object]:
    """The callable that `module:attribute` names; the current folder comes first, as for `python -m`."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{printable(name)} is not the name of a function", "write it as module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs the user's code, which raises what it likes
        raise _refused(module_name, error) from error
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise UsageError(f"{printable(str(error))}", "check the name of the function") from error
    if not callable(found):
        raise UsageError(f"{printable(name)} is not a function", "name one that can be called without arguments")
    return found


def _refused(module: str, error: BaseException) -> PipebenchError:
    """What is said of a module that cannot be imported: it is not there, or its own code is at fault."""
    name = printable(module)
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return UsageError(f"cannot import {name}: {error}", "run the command in the folder that holds the module")
    said = f"{type(error).__name__}: {error}"
    return PipebenchError(
        f"importing {name} raised {printable(said)[:300]}", "guard what runs at import: if __name__ == '__main__'"
    )
