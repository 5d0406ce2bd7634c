"""Begins the recording of one process of a watched command, in that process."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder

from pipebench.watch.launch.watched_script import WatchedScript
from pipebench.watch.record.program_lines import ProgramFailed, ProgramStarted, WithoutTorch
from pipebench.watch.record.recording import SETTINGS_FILE, Settings, told
from pipebench.watch.script.ranks import from_environment
from pipebench.watch.worker import stack_place


def begin(run: str, began: int, argv: Sequence[str] = ()) -> None:
    """Watches this process from now on, with a folder of its own in the folder of the run.

    `began` is when its Python began, and `argv` the script that it was started with (empty: that in `sys.argv`). If the
    folder of the run is gone, the command has ended: nothing is watched.
    """
    try:
        with open(os.path.join(run, SETTINGS_FILE), encoding="utf-8") as file:
            settings = Settings.decoded(file.read())
        folder = os.path.join(run, f"{os.getpid()}-{began}")
        os.mkdir(folder)
        with contextlib.suppress(FileExistsError):  # who looks from outside may have made it already
            os.mkdir(os.path.join(folder, stack_place.FOLDER))
    except FileNotFoundError:
        return
    watched = WatchedScript(dataclasses.replace(settings, folder=folder, shared=run))
    watched.recording.write(ProgramStarted(began, os.getppid(), list(argv or getattr(sys, "argv", []))))
    rank = from_environment()
    if rank is not None:
        watched.recording.write(rank)
    end = _End(watched)
    atexit.register(end)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and (_is_child() or _is_spawned()):
        # Such a process may leave without `atexit`, and here its exception is known.
        multiprocessing.Finalize(None, end, exitpriority=-10)
    watched.start()


def _is_child() -> bool:
    """Whether multiprocessing has started this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _is_spawned() -> bool:
    """Whether multiprocessing has started this process by a command, also before it knows its parent."""
    return any("from multiprocessing.spawn import" in one for one in sys.orig_argv)


def _uncaught() -> BaseException | None:
    """The exception that ends this program."""
    return _of_child() if _is_child() else _of_main()


def _of_child() -> BaseException | None:
    """The exception that ends a process of multiprocessing, which catches each one when this is called.

    What `torch.multiprocessing.spawn` starts writes its exception to a file, and then exits with a status.
    """
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        return error.__context__ if error.code not in (None, 0) else None
    return error


def _of_main() -> BaseException | None:
    """The exception that has ended the main program.

    IPython and pytest also put one that they have handled into `sys.last_value`. Its traceback begins in their files.
    """
    error = getattr(sys, "last_value", None)
    traceback = getattr(error, "__traceback__", None)
    if traceback is None:
        return None
    frame = traceback.tb_frame
    begins = frame.f_globals.get("__name__"), frame.f_code.co_name
    return error if begins in (("__main__", "<module>"), ("runpy", "_run_module_as_main")) else None


def _without_torch() -> WithoutTorch | None:
    """None if this program has imported torch."""
    if "torch" in sys.modules:
        return None
    return WithoutTorch(sys.executable or "", PathFinder.find_spec("torch") is None)


class _End:
    """Ends the recording, once."""

    def __init__(self, watched: WatchedScript) -> None:
        self._watched = watched

    def __call__(self) -> None:
        watched, self._watched = self._watched, None  # type: ignore[assignment]
        if watched is None or watched.recording.pid != os.getpid():
            return
        if (lacks := _without_torch()) is not None:
            watched.recording.write(lacks)
        error = _uncaught()
        if error is not None:
            watched.recording.write(ProgramFailed(told(error)))
        watched.finish(exiting=True)
