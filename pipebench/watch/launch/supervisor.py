"""Runs a script or a command in a child process, passes signals on, and survives whatever it does."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, NoReturn

from pipebench.host.interrupts import end_at_once
from pipebench.watch.launch.standstill import NEVER, Standstill, Stops
from pipebench.watch.record.recording import Settings

_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
_FORWARDED = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
)
_INTERRUPTS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_FROM_KERNEL = 0
_GROUP_WAIT_S = 0.05
_LOOK_S = 1.0
_PR_SET_PDEATHSIG = 1
_SHELL = "/bin/sh"


class Lifetime(NamedTuple):
    """When a process was started and when its end was noticed, in nanoseconds of the monotonic clock."""

    began: int
    ended: int


@dataclass(frozen=True)
class Ended:
    """How the script ended: its exit status as a shell would show it (128 + n if signal n ended it).

    `lived` is when its process was started and when its end was noticed, by the monotonic clock (None: not known).
    `interrupted` says that Ctrl-C, SIGTERM or SIGHUP came meanwhile, and `stood` what stood still meanwhile. `pid` is
    the number that its process had.
    """

    status: int
    signal: int | None
    lived: Lifetime | None = None
    interrupted: bool = False
    stood: Standstill = NEVER
    pid: int = 0


Meanwhile = Callable[[], contextlib.AbstractContextManager[object]]
Afterwards = Callable[[Ended], object]


def run(
    arguments: Sequence[str],
    settings: Settings,
    meanwhile: Meanwhile = contextlib.nullcontext,
    afterwards: Afterwards = lambda ended: None,
    *,
    impatient: bool = False,
) -> Ended:
    """Runs a script, or `-m` and a module, with its own arguments, under the bootstrap, as `run_command` does."""
    command = [sys.executable, *_interpreter_flags(), str(_BOOTSTRAP), settings.encoded(), *arguments]
    return run_command(command, os.environ, meanwhile, afterwards, impatient=impatient)


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    meanwhile: Meanwhile = contextlib.nullcontext,
    afterwards: Afterwards = lambda ended: None,
    *,
    impatient: bool = False,
) -> Ended:
    """Runs a command in a child process with this environment. It is found as a shell finds it.

    `meanwhile` is entered after the last fork here, so it may start a thread. It is left when the command ends. Then
    `afterwards` is called while signals are still blocked, so that a second Ctrl-C after the command's end does not
    cost the report. With `impatient`, a second Ctrl-C before its end ends this process and the command at once.
    """
    waited = _FORWARDED | {signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    ignored = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN  # then the kernel keeps no exit status for us
    if ignored:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        began = time.perf_counter_ns()
        child = _start(command, environment, _Signals(mask, ignored), libc)
        canary = Canary(libc)
        try:
            with meanwhile():
                ended = _supervise(child, canary, waited, impatient)
                ended = replace(ended, lived=Lifetime(began, time.perf_counter_ns()), pid=child)
        finally:
            canary.end()
        afterwards(ended)
        return ended
    finally:
        while signal.sigtimedwait(waited, 0) is not None:
            pass
        if ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _interpreter_flags() -> list[str]:
    import subprocess

    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]  # as multiprocessing does


class _Signals(NamedTuple):
    """What the command gets as it would without us: the blocked signals, and whether SIGCHLD is ignored."""

    mask: set[int | signal.Signals]
    child_ignored: bool


def _start(command: Sequence[str], environment: Mapping[str, str], signals: _Signals, libc: ctypes.CDLL) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(command, environment, signals, libc, parent)
        except OSError as error:
            os.write(2, f"pipebench: cannot start {command[0]}: {error.strerror}\n".encode(errors="replace"))
        finally:
            os._exit(127)
    return child


def _become(
    command: Sequence[str], environment: Mapping[str, str], signals: _Signals, libc: ctypes.CDLL, parent: int
) -> NoReturn:
    """In the child: arranges to die with the supervisor, unblocks the signals, and becomes the command."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signals.child_ignored:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, signals.mask)
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        script = shutil.which(command[0], path=environment.get("PATH"))
        if error.errno != errno.ENOEXEC or script is None:
            raise
        os.execve(_SHELL, [_SHELL, script, *command[1:]], environment)  # as execvp(3), for a script without #!


class Canary:
    """An idle process in which every signal to the whole process group stays pending, so that we can recognise it.

    The script is in the same group and has already received such a signal, so it must not be passed on again. Signals
    from the terminal can be recognised without this process; signals that a program sends to the group cannot. Pending
    signals are read from outside. So the process need not run for a signal to be seen, however busy the machine is.
    """

    def __init__(self, libc: ctypes.CDLL) -> None:
        asked, self._ask = os.pipe()
        self._answered, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                while number := os.read(asked, 1):
                    signal.sigtimedwait({number[0]}, 0)
                    os.write(answer, number)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answer)

    def noticed(self, number: int) -> bool:
        """Whether this signal went to the whole group. Each signal counts once."""
        end = time.monotonic() + _GROUP_WAIT_S  # a signal reaches the processes of a group one after the other
        while not self._pending(number):
            if time.monotonic() > end:
                return False
            time.sleep(_GROUP_WAIT_S / 20)
        while True:
            os.write(self._ask, bytes([number]))
            os.read(self._answered, 1)
            # If another one came meanwhile, the canary saw both as one signal, or has it pending again.
            if signal.sigtimedwait({number}, 0) is None or not self._pending(number):
                return True

    def _pending(self, number: int) -> bool:
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
            return any(mask & 1 << (number - 1) for mask in masks)
        return False

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ask)
        os.close(self._answered)


def _supervise(child: int, canary: Canary, waited: frozenset[signal.Signals], impatient: bool) -> Ended:
    interrupted, stops = False, Stops()
    while True:
        got = signal.sigtimedwait(waited, _LOOK_S)
        # Another thread of this process may have received SIGCHLD. Valgrind gives 0 to who was stopped meanwhile.
        if got is None or got.si_signo in (0, signal.SIGCHLD):
            status = _changed(child, stops)
            if status is not None:
                return replace(_ended(status), interrupted=interrupted, stood=stops.found())
            continue
        if impatient and interrupted and got.si_signo == signal.SIGINT:
            end_at_once()
        interrupted |= got.si_signo in _INTERRUPTS
        if got.si_code <= _FROM_KERNEL:
            if not canary.noticed(got.si_signo):
                os.kill(child, got.si_signo)
        else:
            canary.noticed(got.si_signo)


def _changed(child: int, stops: Stops) -> int | None:
    """The status with which the child has ended; None if it has not. Notes whether it was stopped or goes on."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if not pid:
            stops.awake()
            return None
        if os.WIFSTOPPED(status):
            stops.stopped()
        elif os.WIFCONTINUED(status):
            stops.continued()
        else:
            return status


def _ended(status: int) -> Ended:
    if os.WIFSIGNALED(status):
        return Ended(128 + os.WTERMSIG(status), os.WTERMSIG(status))
    return Ended(os.waitstatus_to_exitcode(status), None)
