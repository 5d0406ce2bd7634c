"""How a comparison ends before its time: by a signal, by a commit that does not end, and what would block it."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import repos

from pipebench.compare import asv_suites, config, import_roots, rounds, schedule, server
from pipebench.errors import PipebenchError
from pipebench.host.interrupts import interruptible
from pipebench.runner import RunnerDied, RunnerFailed

TOML = "".join(f'[[benchmark]]\nname = "{name}"\nsetup = "timed:{name}"\n' for name in ("fine", "other"))
TIMED = """import os, time
def fine():
    if "MARKS" in os.environ:
        with open(os.environ["MARKS"], "a") as file:
            file.write("x")
    return sum, [1, 2]
def other():
    return time.sleep, 0.001
"""


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    """Two commits; in the second, one function sleeps for ever."""
    folder = tmp_path_factory.mktemp("ending")
    (folder / config.CONFIG).write_text(TOML)
    repos.git(folder, "init", "--quiet")
    for text in (TIMED, TIMED.replace("0.001", "100_000")):
        (folder / "timed.py").write_text(text)
        repos.commit(folder, "one more")
    return folder


def wait_for_two_rounds(marks):
    """Every round sets the function up once a side; the first has ended when the second is under way."""
    before, until = marks.stat().st_size, time.monotonic() + 60
    while marks.stat().st_size < before + 4:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_saves_what_is_known(number, repo, tmp_path):
    file, marks = tmp_path / "ab.json", tmp_path / "marks"
    command = [sys.executable, "-m", "pipebench", "ab", "HEAD~1", "HEAD~1", "--variant", "fine", "--export-json"]
    running = subprocess.Popen(
        [*command, str(file)], cwd=repo, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "MARKS": str(marks)},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # as at a terminal: `nohup` would ignore some
    )  # fmt: skip
    for line in running.stderr:
        if line.startswith("comparing for"):
            wait_for_two_rounds(marks)
            os.killpg(running.pid, number)  # also to what it has started, as a terminal that is closed does
    assert running.wait() == 130
    report = json.loads(file.read_text())
    assert report["partial"] and report["failure"] == "interrupted"


def test_a_commit_that_sleeps_fails_by_name_and_the_other_benchmarks_go_on(repo):
    options = ["--rounds", "1", "--timeout", "2", "--format", "json"]
    done = repos.pipebench("ab", "HEAD~1", "HEAD", *options, cwd=repo)
    rows = {one["benchmark"]: one for one in json.loads(done.stdout)["comparison"]["changes"]}
    assert done.returncode == 1 and len(rows["bench/fine"]["rounds"]) == 1
    assert rows["bench/other"]["failed"].startswith("HEAD (")
    assert "no answer within 2 s (--timeout): it builds the benchmark" in rows["bench/other"]["failed"]


class Slow(server.Server):
    """A server that answers each request 40 s after the one before, on a clock that does not wait."""

    def __init__(self, monkeypatch):
        self.side, self.s, self.given_s = server.Side("one", None), 0.0, []
        self._asked, self._kept, self._child, self._timeout_s, self._pipe = server.deque(), [], None, 60.0, self
        monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: self.s))

    def send_bytes(self, request):
        pass

    def poll(self, seconds):
        self.given_s.append(seconds)
        self.s += 40.0
        return seconds >= 40.0

    def recv_bytes(self):
        return pickle.dumps((False, None))


def test_each_answer_has_its_own_time_where_several_were_asked_for_at_once(monkeypatch):
    """As a new server is, for all that the last one had made."""
    slow = Slow(monkeypatch)
    for method in ("start", "prime", "keep"):
        slow.send(method)
    slow.made_again(3)
    assert slow.given_s == [60.0] * 3 and len(slow._kept) == 3


def test_a_side_that_dies_when_it_is_to_begin_again_stops_the_comparison_by_name():
    """The benchmark has failed for what came first."""
    row, died = schedule.Row("bench/one"), Mock(side_effect=RunnerDied("the head process left with exit status 1"))
    gone = SimpleNamespace(errors=io.BytesIO(), recover=died)
    said = "head process left with exit status 1 in bench/one"
    with pytest.raises(PipebenchError, match=said), rounds._failing(row, [gone]):
        raise RunnerFailed("no answer within 60 s")
    assert row.failed == "no answer within 60 s"


def test_only_the_first_signal_interrupts():
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
            raise
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_pipe_in_place_of_a_configuration_is_not_read(tmp_path, monkeypatch):
    """To read it would wait for whoever writes into it."""
    for name in (config.CONFIG, "asv.conf.json", "pyproject.toml", "setup.py", "setup.cfg"):
        os.mkfifo(tmp_path / name)
    for name in ("read_text", "read_bytes"):
        monkeypatch.setattr(Path, name, lambda *_, **__: pytest.fail("it was read"))
    monkeypatch.setattr(import_roots.configparser.ConfigParser, "read", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(PipebenchError, match="it is not a regular file"):
        config.load(tmp_path / config.CONFIG)
    assert asv_suites.configuration(tmp_path) == (tmp_path, {})
    assert import_roots.import_roots(tmp_path) == (tmp_path,)
    assert not import_roots.must_be_built(tmp_path)
