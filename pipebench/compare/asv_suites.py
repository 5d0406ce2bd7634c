"""The `time_*` benchmarks of a repository's asv suite, inside one side of a comparison.

It finds, names and runs them as asv_runner 0.3 does, which need not be installed: classes and functions in the modules
of `benchmark_dir`, each with every combination of its `params`. `setup` runs before every timed call and `teardown`
after it; `setup_cache` runs once in a process of its own; a benchmark with a `timer` is timed by it.
`NotImplementedError` in a set-up means n/a. The current folder is a temporary one, as under asv. This file is read by
its path from the pipebench that drives, and imports nothing of pipebench.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import itertools
import json
import os
import pickle
import pkgutil
import re
import shutil
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

CONFIGURATION = "asv.conf.json"
TIMED = re.compile(r"(Time[A-Z_].+)|(time_.+)$")
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def configuration(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a repository's asv.conf.json, and its contents: that of the top folder, else one folder below.

    Where there is none, or none that can be read, the contents are empty.
    """
    for path in [folder / CONFIGURATION, *sorted(folder.glob(f"*/{CONFIGURATION}"))]:
        if not path.is_file():  # to read a pipe could take for ever
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            found = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return path.parent, found
    return folder, {}


def suite_folder(folder: Path) -> Path:
    """The folder of a repository's benchmarks: `benchmark_dir` of asv.conf.json, `benchmarks` by default."""
    place, settings = configuration(folder)
    return place / str(settings.get("benchmark_dir", "benchmarks"))


class Benchmark:
    """One `time_*` function of a suite with one combination of its parameters.

    `sources` are the objects that may hold its attributes, the most specific first: function, instance, module.
    """

    def __init__(self, name: str, function: Any, sources: list[Any], values: tuple[Any, ...]) -> None:
        self.name, self.function, self.values, self._sources = name, function, values, sources
        self.setups = self._all("setup")[::-1]
        self.teardowns = self._all("teardown")
        self.setup_cache = self._first("setup_cache")
        self.timer: Callable[[], float] | None = self._first("timer")
        self.is_skipped = values in [tuple(one) for one in self._first("skip_params") or ()]

    def _all(self, wanted: str) -> list[Any]:
        """The attribute in each source that has it. As in asv, its name may be written in other letters: `setUp`."""
        found = []
        for source in self._sources:
            names = [name for name in dir(source) if name.lower() == wanted]
            found += [getattr(source, name) for name in names[:1]]
        return [one for one in found if one is not None]

    def _first(self, name: str) -> Any:
        return next((one for source in self._sources if (one := getattr(source, name, None)) is not None), None)


class Armed:
    """A benchmark that is set up. Each call sets it up anew, if it has a set-up, and advances `elapsed`."""

    def __init__(self, benchmark: Benchmark, cache: Any) -> None:
        self._benchmark = benchmark
        self._arguments = (() if cache is None else (cache,)) + benchmark.values
        self._timer = benchmark.timer or time.perf_counter
        self._is_ready = False
        self.elapsed = 0.0

    def set_up(self) -> None:
        for one in self._benchmark.setups:
            one(*self._arguments)
        self._is_ready = True

    def tear_down(self) -> None:
        for one in self._benchmark.teardowns:
            one(*self._arguments)
        self._is_ready = False

    def call(self) -> Any:
        if self._benchmark.setups and not self._is_ready:
            self.tear_down()
            self.set_up()
        begin = self._timer()
        output = self._benchmark.function(*self._arguments)
        self.elapsed += self._timer() - begin
        self._is_ready = False
        return output

    def fresh(self) -> Callable[[], Any]:
        """The function with its arguments, set up anew."""
        if self._benchmark.setups:
            self.tear_down()
            self.set_up()
        return functools.partial(self._benchmark.function, *self._arguments)

    def plain(self) -> Any:
        """A call that leaves the timing to whoever calls, for a benchmark without a set-up or a timer."""
        return self._benchmark.function(*self._arguments)


class Source:
    """The benchmarks of the suite in `folder` whose names match `settings["wanted"]`, a regular expression."""

    def __init__(self, words: Any, settings: dict[str, Any], folder: str | None) -> None:
        self._words, self._wanted = words, re.compile(settings["wanted"])
        self._suite = suite_folder(Path(folder or "."))
        self._found: dict[str, Benchmark] = {}
        self._broken: dict[str, Exception] = {}  # by the name of a module, or of a class
        self._caches: dict[tuple[str, int], str] = {}  # the files of what `setup_cache` returned
        self._armed: Armed | None = None
        self._home, self._server = (
            tempfile.mkdtemp(prefix="pipebench-asv-", dir=os.environ.get("PIPEBENCH_AB")),
            os.getpid(),
        )

    def listed(self) -> list[str]:
        """Imports the suite. The names of its benchmarks, and of what cannot be imported."""
        os.chdir(self._home)
        for module in self._modules():
            for one in self._of_module(module):
                self._found[one.name] = one
        return [name for name in [*self._found, *self._broken] if name in self._broken or self._wanted.search(name)]

    def prime(self, name: str) -> None:
        """Runs `setup_cache`, once for all benchmarks that share it, in a process of its own."""
        os.chdir(self._home)
        self._cache(self._known(name))

    def call(self, name: str) -> tuple[Callable[[], Callable[[], Any]], dict[str, Any]]:
        """What sets it up and makes the hot callable, and its clock where that is its own."""
        if (error := self._error_of(name)) is not None:
            return functools.partial(_raised, error), {}
        benchmark = self._known(name)
        if benchmark.is_skipped:
            raise self._words.Unavailable("not-built", "its suite skips these parameters")
        own_time = bool(benchmark.setups or benchmark.timer)

        def build() -> Callable[[], Any]:
            os.chdir(self._home)
            self._armed = armed = Armed(benchmark, self._cache(benchmark))
            try:
                armed.set_up()
            except NotImplementedError as missing:
                said = str(missing).splitlines() or ["not implemented"]
                raise self._words.Unavailable("not-built", said[0]) from missing
            return armed.call if own_time else armed.plain

        timer = {"timer": lambda: self._armed.elapsed if self._armed else 0.0} if own_time else {}
        return build, {"fresh": lambda: self._armed and self._armed.fresh(), **timer}

    def leave(self) -> None:
        if self._armed is not None:
            self._armed.tear_down()

    def close(self) -> None:
        """Removes the temporary folder; only in the server, because all rounds use it."""
        if os.getpid() == self._server:
            shutil.rmtree(self._home, ignore_errors=True)

    def _known(self, name: str) -> Benchmark:
        if name in self._found:
            return self._found[name]
        if (error := self._broken.get(name)) is not None:
            said = f"{name} cannot be imported: {type(error).__name__}: {error}"
            raise self._words.Unavailable("not-built", said) from error
        raise self._words.Unavailable("not-built", f"the suite of this commit has no {name}")

    def _error_of(self, name: str) -> Exception | None:
        """Why the module or the class cannot be imported that has this benchmark on the other side."""
        return next((error for one, error in self._broken.items() if name.startswith(f"{one}.")), None)

    def _modules(self) -> Iterator[types.ModuleType]:
        """Every module of the suite that can be imported."""
        package = self._imported(self._suite.name)
        if package is None:
            return
        yield package
        left = [package]
        while left:
            parent = left.pop()
            for found in pkgutil.iter_modules(getattr(parent, "__path__", ()), f"{parent.__name__}."):
                if (module := self._imported(found.name)) is not None:
                    left.append(module)
                    yield module

    def _imported(self, name: str) -> types.ModuleType | None:
        try:
            return importlib.import_module(name) if "." in name else self._package(name)
        except Exception as error:
            self._broken[name.partition(".")[2] or name] = error
            return None

    def _package(self, name: str) -> types.ModuleType:
        """The package of the suite, from its own place whatever else has its name."""
        if not self._suite.is_dir():
            raise FileNotFoundError(f"this commit has no folder {self._suite.name} with an asv suite")
        start = self._suite / "__init__.py"
        if not start.exists():
            package = sys.modules[name] = types.ModuleType(name)
            package.__path__ = [os.fspath(self._suite)]
            return package
        found: Any = importlib.util.spec_from_file_location(name, start, submodule_search_locations=[str(self._suite)])
        package = sys.modules[name] = importlib.util.module_from_spec(found)
        found.loader.exec_module(package)
        return package

    def _of_module(self, module: types.ModuleType) -> Iterator[Benchmark]:
        within = module.__name__.partition(".")[2]
        for name, thing in list(vars(module).items()):
            if name.startswith("_"):
                continue
            if inspect.isfunction(thing):
                yield from _combinations(thing, name, [within, thing.__name__], [thing, module])
            elif inspect.isclass(thing) and not inspect.isabstract(thing):
                try:
                    yield from _of_class(thing, within, module)
                except Exception as error:
                    self._broken[".".join(filter(None, [within, thing.__name__]))] = error

    def _cache(self, benchmark: Benchmark) -> Any:
        """What the benchmark's `setup_cache` returned; None without one. As under asv, it is pickled between."""
        if benchmark.setup_cache is None:
            return None
        code = benchmark.setup_cache.__code__
        key = (code.co_filename, code.co_firstlineno)
        if key not in self._caches:
            self._caches[key] = _made(benchmark, os.path.join(self._home, f"cache-{len(self._caches)}.pickle"))
        with open(self._caches[key], "rb") as file:
            return pickle.load(file)  # written by the process that `_made` forked


def _raised(error: Exception) -> Callable[[], Any]:
    raise error


def _made(benchmark: Benchmark, path: str) -> str:
    """Runs `setup_cache` in a fork, which pickles the result into `path`. Raises `RuntimeError` where it fails."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with open(path, "wb") as file:
                for one in benchmark.setups:
                    if not inspect.ismethod(one) and _takes_nothing(one):  # such as a seed for the whole module
                        one()
                pickle.dump(benchmark.setup_cache(), file, 5)
            status = 0
        except BaseException as error:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{type(error).__name__}: {error}")
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != 0:
        said = Path(path).read_text(encoding="utf-8", errors="replace") if os.WIFEXITED(status) else f"status {status}"
        raise RuntimeError(f"setup_cache failed: {said}")
    return path


def _takes_nothing(function: Any) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True


def _of_class(kind: type, within: str, module: types.ModuleType) -> Iterator[Benchmark]:
    for name, found in inspect.getmembers(kind):
        if inspect.isfunction(found) and TIMED.match(_searched(found, name)):
            instance = kind()
            method = getattr(instance, name)
            yield from _combinations(method, name, [within, kind.__name__, name], [method, instance, module])


def _searched(function: Any, name: str) -> str:
    """The name by which asv decides whether a function is a benchmark."""
    return str(getattr(function, "benchmark_name", name)).rpartition(".")[2]


def _combinations(function: Any, name: str, parts: Sequence[str], sources: list[Any]) -> Iterator[Benchmark]:
    """The benchmarks of one function: one for each combination of its parameters, named as asv prints them."""
    if not TIMED.match(_searched(function, name)) or getattr(function, "skip_benchmark", False):
        return
    title = getattr(function, "benchmark_name", None) or ".".join(filter(None, parts))
    lists: list[Any] = list(
        next((one for source in sources if (one := getattr(source, "params", None)) is not None), [])
    )
    axes = [list(one) for one in lists] if lists and isinstance(lists[0], list | tuple) else [lists] if lists else []
    texts = [_unique([ADDRESS.sub("", repr(one)) for one in axis]) for axis in axes]
    for values, shown in zip(itertools.product(*axes), itertools.product(*texts), strict=True):
        yield Benchmark(f"{title}({', '.join(shown)})" if axes else title, function, sources, values)


def _unique(shown: list[str]) -> list[str]:
    """The texts of an axis; those that occur more than once with a number, as asv has them."""
    often = {one: count for one, count in Counter(shown).items() if count > 1}
    seen: Counter[str] = Counter()
    made = []
    for one in shown:
        made.append(f"{one} ({seen[one]})" if one in often else one)
        seen[one] += 1
    return made
