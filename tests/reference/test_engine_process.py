"""The process with an engine, as the command follows it: how it can end. Ray is not needed."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import click.testing
import pytest

from pipebench.commands import run as run_command
from pipebench.errors import PipebenchError, UsageError
from pipebench.reference import engine, ray_there
from pipebench.results.loading import Loading
from pipebench.task import Workload

WORKLOAD = Workload(data="tiny", batch_size=4)
HEAD = """
import json, os, signal, sys, time
job = json.load(open(sys.argv[1]))
note = lambda **said: open(job["training"]["note"], "w").write(json.dumps(said))
beat = lambda **said: os.write(job["pipe"], json.dumps({"within_s": 30.0, **said}).encode() + b"\\n")
"""


@pytest.fixture
def script(monkeypatch):
    """Puts a script in place of the process with the engine."""
    real = subprocess.Popen

    def use(text):
        def started(command, **how):
            return real([sys.executable, "-c", HEAD + text, command[-1]], **how)

        monkeypatch.setattr(engine.subprocess, "Popen", started)

    return use


def measured(**how):
    return engine.measure_engine(WORKLOAD, Loading(), "quick", **how)


def test_what_goes_wrong_there_is_raised_here(script):
    script("note(problem='no CPU', remedy='add a node'); sys.exit(1)")
    with pytest.raises(PipebenchError) as raised:
        measured()
    assert (raised.value.problem, raised.value.remedy) == ("no CPU", "add a node")


def test_wrong_usage_there_is_wrong_usage_here(script):
    script("note(problem='no step', remedy='name one', usage=True); sys.exit(1)")
    with pytest.raises(UsageError):
        measured()


def test_a_process_that_dies_says_how_and_what_it_said_last(script):
    script("print('out of memory', flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(PipebenchError, match="was killed by SIGKILL: out of memory"):
        measured()


@pytest.mark.parametrize(("address", "remedy"), [(None, "fewer --workers"), ("head:6379", "`ray status`")])
def test_a_process_that_hangs_is_killed_with_all_that_it_started(script, address, remedy):
    script(
        "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "beat(what='connecting to Ray', within_s=0.2); time.sleep(600)"
    )
    begin = time.monotonic()
    with pytest.raises(PipebenchError, match="nothing happened for 0 s: connecting to Ray") as raised:
        measured(address=address)
    assert remedy in raised.value.remedy and time.monotonic() - begin < 60


def test_what_a_killed_process_kept_for_a_while_is_removed(script, request, monkeypatch):
    short = tempfile.mkdtemp(dir="/tmp")  # the path of a socket must fit
    request.addfinalizer(lambda: shutil.rmtree(short, ignore_errors=True))
    monkeypatch.setattr("tempfile.tempdir", short)
    monkeypatch.setenv("TMPDIR", short)
    script(
        "import multiprocessing.util as util; from pipebench.host.limits import sockets_in; sockets_in(job['folder'])\n"
        "print(util.get_temp_dir(), flush=True)\n"
        "os.fork() or (print(util.get_temp_dir(), flush=True), os._exit(0)); os.wait()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    with pytest.raises(PipebenchError, match="was killed by SIGKILL"):
        measured()
    assert os.listdir(short) == []


def test_progress_is_passed_on_and_the_job_is_whole(script, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "other:1")
    script(
        "beat(done=1, total=6, what='round 2 of 6')\n"
        "beat(what=json.dumps([job['rounds'], job['batches'], job['address'], 'RAY_ADDRESS' in os.environ]))\n"
        "note(problem='so far', remedy=''); sys.exit(1)"
    )
    seen = []
    with pytest.raises(PipebenchError, match="so far"):
        measured(address="head:6379", steps=12, progress=lambda *one: seen.append(one))
    assert seen[0] == (1, 6, "round 2 of 6") and json.loads(seen[1][2]) == [6, 2, "head:6379", False]


def test_data_in_a_folder_has_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert engine._absolute(Workload(data="photographs")).data == str(tmp_path / "photographs")
    assert engine._absolute(WORKLOAD) is WORKLOAD


def _refused(*arguments):
    found = click.testing.CliRunner().invoke(run_command.command, arguments)
    assert isinstance(found.exception, PipebenchError), found.output
    return found.exception


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ray-address", "head:6379"], "--ray-address needs --engine ray"),
        (["--engine", "ray", "--stream"], "--engine ray and --stream exclude"),
        (["--engine", "ray", "--stage", "decode"], "--engine ray and --stage exclude"),
        (["--engine", "ray", "--cache", "cold"], "--engine ray and --cache cold exclude"),
        (["--engine", "ray", "--workers", "0"], "needs a worker"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments, said):
    error = _refused(*arguments)
    assert isinstance(error, UsageError) and said in error.problem


def test_ray_that_is_missing_is_said_with_its_extra(monkeypatch):
    monkeypatch.setattr(ray_there, "find_spec", lambda name: None)
    error = _refused("--engine", "ray")
    assert "needs ray and pyarrow" in error.problem and error.remedy == "pip install 'pipebench[lab,ray]'"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: Connection refused"),
        ("ray://head:10001", "is not the address of a cluster"),
        ("head", "is no address"),
        ("head:70000", "is no address"),
        ("no-such-host.invalid:6379", "no Ray cluster answers at no-such-host.invalid:6379"),
    ],
)
def test_an_address_that_nobody_answers_at_is_said_at_once(monkeypatch, address, said):
    monkeypatch.setattr(ray_there, "find_spec", lambda name: "there")
    error = _refused("--engine", "ray", "--ray-address", address)
    assert said in error.problem and isinstance(error, UsageError) == ("no Ray cluster" not in said)
