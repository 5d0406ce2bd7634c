"""What each sample builds or opens anew with the same arguments, kept in the worker: an archive, a filter, a tokenizer.

The lines of a large row name it: a class, or a function called "open" or "connect", that is called there. So do calls
that gave the same in each sample that was looked into. While it is tried, the worker keeps what a call gave for its
arguments, and closing it does nothing. Some samples of each worker must be the same, bit for bit, with and without.
What other files of the user's, or libraries, build stays as it is.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipebench.remedies.seen import Seen, were_free
from pipebench.remedies.source import sources
from pipebench.results.advice import Change, Finding, Place
from pipebench.results.drilled import NeedlessCall
from pipebench.watch.record.patches import Patches, behind, unseen
from pipebench.watch.trial.compared import Comparing, compare_first
from pipebench.watch.trial.edits import Edit, Refused
from pipebench.watch.trial.memo import is_key, same
from pipebench.watch.worker.draws import random_state

PLACE = 7
LEAST_SHARE = 0.15  # of the time of the workers
_CALLED = re.compile(r"(?<![.\w])((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|open|connect))\(")
_NO_CODE = re.compile(r"""("[^"]*"|'[^']*')|#.*""")
_OF_OBJECTS, _CHEAP = ("self", "cls"), ("Path", "PurePath")
_MOST = 64  # of the kept ones


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.serves_stages:
        return None
    found = max((*_lines(seen), *_classes(seen), *_needless(seen)), key=lambda one: one[0], default=None)
    if found is None:
        return None
    share, at = found
    return Change(
        "kept", {}, "memory in each worker", predicted=were_free(share), title=f"{at.name} kept",
        edits={"kept": {"name": at.name, "file": at.file}}, how=_how(at.name), at=at, discards=True, partly=True,
    )  # fmt: skip


def _how(name: str) -> tuple[str, ...]:
    return (
        "Build it once in each process, and keep it open. Beside the dataset:",
        "import functools, os",
        f"@functools.lru_cache({_MOST}, typed=True)",
        "def kept(process, *arguments, **named):",
        f"    return {name}(*arguments, **named)",
        f"Write kept(os.getpid(), ...) in place of {name}(...), without `with` and `close`.",
    )


def _lines(seen: Seen) -> Iterator[tuple[float, Place]]:
    """The lines that call such a class or function, each with its share of the workers' time.

    What a function opens or builds behind an `lru_cache` is left to a larger one.
    """
    cached = [one.name.split(".")[-1] for one in seen.stages if one.holds is not None]
    for _, share, line in seen.lines():
        called = builds(line.text)
        if share >= LEAST_SHARE and called and line.function.split(".")[-1] not in cached:
            yield share, Place(called, line.file, line.line)


def _classes(seen: Seen) -> Iterator[tuple[float, Place]]:
    """The classes whose `__init__` takes such a share, with the first line that calls them. Subclasses may, too."""
    shares: dict[tuple[str, str], float] = {}
    for _, share, line in seen.lines():
        name, _, last = line.function.rpartition(".")
        if last == "__init__" and name.isidentifier():
            shares[name, line.file] = shares.get((name, line.file), 0.0) + share
    for (name, file), share in shares.items():
        for source in sources(seen, [file]) if share >= LEAST_SHARE else ():
            calls = (Place(ast.unparse(one.func), source.file, one.lineno) for one in source.calls_of(name))
            yield from ((share, one) for one in calls if builds(f"{one.name}(") == one.name)


def _needless(seen: Seen) -> Iterator[tuple[float, Place]]:
    """The calls that gave, or made, the same in each sample."""
    for one in seen.needless:
        at = at_call(seen, one) if one.share >= LEAST_SHARE else None
        if at is not None:
            yield one.share, at


def at_call(seen: Seen, found: NeedlessCall) -> Place | None:
    """What is called there, as the file names it; None if it is a method, or did not give each sample the same."""
    for source in sources(seen, [found.file]) if found.what in ("each", "arguments", "object") else ():
        for call in source.calls_of(found.function.split(".")[-1]) if source.file == found.file else ():
            name = ast.unparse(call.func)
            named = all(part.isidentifier() for part in name.split(".")) and name.split(".")[0] not in _OF_OBJECTS
            if named and call.lineno <= found.line <= (call.end_lineno or call.lineno):
                return Place(name, found.file, found.line)
    return None


def builds(text: str) -> str:
    """The first class or function that a line builds something with ("": none).

    Python's own `open` is left out: a file that is kept goes on where the last sample stopped.
    """
    for found in _CALLED.findall(_NO_CODE.sub("''", text)):
        names = found.split(".")
        if found != "open" and names[0] not in _OF_OBJECTS and names[-1] not in _CHEAP:
            return str(found)
    return ""


class _Keeper:
    """What the calls gave, by their arguments: the latest ones. `again` counts the calls that built nothing.

    `drew`: something drew random numbers when it was built, so the samples need a new one each time.
    """

    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}
        self.again = 0
        self.drew = False
        self.names: list[tuple[dict[str, Any], str, Any, Any]] = []  # where, the name, and its plain and present value

    def serve(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if not all(map(is_key, values)):
            return self._built(plain, args, kwargs)
        key = (*map(_kinds, values), *kwargs, *values)
        if key in self.kept:
            self.again += 1
            found = self.kept[key] = self.kept.pop(key)
            return found
        before = random_state()
        found = self._built(plain, args, kwargs)
        if not same(before, random_state()):
            self.drew = True
            return found
        if len(self.kept) >= _MOST:
            del self.kept[next(iter(self.kept))]
        found = self.kept[key] = _left_open(found)
        return found

    def _built(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What the plain call gives. In it, the name is as it was, as for `super(Name, self)`."""
        for space, name, was, _ in self.names:
            space[name] = was
        try:
            return plain(*args, **kwargs)
        finally:
            for space, name, _, now in self.names:
                space[name] = now


def _kinds(value: Any) -> Any:
    """The type of an argument, with those within a tuple: equal numbers may have different types."""
    return (tuple, *map(_kinds, value)) if isinstance(value, tuple) else type(value)


def _left_open(found: Any) -> Any:
    """The same object, or one around it, of which neither `close` nor the end of a `with` closes anything."""
    if not callable(getattr(found, "close", None)):
        return found  # what a `with` ends then, such as a lock, must end
    leave = getattr(type(found), "__exit__", None)
    with contextlib.suppress(AttributeError, TypeError):
        if isinstance(leave, types.FunctionType) and "close" not in leave.__code__.co_names:
            kind = type(found)
            left_open = {
                "close": _nothing,
                "__exit__": _nothing,
                "__reduce_ex__": functools.partialmethod(_as_it_was, kind),
            }
            found.__class__ = type(kind.__name__, (kind,), left_open)
            return found
        if leave is None or isinstance(leave, types.FunctionType):  # then it calls its `close`
            found.close = _nothing
            return found
    return _Open(found)


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _as_it_was(found: Any, kind: type, protocol: Any) -> Any:
    """How it is pickled as an object of its own class, if a sample has it."""
    ours, found.__class__ = type(found), kind
    try:
        how = found.__reduce_ex__(protocol)
    finally:
        found.__class__ = ours
    made = getattr(how[0], "__name__", "") if isinstance(how, tuple) else ""
    if made not in ("__newobj__", "__newobj_ex__"):  # of these, pickle wants the class that the object has now
        return how
    args, named = (how[1][1:], {}) if made == "__newobj__" else how[1][1:]
    return _new, (kind, args, named), *how[2:]


def _new(kind: type, args: Any, named: Any) -> Any:
    return kind.__new__(kind, *args, **named)


class _Open:
    """Stands for an object of a class written in C."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def __getitem__(self, key: Any) -> Any:
        return self._found[key]

    def __len__(self) -> int:
        return len(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._found.__reduce_ex__(protocol)

    close = _nothing


def _in_place_of(plain: Any, keeper: _Keeper) -> Any:
    """A function that serves its calls; of a class, an object that also is what `isinstance` asks for."""
    if not isinstance(plain, type):

        @unseen
        def served(*args: Any, **kwargs: Any) -> Any:
            return keeper.serve(plain, args, kwargs)

        return served

    class Kind(type):
        @unseen
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return keeper.serve(plain, args, kwargs)

        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, plain)

        def __getattr__(cls, name: str) -> Any:
            return getattr(plain, name)

        def __setattr__(cls, name: str, value: Any) -> None:
            setattr(plain, name, value)

    first: Any = plain.__init__  # type: ignore[misc]
    return Kind(plain.__name__, (), {"__init__": first})  # a subclass may call it by name


class _View:
    """A module, or a class, in which one name has another value."""

    def __init__(self, plain: Any, names: Sequence[str], keeper: _Keeper) -> None:
        self._plain = plain
        setattr(self, names[0], _exchanged(getattr(plain, names[0]), names[1:], keeper))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def _exchanged(plain: Any, names: Sequence[str], keeper: _Keeper) -> Any:
    return _View(plain, names, keeper) if names else _in_place_of(plain, keeper)


class _Keeping(Edit):
    def __init__(self, name: str, file: str) -> None:
        self.name, self.file = name, file

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        first, *names = self.name.split(".")
        modules = [one for one in list(sys.modules.values()) if _is_of(one, self.file)]
        every = [one for module in modules for one in (vars(module), *behind(vars(module).values())) if first in one]
        spaces = {id(one): one for one in every}.values()  # a module can have two names
        keeper = _Keeper()
        again = [0]  # in the samples that are compared; the batch makes them once more

        def counted(sample: Any) -> Any:
            again.append(keeper.again)
            return sample

        def change() -> None:
            for space in spaces:
                plain = space[first]
                space[first] = _exchanged(plain, names, keeper)
                keeper.names.append((space, first, plain, space[first]))
                patches.on_undo(functools.partial(space.__setitem__, first, plain))

        def used() -> list[Any]:
            if keeper.drew:
                raise Refused("draws-numbers")
            if not again[-1]:
                raise Refused("not-anew")
            return []

        if not spaces:
            raise Refused("no-such-stage")
        compare_first(fetcher, change, Comparing(0.0, counted, least=2), used)


edit = _Keeping


def _is_of(module: Any, file: str) -> bool:
    return os.path.abspath(getattr(module, "__file__", None) or "") == file
