"""Git and builds that never end, or that leave something behind which holds their output."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
import repos

from pipebench.compare import bounded, checkouts, config
from pipebench.errors import PipebenchError

NEVER = "sleep 1000"


def gone(pid):
    """Whether a process has ended; waits for it, because the kernel ends it some time after its signal."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        while True:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
            time.sleep(0.01)
    return True


def test_what_does_not_end_is_killed_with_what_it_started(tmp_path):
    command = ["sh", "-c", f"{NEVER} & echo $! > pid; mv pid child; {NEVER}"]
    with pytest.raises(PipebenchError, match=r"`a build` in .* did not end in 1 s"):
        bounded.done(command, tmp_path, 1.0, "a build")
    assert gone(int((tmp_path / "child").read_text()))


def test_a_daemon_that_holds_the_output_is_not_waited_for(tmp_path):
    done = bounded.done(["sh", "-c", f"{NEVER} & echo $!"], tmp_path, 100.0, "a build")
    assert done.returncode == 0
    os.kill(int(done.stdout), signal.SIGKILL)


def test_nobody_answers_a_question(tmp_path):
    assert bounded.done(["cat"], tmp_path, 100.0, "cat").stdout == ""


@pytest.fixture
def repo(tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.py").write_text("")
    (tmp_path / "repo" / ".gitattributes").write_text("*.py filter=slow\n")
    repos.git(tmp_path / "repo", "init", "--quiet")
    repos.commit(tmp_path / "repo", "one")
    return tmp_path / "repo"


def test_a_filter_of_the_user_that_never_ends(repo, tmp_path, monkeypatch):
    (tmp_path / "gitconfig").write_text(f'[filter "slow"]\nsmudge = {NEVER}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bounded, "GIT_S", 2.0)
    with pytest.raises(PipebenchError, match=r"`git checkout` in .* did not end in 2 s"):
        checkouts.checked_out(repo, "HEAD")
    assert not list((tmp_path / "cache" / "ab").iterdir())


def test_a_file_monitor_is_not_asked(repo, tmp_path):
    (tmp_path / "monitor").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (tmp_path / "monitor").chmod(0o700)
    repos.git(repo, "config", "core.fsmonitor", str(tmp_path / "monitor"))
    assert not checkouts.is_dirty(repo) and not (tmp_path / "asked").exists()


def test_a_huge_configuration_is_not_read(tmp_path):
    with open(tmp_path / "pipebench.toml", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PipebenchError, match=r"more than 1 MiB"):
        config.load(tmp_path / "pipebench.toml")
