"""Starts of Python that cost no import of torch: each is a fork of one process that has imported it.

`Popen` and `run` are those of `subprocess`, for `[sys.executable, ...]`. The process that is started is a child of the
caller, with its own arguments, environment, folder, files and signals. `sys.modules` holds what a new Python has there:
torch and the other packages come once they are imported. The script that `pipebench watch` starts is a fork too, as
long as that command has not imported torch itself. Everything else is a real start: flags of the interpreter, the hook
of `watch -- COMMAND`, and what multiprocessing spawns.

Tests of start-up itself, of memory and of stacks use `subprocess`.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import weakref
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing import process as multiprocessing_process
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
BOOTSTRAP = str(ROOT / "pipebench" / "watch" / "launch" / "bootstrap.py")
GROUPS = {  # in the order of their imports, each with those that it brings
    "numpy": [],
    "PIL.Image": [],
    "click": [],
    "msgspec": [],
    "psutil": [],
    "rich.console": [],
    "torch": ["numpy"],
    "torch.utils.data": ["torch"],
    "torch._dynamo": ["torch"],
    "torchvision": ["torch", "torch._dynamo", "PIL.Image"],
    "torchvision.transforms.v2": ["torchvision"],
    "pipebench": ["click", "msgspec", "psutil", "rich.console"],
}
COMMANDS = ("commands.watch", "watch.command", "commands.show", "terminal", "render.text")  # what is kept of pipebench
OURS = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
PR_SET_CHILD_SUBREAPER = 36
_server = []
_kept, _visible, _old = {}, {}, []
_at_exit, _finalizers, _path = [], {}, []
_real_exec = os.execvpe


class Kept:
    """The finder, and the loader, of a module that is there already."""

    def __init__(self, module):
        self.module, self.spec = module, module.__spec__

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        module = _kept.get(name)
        if not _spec(name) or ("." not in name and not _found_as_before(name, module)):
            return None
        spec = ModuleSpec(name, cls(module), origin=module.__spec__.origin, is_package=hasattr(module, "__path__"))
        spec.has_location = module.__spec__.has_location
        return spec

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        vars(module)["__spec__"] = self.spec
        brought = GROUPS.get(self.spec.name, ())
        sys.modules.update((name, _kept[name]) for name in brought if not _spec(name))  # the package has put them there
        for name in brought:
            before = dict(vars(_kept[name]))
            importlib.import_module(name)
            after = vars(_kept[name])
            _exchange({id(old): after[one] for one, old in before.items() if after.get(one, old) is not old})


def _exchange(patched):
    """What is patched at the end of an import is what the modules that come after it take from there."""
    for module in _kept.values() if patched else ():
        names = getattr(module, "__dict__", {})
        names.update((one, patched[id(held)]) for one, held in list(names.items()) if id(held) in patched)


def _spec(name):
    return getattr(_kept.get(name), "__spec__", None)


def _found_as_before(name, module):
    """Whether the path of this process leads to the same package."""
    found = PathFinder.find_spec(name)
    if found is None or found.origin == module.__spec__.origin:
        return True
    _forget(name)
    return False


def _forget(package):
    for one in [one for one in _kept if one.partition(".")[0] == package]:
        del _kept[one]


def _import_all():
    """Imports the groups, and hides them."""
    first, register = set(sys.modules), atexit.register
    atexit.register = lambda *call, **named: [_at_exit.append((call, named)), register(*call, **named)] and call[0]
    for name, brought in GROUPS.items():
        before = set(sys.modules)
        for module in (name, *(f"{name}.{one}" for one in COMMANDS if name == "pipebench")):
            importlib.import_module(module)
        brought += [one for one in sys.modules if one not in before and one != name]
    atexit.register = register
    hidden = [one for one in sys.modules if one not in first and one.partition(".")[0] not in sys.stdlib_module_names]
    _kept.update((name, sys.modules.pop(name)) for name in hidden)
    for brought in GROUPS.values():
        brought[:] = [one for one in brought if one in _kept]
    group = {one: root for root, brought in GROUPS.items() for one in brought if one not in GROUPS}
    group.update({root: root for root in GROUPS})
    for name in group:
        parent, _, last = name.rpartition(".")
        if group.get(parent) != group[name] and parent in _kept:  # the import of the parent does not bring it
            vars(_kept[parent]).pop(last, None)
    _visible.update(sys.modules)
    _finalizers.update(weakref.finalize._registry)
    own = [ROOT / "tests", *os.environ.get("PYTHONPATH", "").split(":")]
    _path[:] = [one for one in sys.path if one and Path(one) not in map(Path, own)]
    assert len(os.listdir("/proc/self/task")) == 1  # what is forked has no other thread
    gc.collect()
    gc.freeze()


def _can(args, environment):
    plain = args[0] == sys.executable and len(args) > 1 and (args[1] in ("-c", "-m") or args[1][:1] not in ("-", ""))
    named = [one for one in environment if one.startswith("PYTHON") and one not in OURS]
    return plain and not named and "PIPEBENCH_WATCH" not in environment


def _exec(file, args, environment):
    """`os.execvpe` of the processes that are started here."""
    environment, args = dict(environment), [one for one in args if one != "-B"]
    if "torch" in sys.modules or not _can(args, environment):
        _real_exec(file, args, environment)
    for one in map(int, os.listdir("/proc/self/fd")):
        try:
            if one > 2 and fcntl.fcntl(one, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                os.close(one)
        except OSError:  # the one that listed them
            pass
    _forget("pipebench")  # it may have changed
    _become(args[1:], environment)


def _become(args, environment):
    """Runs what `python ARGS` would, as a new process would, and ends."""
    _old.append([dict(sys.modules), sys.stdin, sys.stdout, sys.stderr])  # nothing of it may be closed
    os.environ.clear()
    os.environ.update(environment)
    _as_new()
    sys.path[:] = [*(one or os.getcwd() for one in environment.get("PYTHONPATH", "").split(":") if one), *_path]
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.orig_argv[:] = [sys.executable, *args]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, _stream(number, "r" if number == 0 else "w", environment))
        setattr(sys, f"__{name}__", getattr(sys, name))
    status = 1
    try:
        _run(args)
        status = 0
    except SystemExit as error:
        status = _status(error.code)
    except BaseException as error:
        error.__traceback__ = _without_start(error.__traceback__)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    finally:
        _end(status)


def _as_new():
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in set(sys.modules) - set(_visible):
        del sys.modules[name]
    sys.modules.update(_visible)
    sys.meta_path[:] = [*(one for one in sys.meta_path if one.__module__.startswith("_frozen")), PathFinder]
    sys.meta_path[:] = [*(one for one in sys.meta_path[:-1] if one is not PathFinder), Kept, PathFinder]
    sys.path_importer_cache.clear()
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    tempfile.tempdir = None
    multiprocessing_process._children.clear()
    weakref.finalize._registry.clear()
    weakref.finalize._registry.update(_finalizers)
    atexit._clear()
    for call, named in _at_exit:
        atexit.register(*call, **named)
    os.execvpe = _exec


def _stream(number, mode, environment):
    try:
        raw = io.FileIO(number, mode, closefd=False)
    except OSError:
        return None
    if mode == "r":
        return io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "strict")
    at_once = bool(environment.get("PYTHONUNBUFFERED"))
    errors = "backslashreplace" if number == 2 else "strict"
    stream = raw if at_once else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        stream, "utf-8", errors, line_buffering=number == 2 or raw.isatty(), write_through=at_once
    )  # fmt: skip


def _run(args):
    if args[0] == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        sys.argv[:], sys.path[:0] = ["-c", *args[2:]], [""]
        exec(compile(args[1], "<string>", "exec"), vars(main))
    else:
        _as_python(args)


def _without_start(traceback):
    while traceback and traceback.tb_frame.f_code.co_filename in (__file__, _as_python.__code__.co_filename):
        traceback = traceback.tb_next
    return traceback


def _status(code):
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _end(status):
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None and not stream.closed:
                    stream.flush()
            except OSError:
                status = 120
    finally:
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)


def _serve(sock):
    global _as_python
    sys.path.insert(0, "")  # which the next import removes
    from pipebench.watch.launch.bootstrap import run as _as_python

    for one in [one for one in sys.modules if one.startswith("pipebench")]:
        del sys.modules[one]
    _import_all()
    while True:
        message, files, _, _ = socket.recv_fds(sock, 1 << 20, 3)
        if not message:
            os._exit(0)
        between = os.fork()
        if not between:
            _start_one(sock, json.loads(message), files)
        os.waitpid(between, 0)
        for one in files:
            os.close(one)
        sock.send(b".")


def _start_one(sock, asked, files):
    """In a process between the two, whose end leaves its child to the process that asked."""
    between = os.getpid()
    if child := os.fork():
        sock.send(str(child).encode())
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.0005)
    if asked["session"]:
        os.setsid()
    for number, one in enumerate(files):
        os.dup2(one, number)
    os.closerange(3, 1024)
    os.chdir(asked["cwd"])
    _become(asked["args"], asked["environment"])


def _started():
    if not _server:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        named = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(its.fileno())]
        process = subprocess.Popen(command, pass_fds=[its.fileno()], cwd=ROOT, env={**os.environ, **named})
        its.close()
        _server[:] = [ours, process]
    return _server[0]


def end():
    """Ends the process that has imported torch. The next start begins another."""
    if _server:
        sock, process = _server
        _server.clear()
        with contextlib.suppress(OSError):  # it has ended already
            sock.shutdown(socket.SHUT_RDWR)  # a process forked meanwhile, as a worker of a loader, has a copy of it
        sock.close()
        process.wait()


class Popen(subprocess.Popen):
    """As `subprocess.Popen`."""

    def _execute_child(self, *given):
        args, cwd, env, files, session = given[0], given[5], given[6], (given[10], given[13], given[15]), given[21]
        files = [number if one == -1 else one for number, one in enumerate(files)]
        args, environment = [os.fspath(one) for one in args], dict(os.environ if env is None else env)
        if not _can(args, environment):
            return super()._execute_child(*given)
        asked = {"args": args[1:], "cwd": os.fspath(cwd or os.getcwd()), "environment": environment, "session": session}
        sock, libc = _started(), ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            socket.send_fds(sock, [json.dumps(asked).encode()], files)
            self.pid = int(sock.recv(64))
            assert sock.recv(64) == b"."
        finally:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 0)
            self._child_created = True
            self._close_pipe_fds(*given[10:16])


def run(command, input=None, capture_output=False, timeout=None, **how):
    """As `subprocess.run`, but for `check`."""
    if capture_output:
        how.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if input is not None:
        how["stdin"] = subprocess.PIPE
    with Popen(command, **how) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
