"""Runs git and builds, each with a deadline: a filter, a hook or a build that waits must not make a comparison hang."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipebench.errors import PipebenchError
from pipebench.units import printable

GIT_S = 300.0
BUILD_S = 3600.0
# What git sets for its hooks and aliases (`git rev-parse --local-env-vars`), without its configuration. By these, a git
# that works in another folder would change the user's repository.
_OF_A_REPOSITORY = frozenset((
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE", "GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX",
    "GIT_SHALLOW_FILE", "GIT_COMMON_DIR", "GIT_INTERNAL_SUPER_PREFIX",
))  # fmt: skip


class GitFailed(PipebenchError):
    """git ended with another status than 0. `said` is what it wrote to standard error."""

    def __init__(self, problem: str, said: str) -> None:
        super().__init__(problem, "mend what git reports")
        self.said = said


def done(
    command: Sequence[str], at: Path, limit_s: float, named: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command gave that has ended; errors name it as `named`.

    It works in the repository of the folder `at`, also where a hook of git started us. It has nobody to ask: no
    terminal, and nothing on its standard input. Its outputs are files, so what it leaves behind cannot keep them
    open. Raises PipebenchError where it did not end in time; it is killed then with all that it started, and so it
    is if this process is interrupted.
    """
    own = {name: value for name, value in (environment or os.environ).items() if name not in _OF_A_REPOSITORY}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, cwd=at, env=own, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            status = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            problem = f"`{printable(named)}` in {printable(at)} did not end in {limit_s:.0f} s"
            raise PipebenchError(problem, "look for what it waits for: a filter, a hook, or a network") from error
        finally:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode("utf-8", "surrogateescape"))
        return subprocess.CompletedProcess(command, status, *said)
