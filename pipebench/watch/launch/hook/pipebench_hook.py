"""Makes a Python process of a watched command ready: when it imports torch, its recording starts.

The process is armed at its start, in less than a millisecond, with nothing imported. The variables that lead here are
hidden from the script, and given to each process that it starts.
"""

import os
import sys
from time import perf_counter_ns

TYPE_CHECKING = False  # `typing` would cost more than all the rest; so would `__future__`, hence the quotes
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VARIABLE = "PIPEBENCH_WATCH"  # its value is the folder for the records of a run
_PATH = "PYTHONPATH"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_BOOTSTRAP = os.path.join(os.path.dirname(_FOLDER), "bootstrap.py")
_ROOT = os.path.abspath(os.path.join(_FOLDER, *[os.pardir] * 4))


def arm(at: int) -> None:
    """Arms this process, which has begun at `at`. A script that pipebench itself starts under watch is left alone."""
    folder = os.environ[VARIABLE]
    Inherited(folder).install()
    if _BOOTSTRAP in sys.orig_argv:
        return
    start = Start(folder, at)
    if _started_by_multiprocessing("spawn"):
        _when_spawned(start)
    elif _started_by_multiprocessing("forkserver"):
        _when_forked(start)
    else:
        start.with_torch()


def with_hook(path: bytes | None) -> bytes:
    """The value of PYTHONPATH with our folder in front. `path` is the user's own; None: it is not set.

    A shell may put it between others, as in `$PYTHONPATH:src`. So our folder with a slash at its end stands for a value
    that is empty: Python takes an empty place between others for the current folder.
    """
    ours = os.fsencode(_FOLDER)
    empty = ours + b"/"
    return empty if path is None else ours + b":" + (path or empty)


def without_hook(path: bytes) -> bytes | None:
    """What `with_hook` was given, and what a shell has put around it."""
    ours = os.fsencode(_FOLDER)
    empty = ours + b"/"
    own = [b"" if one == empty else one for one in path.split(b":") if one != ours]
    return b":".join(own) if own and path != empty else None


class Inherited:
    """What the processes that this one starts must have in their environment, and this process's script must not see.

    It is taken out of `os.environ` only. The environment that the system keeps for this process still has it, and a new
    process gets that one if the script names no other. To an environment that the script names, it is added.
    """

    def __init__(self, folder: str) -> None:
        self._environ: Any = os.environ  # a script may put another object there, which the system does not follow
        self._folder = os.fsencode(folder)
        self._variable, self._path = os.fsencode(VARIABLE), os.fsencode(_PATH)

    def install(self) -> None:
        import _posixsubprocess  # type: ignore[import-not-found,unused-ignore]

        names = self._environ
        del names._data[self._variable]
        if self._path in names._data:
            own = without_hook(names._data.pop(self._path))
            if own is not None:
                names._data[self._path] = own
        fork_exec = self._listed(_posixsubprocess.fork_exec)
        for module in (_posixsubprocess, sys.modules.get("subprocess")):
            for name in ("fork_exec", "_fork_exec"):
                if hasattr(module, name):
                    setattr(module, name, fork_exec)
        for name in ("execve", "posix_spawn", "posix_spawnp"):
            setattr(os, name, self._named(getattr(os, name)))
        for name in ("execv", "system"):
            setattr(os, name, self._kept(getattr(os, name)))

    def _listed(self, plain: "Callable[..., Any]") -> "Callable[..., Any]":
        def fork_exec(*args: "Any") -> "Any":
            """As `_posixsubprocess.fork_exec`: its sixth argument is the environment as a list, or None."""
            if not os.path.isdir(self._folder):
                return plain(*args)
            if args[5] is None:
                self._keep()
                return plain(*args)
            pairs = dict(one.split(b"=", 1) for one in args[5])
            return plain(*args[:5], [b"=".join(one) for one in self._added(pairs).items()], *args[6:])

        return fork_exec

    def _named(self, plain: "Callable[..., Any]") -> "Callable[..., Any]":
        def start(path: "Any", argv: "Any", env: "Any", **how: "Any") -> "Any":
            """As `os.execve` and `os.posix_spawn`: the third argument is the environment as a mapping, or None."""
            if env is None:
                self._keep()
            elif os.path.isdir(self._folder):
                env = self._added({os.fsencode(name): os.fsencode(value) for name, value in env.items()})
            return plain(path, argv, env, **how)

        _named_as(plain, start)
        return start

    def _kept(self, plain: "Callable[..., Any]") -> "Callable[..., Any]":
        def start(*args: "Any", **named: "Any") -> "Any":
            """As `os.execv` and `os.system`: they take the system's environment."""
            if os.path.isdir(self._folder):
                self._keep()
            return plain(*args, **named)

        _named_as(plain, start)
        return start

    def _added(self, pairs: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """The environment with ours. If it names a folder, `pipebench watch` starts another command in it."""
        path = pairs.get(self._path)
        own = path if path is None else without_hook(path)
        return {self._variable: self._folder, **pairs, self._path: with_hook(own)}

    def _keep(self) -> None:
        """The script may have set PYTHONPATH since, or removed it: then the system's environment has lost ours."""
        os.putenv(self._variable, self._folder)
        os.putenv(self._path, with_hook(self._environ._data.get(self._path)))


def _named_as(plain: "Callable[..., Any]", start: "Any") -> None:
    """Lets a function of `os` be pickled by its name, as `Pool.map(os.system, ...)` does."""
    start.__module__, start.__name__, start.__qualname__ = "os", plain.__name__, plain.__name__


class OwnPackage:
    """Finds `pipebench` in the folder of this file, whatever `sys.path` holds, while its block runs.

    That folder is often `site-packages`. In front of `sys.path`, an old package there, as `dataclasses`, would be taken
    for the module of the standard library.
    """

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Where `pipebench` is; None for every other name."""
        if name != "pipebench":
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [_ROOT])


class Start:
    """Starts the recording of this process, once. It is a finder of modules for as long as it waits for torch."""

    def __init__(self, folder: str, at: int) -> None:
        self._folder, self._at, self._pid = folder, at, os.getpid()
        self._argv = started_as(list(getattr(sys, "argv", [])), sys.orig_argv)
        self._done = False

    def with_torch(self) -> None:
        """Starts when torch is imported: now, or before its first module runs.

        A process that was forked from a watched one has its parent's patches, which know that it is another process.
        """
        if self._done:
            return
        if "torch" in sys.modules:
            self.now()
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> None:
        """Finds nothing. The name shows when torch is about to be imported."""
        if name == "torch" and self in sys.meta_path:
            sys.meta_path.remove(self)
            self.now()

    def now(self) -> None:
        self._done = True
        at = self._at if os.getpid() == self._pid else perf_counter_ns()  # a process forked from this one is younger
        try:
            with OwnPackage():
                from pipebench.watch.launch.program import begin
            begin(self._folder, at, self._argv)
        except Exception as error:
            _say(error)


def started_as(argv: list[str], whole: list[str]) -> list[str]:
    """The script or module of this process with its arguments. `argv` is `sys.argv` at the start: it may change later.

    `whole` is the command line, which alone has the name of a module then. What multiprocessing starts learns its
    script later: it has none here.
    """
    if argv[:1] == ["-m"]:
        return [whole[-len(argv)].removeprefix("-m"), *argv[1:]]
    return [] if argv[:1] == ["-c"] and any("from multiprocessing." in one for one in whole) else argv


def _say(error: Exception) -> None:
    sys.stderr.write(f"pipebench: process {os.getpid()} is not watched ({type(error).__name__}: {error})\n")


def _started_by_multiprocessing(name: str) -> bool:
    """Whether this module of multiprocessing has started this process. What it will run is then not known yet."""
    return any(f"from multiprocessing.{name} import" in one for one in sys.orig_argv)  # 3.14 imports sys before


def _when_spawned(start: Start) -> None:
    """Waits until this process knows what it runs."""
    from multiprocessing.process import BaseProcess

    kind: Any = BaseProcess
    plain = kind._bootstrap

    def _bootstrap(process: "Any", *args: "Any", **named: "Any") -> "Any":
        kind._bootstrap = plain
        _known(process, start)
        return plain(process, *args, **named)

    kind._bootstrap = _bootstrap


def _when_forked(start: Start) -> None:
    """Waits until a process that the fork server has forked from this one knows what it runs."""
    import multiprocessing.util
    from multiprocessing.process import current_process

    multiprocessing.util.register_after_fork(start, lambda start: _known(current_process(), start))
    _kept.append(start)  # multiprocessing keeps only a weak reference


def _known(process: "Any", start: Start) -> None:
    """A worker of a loader has a recording of its own."""
    if getattr(getattr(process, "_target", None), "__name__", "") != "_worker_loop":
        start.with_torch()


_kept: list[Start] = []
