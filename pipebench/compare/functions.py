"""The `[[benchmark]]` entries of `pipebench.toml`, inside one side of a comparison: any function of the repository.

`setup = "module:function"` gives the callable that is timed, or a tuple: the callable and its arguments. It runs in
every round's process, so that what it makes lies elsewhere in memory each time. This file is read by its path from the
pipebench that drives, and imports nothing of pipebench: `words` is the module `task` of the pipebench at hand.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any


class Source:
    """The functions that `[[benchmark]]` entries name, by their identities without `bench/`."""

    def __init__(self, words: Any, settings: Sequence[dict[str, Any]], folder: str | None) -> None:
        self._words = words
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
        return lambda: _bound(self._object(entry["setup"])()), facts

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


def _bound(given: Any) -> Callable[[], Any]:
    """The callable without arguments, from what a set-up returned."""
    function, *arguments = given if isinstance(given, tuple) and given else (given,)
    if not callable(function):
        raise TypeError(f"a setup returns a callable, or a tuple of a callable and its arguments, not {function!r:.80}")
    return functools.partial(function, *arguments) if arguments else function  # so that its inputs can be seen


def _checking(name: str, check: Callable[[Any], Any]) -> Callable[[Any], None]:
    def checked(output: Any) -> None:
        if check(output) is False:
            raise ValueError(f"{name} says that the output is wrong")

    return checked
