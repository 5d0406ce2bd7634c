"""Prints what a script can see of how it was started, then ends in the way its first argument names."""

import os
import signal
import sys
import time


def note(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def identity() -> None:
    main = sys.modules["__main__"]
    note(__name__, __file__, sys.argv, sys.path[0], len(sys.path), sys.orig_argv[-2:])
    note(main.__spec__, main.__package__, type(main.__loader__).__name__, sorted(vars(main)), "torch" in sys.modules)
    note(sorted(name for name in os.environ if "PIPEBENCH" in name), sys.stdin.read())


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
    """Notes every interrupt; ends after the second, or a while after the first."""
    count = -1
    end = time.monotonic() + 10
    while time.monotonic() < end and count < 2:
        try:
            if count < 0:
                count = 0
                note("ready")
            time.sleep(0.05)
        except KeyboardInterrupt:
            count += 1
            note("interrupt", count)
            end = time.monotonic() + 0.6


def wait() -> None:
    note("ready")
    time.sleep(10)


def terminated() -> None:
    signal.signal(signal.SIGTERM, lambda *_: (note("terminated"), sys.exit(9)))
    wait()


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "exit":
        sys.exit(eval(sys.argv[2]))
    elif how == "os-exit":
        os._exit(7)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        {
            "identity": identity, "fail": fail, "chained": chained, "own-hook": own_hook, "interrupted": interrupted,
            "wait": wait, "terminated": terminated,
        }[how]()  # fmt: skip
