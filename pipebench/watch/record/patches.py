"""Replaces functions in other people's modules. Replacements can be undone, and warnings and tracebacks hide them."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import pkgutil
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any, TypeVar

# `warnings` skips frames of the import system when it counts stack levels. With this name it skips our frames too, so
# a warning from inside a wrapped function names the same line as without us.
HIDDEN = "<pipebench importlib._bootstrap>"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
Function = TypeVar("Function", bound=Callable[..., Any])
Fault = Callable[[str, BaseException], object]


def unseen(function: Function) -> Function:
    """Marks a wrapper so that neither warnings nor tracebacks show its frame."""
    code: types.CodeType = function.__code__
    function.__code__ = code.replace(co_filename=HIDDEN)
    return function


def in_place_of(make: Callable[..., Any], plain: Any, operation: str, **names: Any) -> Any:
    """The function that `make(plain)` makes, compiled with the file, name and line of the call in `plain`.

    The call is the last instruction `operation` in `plain`. This is for a function that is replaced, not wrapped:
    warnings and tracebacks show the same frame as without us.
    """
    import ast
    import dis
    import inspect
    import textwrap

    call = [one.positions for one in dis.get_instructions(plain) if one.opname == operation and one.positions][-1]
    tree = ast.parse(textwrap.dedent(inspect.getsource(make)))
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
                setattr(node, name, getattr(call, name))
    space = {**make.__globals__, "__name__": plain.__module__, **names}
    exec(compile(tree, plain.__code__.co_filename, "exec"), space)
    made = space[make.__name__](plain)
    made.__code__ = made.__code__.replace(co_qualname=plain.__code__.co_qualname)  # of looks at its frame
    return functools.wraps(plain)(made)


def is_wrapper(function: Any) -> bool:
    """Whether a call of this function runs code of ours that does not show."""
    return str(getattr(getattr(function, "__code__", None), "co_filename", "")).startswith(HIDDEN)


def is_unseen(function: Any) -> bool:
    """Whether this function is one of ours itself, and not a function of the script's that has our code in it."""
    return bool(getattr(getattr(function, "__code__", None), "co_filename", "") == HIDDEN)


def is_ours(frame_file: str) -> bool:
    return frame_file.startswith((HIDDEN, _PACKAGE))


def without_our_frames(error: BaseException | None) -> None:
    """Removes our frames from the tracebacks of `error` and of all exceptions that led to it.

    Nothing is asked of their classes, which may have attributes of their own in place of those of all exceptions.
    """
    kind: Any = BaseException
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            kind.with_traceback(one, _cleaned(kind.__traceback__.__get__(one)))  # its class may forbid to assign
            waiting += kind.__cause__.__get__(one), kind.__context__.__get__(one)


def _cleaned(traceback: types.TracebackType | None) -> types.TracebackType | None:
    links = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_code.co_filename):
            links.append(traceback)
        traceback = traceback.tb_next
    cleaned = None
    for link in reversed(links):
        cleaned = types.TracebackType(cleaned, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return cleaned


def _raised(where: str, error: BaseException) -> None:
    raise error


class Patches:
    """The replacements of one process. `undo` puts the originals back, the last one first.

    `fault` is called for each original that cannot be put back; the others are still put back. Without `fault`, the
    error is raised.
    """

    def __init__(self, fault: Fault = _raised) -> None:
        self._fault = fault
        self._undo: list[Callable[[], None]] = []
        self._replaced: dict[int, tuple[Any, Any]] = {}
        self._names: dict[int, str] = {}

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """Sets `owner.name` to `new`. If someone else replaces it later, `undo` leaves it alone."""
        missing = object()
        old = vars(owner).get(name, missing)
        setattr(owner, name, new)

        def undo() -> None:
            if vars(owner).get(name) is not new:
                return
            if old is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

        self._undo.append(undo)
        if isinstance(owner, types.ModuleType) and old is not missing:
            self._replaced[id(new)] = (new, old)
            self._names[id(new)] = self._names[id(old)] = f"{owner.__name__}:{name}"

    def on_undo(self, action: Callable[[], Any]) -> None:
        self._undo.append(action)

    def rebind(self) -> None:
        """Sets the replacement also in names that `from ... import` bound earlier."""
        _exchange({id(old): (old, new) for new, old in self._replaced.values()})

    def rebind_held(self) -> None:
        """Does the same in objects. For a worker: its objects are its own, and older than its patches."""
        _exchange_held({id(old): (old, new) for new, old in self._replaced.values()})

    @contextlib.contextmanager
    def pickled_by_name(self, pickler: Any) -> Iterator[None]:
        """Inside this block, the class `pickler` writes a replaced function, or its replacement, by its name.

        Pickle accepts a function only if its name leads to that same function. A script may hold either of the two.
        """
        names, own = dict(self._names), vars(pickler).get("reducer_override")

        def reducer_override(self: Any, found: Any) -> Any:
            name = names.get(id(found))
            return NotImplemented if name is None else (pkgutil.resolve_name, (name,))

        if own is not None or not names:
            yield
            return
        pickler.reducer_override = reducer_override
        try:
            yield
        finally:
            del pickler.reducer_override

    def undo(self, everywhere: bool = True) -> None:
        """Puts the originals back: in their modules and classes, and `everywhere` else that holds a replacement.

        The latter takes a look at every object of the process, which is of no use where the process ends. What
        interrupts it, such as Ctrl-C, is raised when all is put back.
        """
        raised: BaseException | None = None
        for act in self._to_put_back(everywhere):
            try:
                self._put_back(act)
            except BaseException as error:
                raised = error
        self._names = {}
        if raised is not None:
            raise raised

    def _to_put_back(self, everywhere: bool) -> Iterator[Callable[[], object]]:
        while self._undo:
            yield self._undo.pop()
        if self._replaced and everywhere:
            replaced, self._replaced = self._replaced, {}
            yield lambda: _exchange(replaced)
            yield lambda: _exchange_held(replaced)

    def _put_back(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:
            self._fault("putting back what was replaced", error)


def _exchange(pairs: dict[int, tuple[Any, Any]]) -> None:
    for names in _namespaces():
        for name, value in list(names.items()):
            if id(value) in pairs:
                names[name] = pairs[id(value)][1]


def _exchange_held(pairs: dict[int, tuple[Any, Any]]) -> None:
    """Exchanges objects in dictionaries, lists, partials and attributes of objects, but not in classes or functions."""
    wanted = [one for one, _ in pairs.values()]
    holder: Any
    for holder in gc.get_referrers(*wanted):
        if holder is wanted or isinstance(holder, (types.FunctionType, type)):
            continue
        if type(holder) is functools.partial and id(holder.func) in pairs:
            part: Any = holder
            part.__setstate__((pairs[id(part.func)][1], part.args, part.keywords, vars(part)))
        elif type(holder) is list:
            holder[:] = [pairs[id(one)][1] if id(one) in pairs else one for one in holder]
        else:
            _exchange_named(holder if type(holder) is dict else getattr(holder, "__dict__", None), pairs)


def _exchange_named(names: Any, pairs: dict[int, tuple[Any, Any]]) -> None:
    """Exchanges objects in one dictionary, unless it belongs to a class, a wrapper or a module."""
    if type(names) is dict and not {"__module__", "__wrapped__", "__builtins__"} & names.keys():
        for name, one in list(names.items()):
            if id(one) in pairs:
                names[name] = pairs[id(one)][1]


def _namespaces() -> Iterator[dict[str, Any]]:
    """The namespace of every module that is not ours.

    A spawned worker's main module shows one dictionary, but its functions run on another: both are given.
    """
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if type(names) is not dict or is_ours(str(names.get("__file__"))):
            continue
        yield names
        if names.get("__name__") == "__mp_main__":
            yield from behind(names.values())


def behind(values: Iterable[Any]) -> list[dict[str, Any]]:
    """The globals in which these functions, and the methods of these classes, look up names.

    Only globals of a spawned worker's main module (`__mp_main__`) are given.
    """
    classes = [one for one in values if isinstance(one, type) and one.__module__ == "__mp_main__"]
    functions = [*values, *(method for one in classes for method in vars(one).values())]
    found = {id(one.__globals__): one.__globals__ for one in functions if isinstance(one, types.FunctionType)}
    return [space for space in found.values() if space.get("__name__") == "__mp_main__"]


class AfterImport:
    """An import finder that calls `act(module)` after one of the named modules has run. It changes no import.

    `act` must not raise, because the script's import would then fail.
    """

    def __init__(self, names: Iterable[str], act: Callable[[types.ModuleType], None]) -> None:
        self.names = set(names)
        self.act = act

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.names:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                return self._with_action(spec)
        return None

    def _with_action(self, spec: ModuleSpec) -> ModuleSpec:
        """Sets `exec_module` on this one loader. The new method removes itself before it runs."""
        loader: Any = spec.loader
        with contextlib.suppress(AttributeError):
            execute = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                with contextlib.suppress(AttributeError):
                    del loader.exec_module
                execute(module)
                self.act(module)

            loader.exec_module = exec_module
            exec_module.__code__ = exec_module.__code__.replace(co_filename=HIDDEN)
        return spec

    def install(self) -> None:
        """Acts on the modules that are already imported, and later on each other one after its import."""
        sys.meta_path.insert(0, self)
        for name in sorted(self.names & set(sys.modules)):
            self.act(sys.modules[name])

    def uninstall(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
