"""Prints what a script can see of how it was started, then ends in the way its first argument names."""

import gc
import hashlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time


def note(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def identity() -> None:
    main = sys.modules["__main__"]
    note(__name__, __file__, sys.argv, sys.path[0], len(sys.path), sys.orig_argv[-2:])
    note(main.__spec__, main.__package__, type(main.__loader__).__name__, sorted(vars(main)), "torch" in sys.modules)
    note(sorted(name for name in os.environ if "PIPEBENCH" in name), sys.stdin.read())


def environment() -> list[str]:
    """Names and digests: the values are nobody else's business."""
    return [f"{name}={hashlib.sha256(value.encode()).hexdigest()[:8]}" for name, value in sorted(os.environ.items())]


def descriptors() -> list[str]:
    """But of this listing, and of the file that some builds of libffi keep open: pipebench imports ctypes."""
    each = ((name, f"/proc/self/fd/{name}") for name in sorted(os.listdir("/proc/self/fd")))
    return [name for name, path in each if os.path.islink(path) and "libffi" not in os.readlink(path)]


def surroundings() -> None:
    """Whatever a process is given besides its code."""
    note(environment(), os.getcwd(), os.getpgid(0) == os.getpgid(os.getppid()), oct(os.umask(0)))
    note(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), [str(signal.getsignal(one)) for one in range(1, 32)])
    note(descriptors(), threading.active_count(), sys.flags, sys.warnoptions, sys.argv)
    note(sys.path, resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), sys.getswitchinterval(), gc.get_threshold())


def child(said: str) -> None:
    note(said, environment(), sys.argv, sys.path)
    if sys.argv[2:] == ["fork"]:
        return  # it inherits what its parent has imported, and whatever finds modules there
    ours = sorted(name for name in sys.modules if name.split(".")[0] == "pipebench")
    note(ours, sys.meta_path[-3:], len(sys.meta_path), gc.callbacks, sorted(vars(sys.modules["__main__"])))


def children() -> None:
    """Starts a second Python by subprocess, and one by each way of multiprocessing."""
    if sys.argv[2:] == ["second"]:
        return child("second")
    subprocess.run([sys.executable, __file__, "children", "second"], check=True)
    for method in ("spawn", "forkserver", "fork"):
        sys.argv[2:] = [method]
        process = multiprocessing.get_context(method).Process(target=child, args=(method,))
        process.start()
        process.join()
        note(process.exitcode)


def fail() -> None:
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second") from None


def chained() -> None:
    try:
        fail()
    except ValueError as error:
        raise RuntimeError("third") from error


def own_hook() -> None:
    sys.excepthook = lambda kind, error, traceback: note(
        "hook", kind.__name__, error, traceback.tb_frame.f_code.co_name
    )
    fail()


def interrupted() -> None:
    """Notes every interrupt, until its standard input ends. Each note is written where an interrupt is caught."""
    count = 0
    news: tuple[object, ...] = ("ready",)
    while True:
        try:
            if news:
                note(*news)
            news = ()
            if not sys.stdin.buffer.raw.read(1):
                break
        except KeyboardInterrupt:
            count += 1
            news = ("interrupt", count)
    note("in all", count)


def wait() -> None:
    note("ready")
    time.sleep(60)


def terminated() -> None:
    # the signal may come while "ready" is written, and then `sys.stdout` takes nothing
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"terminated\n"), sys.exit(9)))
    wait()


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "exit":
        sys.exit(eval(sys.argv[2]))
    elif how == "os-exit":
        os._exit(7)
    elif how == "kill":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), int(sys.argv[2]))
    else:
        {
            "identity": identity, "fail": fail, "chained": chained, "own-hook": own_hook, "interrupted": interrupted,
            "wait": wait, "terminated": terminated, "surroundings": surroundings, "children": children,
        }[how]()  # fmt: skip
