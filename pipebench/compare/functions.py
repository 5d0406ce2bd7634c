"""The `[[benchmark]]` entries of `pipebench.toml`, inside one side of a comparison: any function of the repository.

`setup = "module:function"` gives the callable that is timed, or a tuple: the callable and its arguments. It runs in
every round's process, so that what it makes lies elsewhere in memory each time. This file is read by its path from the
pipebench that drives, and imports nothing of pipebench: `words` is the module `task` of the pipebench at hand.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any


class Source:
    """The functions that `[[benchmark]]` entries name, by their identities without `bench/`."""

    def __init__(self, words: Any, settings: Sequence[dict[str, Any]], folder: str | None) -> None:
        self._words, self._folder = words, folder
        self._entries = {one["name"]: one for one in settings}

    def listed(self) -> list[str]:
        """Nothing: the configuration lists them. Imports their modules, so that no round has to."""
        for one in self._entries.values():
            with contextlib.suppress(Exception):  # whoever needs it meets the error again, and it is reported there
                importlib.import_module(one["setup"].partition(":")[0])
        return []

    def prime(self, name: str) -> None:
        """Nothing is made before the rounds: memory of the server lies in the same place in all of them."""

    def call(self, name: str) -> tuple[Callable[[], Callable[[], Any]], dict[str, Any]]:
        """What makes the hot callable, and facts about it: the samples of a call, and what checks its output."""
        entry = self._entries[name]
        facts: dict[str, Any] = {"samples": entry.get("samples") or 1}
        if check := entry.get("check"):
            facts["check"] = _checking(check, self._object(check))
        return lambda: self._made(entry["setup"]), facts

    def _made(self, setup: str) -> Callable[[], Any]:
        """The hot callable. RuntimeError: an import of the commit's own code failed, which is no missing library."""
        try:
            return _bound(self._object(setup)())
        except ImportError as error:
            if self._folder and _lies_in(error.name or "", self._folder):
                raise RuntimeError(f"{type(error).__name__}: {error}") from error
            raise

    def _object(self, name: str) -> Any:
        """The object that `module:object` names. Raises `Unavailable` if this commit does not have it."""
        module, _, attribute = name.partition(":")
        try:
            found = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except ModuleNotFoundError as missing:
            if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
                raise
            raise self._words.Unavailable("not-built", f"this commit has no module {missing.name}") from missing
        except AttributeError as missing:
            raise self._words.Unavailable("not-built", f"this commit has no {name}") from missing
        return found

    def leave(self) -> None:
        """Nothing has to be given back at the end of a round."""

    def close(self) -> None:
        """Nothing is kept in the server."""


def _lies_in(module: str, folder: str) -> bool:
    """Whether the top-level package of a module is in the folder."""
    found = sys.modules.get(module.partition(".")[0])
    files = [getattr(found, "__file__", None) or "", *getattr(found, "__path__", ())]
    return any(one.startswith(folder + os.sep) for one in files)


def _bound(given: Any) -> Callable[[], Any]:
    """The callable without arguments, from what a set-up returned."""
    function, *arguments = given if isinstance(given, tuple) and given else (given,)
    if not callable(function):
        raise TypeError(f"a setup returns a callable, or a tuple of a callable and its arguments, not {function!r:.80}")
    return (lambda: function(*arguments)) if arguments else function


def _checking(name: str, check: Callable[[Any], Any]) -> Callable[[Any], None]:
    def checked(output: Any) -> None:
        if check(output) is False:
            raise ValueError(f"{name} says that the output is wrong")

    return checked
