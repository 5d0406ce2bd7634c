"""The callable that a user names as `module:function`. It is imported, never evaluated."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from pipebench.errors import PipebenchError, UsageError, did_you_mean
from pipebench.units import printable


def named(name: str, called: str) -> Callable[..., Any]:
    """The callable that `module:function` names. The current folder comes first on the path, as for `python -m`.

    `called` says how it is called, for the remedy: "without arguments". Raises UsageError if the name or the module is
    wrong, and PipebenchError if the module's own code is at fault.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{printable(name)} is not the name of a function", "write it as module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs the user's code, which raises what it likes
        raise _refused(module_name, error) from error
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        near = did_you_mean(part, (one for one in dir(found) if callable(getattr(found, one, None))))
        raise UsageError(printable(str(error)), f"{printable(near)}check the name of the function") from error
    if not callable(found):
        raise UsageError(f"{printable(name)} is not a function", f"name one that can be called {called}")
    wanted: Callable[..., Any] = found
    return wanted


def _refused(module: str, error: BaseException) -> PipebenchError:
    """What is said of a module that cannot be imported: it is not there, or its own code is at fault."""
    name = printable(module)
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return UsageError(f"cannot import {name}: {error}", "run the command in the folder that holds the module")
    said = f"{type(error).__name__}: {error}"
    return PipebenchError(
        f"importing {name} raised {printable(said)[:300]}", "guard what runs at import: if __name__ == '__main__'"
    )
