"""Ctrl-C, SIGTERM, SIGHUP and SIGKILL, sent to the real commands: what was measured is kept, and nothing is left."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest
import warm

from pipebench.compare import scaffold
from pipebench.compare.config import Own
from pipebench.host.interrupts import interruptible

PATIENCE_S = 150
LAB = Path(__file__).parents[1] / "results" / "saved" / "lab.json"
RUN = ["run", "--data", "tiny", "--stage", "decode", "--variant", "pillow", "--variant", "opencv"]


class Running:
    """A command in a session of its own, with a folder of its own for temporary files.

    The name of that folder is short: with more than 107 characters, torch cannot hand a batch over (unix(7)).
    """

    def __init__(self, folder, *arguments, beside=None):
        self.folder = beside.folder if beside else tempfile.TemporaryDirectory(prefix="pb-", dir="/tmp")
        self.left = Path(self.folder.name)
        self.process = warm.Popen(
            [sys.executable, "-m", "pipebench", *map(str, arguments)],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(self.left)},
            preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in (signal.SIGHUP, signal.SIGTERM)],
        )  # fmt: skip
        self.said = ""

    def until(self, words):
        """Waits for a line with these words on standard error."""
        patience = threading.Timer(PATIENCE_S, os.killpg, (self.process.pid, signal.SIGKILL))
        patience.start()
        for line in self.process.stderr:
            self.said += line
            if words in line:
                patience.cancel()
                return
        patience.cancel()
        pytest.fail(f"it ended before it said {words!r}: {self.said}")

    def until_true(self, seen):
        end = time.monotonic() + PATIENCE_S
        while not seen():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.02)

    def send(self, number, to_group=False):
        (os.killpg if to_group else os.kill)(self.process.pid, number)

    def ended(self):
        """The exit status, and how long it took. Nothing of its session may live on."""
        begin = time.monotonic()
        out, said = self.process.communicate(timeout=PATIENCE_S)
        self.out, self.said = out, self.said + said
        took_s = time.monotonic() - begin
        with pytest.raises(ProcessLookupError):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                os.killpg(self.process.pid, 0)
                time.sleep(0.05)
        return self.process.returncode, took_s

    @property
    def files_left(self):
        """What lies in the folder for temporary files, but for what torch keeps there of what it has compiled."""
        return [one.name for one in self.left.iterdir() if not one.name.startswith("torchinductor")]


def measured(place):
    return place.exists() and json.loads(place.read_text())["measurements"]


def shared():
    return {one.name for one in Path("/dev/shm").iterdir()}


def stays_in_memory(before):
    """What is new in shared memory, and stays: names of processes beside this one come and go."""
    left, end = shared() - before, time.monotonic() + 10
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left &= shared()
    return left


@pytest.mark.parametrize(
    ("number", "to_group"),
    [
        (signal.SIGTERM, False),
        *(pytest.param(*one, marks=pytest.mark.long) for one in ((signal.SIGTERM, True), (signal.SIGHUP, True))),
    ],
)
def test_run_saves_what_was_measured(number, to_group, tmp_path):
    running, before = Running(tmp_path, *RUN, "--export-json", "r.json"), shared()
    running.until_true(lambda: measured(tmp_path / "r.json"))
    running.send(number, to_group)
    status, _ = running.ended()
    assert status == 130 and "interrupted; what was measured is in" in running.said, running.said
    root = json.loads((tmp_path / "r.json").read_text())
    assert root["partial"] and root["measurements"] and "This report is partial" in running.out
    assert running.files_left == [] and not stays_in_memory(before)


def in_training(number, to_group, tmp_path):
    """Interrupts a run in the middle of its training. How long that took, in seconds."""
    options = ["--data", "tiny", "--quick", "--steps", "4000", "--consumer", "1000", "--export-json", "r.json"]
    running, before = Running(tmp_path, "run", *options), shared()
    running.until("training: live against bound")
    running.until_true(lambda: any(running.left.glob("pipebench-watch-*/*.spans")))
    time.sleep(5)  # in the middle of it
    running.send(number, to_group)
    status, took_s = running.ended()
    assert status == 130, running.said
    root = json.loads((tmp_path / "r.json").read_text())
    assert root["partial"] and root["loader"]
    assert running.files_left == [] and not stays_in_memory(before)
    return took_s


@pytest.mark.long
@pytest.mark.parametrize("to_group", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_training_ends_and_is_saved(number, to_group, tmp_path):
    in_training(number, to_group, tmp_path)


@pytest.mark.timing
def test_training_ends_within_three_seconds(tmp_path):
    took_s = in_training(signal.SIGINT, False, tmp_path)
    load = os.getloadavg()[0]
    assert took_s < 3 * max(1.0, load / os.cpu_count()), f"{took_s:.1f} s at a load of {load:.1f}"


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.slow), pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
)
def test_a_study_that_is_interrupted_ends_with_what_it_has(number, tmp_path):
    running = Running(tmp_path, "study", "tar-or-files", "--export-json", "s.json")
    running.until("timing")  # one round of 72 is over
    running.send(number)
    status, _ = running.ended()
    assert status == 130 and "Traceback" not in running.said, running.said
    if (tmp_path / "s.json").exists():
        assert json.loads((tmp_path / "s.json").read_text())["partial"] and "This report is partial" in running.out
    else:
        assert "nothing was saved" in running.said


def test_a_study_that_is_interrupted_at_once_says_that_nothing_was_saved(tmp_path):
    running = Running(tmp_path, "study", "metrics", "--export-json", "s.json")
    running.until("looking for sync points")
    running.send(signal.SIGTERM)
    assert running.ended()[0] == 130 and "nothing was saved" in running.said and "Traceback" not in running.said
    assert not (tmp_path / "s.json").exists() and running.files_left == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_calibrate_ends_and_leaves_nothing(number, tmp_path):
    running, before = Running(tmp_path, "calibrate", "--export-json", "c.json"), shared()
    running.until("planted run")
    running.until_true(lambda: any(running.left.glob("pipebench-watch-*/*.spans")))
    running.send(number)
    assert running.ended()[0] == 130 and running.said.endswith("nothing was saved\n"), running.said
    assert running.files_left == [] and not stays_in_memory(before)


def test_the_second_ctrl_c_ends_at_once(tmp_path):
    """Its first one is being answered for ever: the process to be closed is stopped."""
    code = (
        "import time, sys\n"
        "from pipebench.host.interrupts import interruptible\n"
        "with interruptible():\n"
        "    try:\n"
        "        print('ready', flush=True); time.sleep(100)\n"
        "    finally:\n"
        "        print('saving', flush=True); time.sleep(100)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    for said in ("ready", "saving"):
        assert process.stdout.readline() == said + "\n"
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=50) == 130  # less than what it sleeps


def test_the_second_ctrl_c_while_a_script_of_ours_runs_ends_at_once():
    """The script does not answer the first one, and would run on."""
    code = (
        "import os\n"
        "from pipebench.watch.launch.supervisor import run_command\n"
        "command = ['sh', '-c', 'trap \"\" INT; echo ready; exec sleep 100']\n"
        "run_command(command, os.environ, impatient=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    end = time.monotonic() + 50  # less than what it sleeps
    while process.poll() is None and time.monotonic() < end:
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    assert process.wait(timeout=10) == 130
    process.stdout.read()  # until the script has ended too


@pytest.mark.parametrize("command", [pytest.param(["calibrate"], marks=pytest.mark.long), ["watch", "train.py"]])
def test_what_a_killed_run_left_is_removed_by_the_next(command, tmp_path):
    (tmp_path / "train.py").write_text("import time\ntime.sleep(100)\n")
    (tmp_path / "short.py").write_text("")
    running = Running(tmp_path, *command)
    mine = running.left / "pipebench-of-mine"
    mine.mkdir()
    running.until_true(lambda: any(running.left.glob("pipebench-watch-*/*.spans")))
    running.send(signal.SIGKILL)
    running.process.wait()
    assert len(running.files_left) > 1
    following = Running(tmp_path, "watch", "short.py", beside=running)
    assert following.ended()[0] == 0
    assert following.files_left == [mine.name]


def test_to_show_a_report_after_a_signal_imports_nothing_more():
    """On a busy machine these imports took a second of the time that a signal may take."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pipebench.results import report\n"
        "from pipebench.terminal import ready_to_render, rendered\n"
        f"found = report.load(Path({str(LAB)!r}))\n"
        "ready_to_render()\n"
        "before = set(sys.modules)\n"
        "assert rendered(found, 'table')\n"
        "print(sorted(one for one in set(sys.modules) - before if one.startswith(('pipebench', 'rich'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", (done.stdout, done.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_users_loader_does_not_outlive_init(number, tmp_path):
    """It stays in a call of the user's, in a process of its own."""
    subprocess.run(["git", "init", "--quiet", "."], cwd=tmp_path, check=True)
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\ndef make_loader():\n    pathlib.Path('called').touch()\n    time.sleep(600)\n"
    )
    running = Running(tmp_path, "init", "slow:make_loader")
    running.until_true((tmp_path / "called").exists)
    running.send(number)
    status, _ = running.ended()
    assert (status, running.said.strip(), running.files_left) == (130, "", [])


def test_a_signal_just_after_the_users_loader_has_started_ends_it(monkeypatch, tmp_path):
    """Whoever it interrupts would wait at its own end until the loader is made."""
    plain, started = ForkProcess.start, []

    def start(child):
        plain(child)
        started.append(child)
        signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr(ForkProcess, "start", start)
    monkeypatch.setattr(scaffold, "_looked_at", lambda *_: time.sleep(600))
    with pytest.raises(KeyboardInterrupt), interruptible():
        scaffold._from_a_child(Own(), tmp_path)
    started[0].join(10)
    assert started[0].exitcode == -signal.SIGKILL


def test_a_forked_child_ends_as_if_nothing_were_to_be_saved():
    with interruptible():
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                signal.raise_signal(signal.SIGTERM)
                time.sleep(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
