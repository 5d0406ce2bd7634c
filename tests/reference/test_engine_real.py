"""Ray Data in earnest: here, and on a cluster of which a node is lost on the way."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from pipebench.reference import engine
from pipebench.reference.engine_script import read_note
from pipebench.render import layout
from pipebench.render.engine import parts
from pipebench.results.engine import Node
from pipebench.results.report import Report

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-m", "pipebench", "run", "--engine", "ray", "--data", "tiny", "--workers", "1"]


def started_here():
    """The processes whose environment begins with the tag of an engine."""
    found = []
    for one in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if Path("/proc", one, "environ").read_bytes().startswith(engine._TAG.encode()):
                found.append(one)
        except OSError:
            pass
    return found


@pytest.fixture
def short():
    """A folder with so short a path that Ray's sockets may lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_the_reference_pipeline_under_ray(short):
    environment = {**os.environ, "TMPDIR": str(short), "RAY_ADDRESS": "127.0.0.1:1"}  # which is not used
    done = subprocess.run(
        [*RUN, "--quick", "--steps", "12", "--format", "json"], capture_output=True, text=True, env=environment,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ray" not in done.stderr.replace("Ray", "").lower(), "Ray's own messages"
    found = msgspec.json.decode(done.stdout, type=Report).engine
    assert [arm.source for arm in found.arms] == ["ready", "torch", "ray"] and found.library.startswith("Ray Data 2.")
    assert all(len(arm.cpu_s) == 6 for arm in found.arms)
    assert found.outputs.passes == 7 and found.outputs.compared == 16 and found.outputs.different == 0
    ours = found.operators[-1]
    assert "MapBatches(reference_pipeline)" in ours.name
    assert ours.rows == sum(found.arm("ray").throughput.samples) / 2 * (2 + 2 + 2)
    assert ours.wall_s / ours.rows / found.whole_s > 0.5 and found.blocked is not None
    assert found.nodes == (Node(1.0, trainer=True),) and not found.lost
    assert not started_here() and not list(short.glob("*ray*"))


def test_an_interrupt_leaves_nothing(tmp_path):
    """Here the folder for temporary files has so long a path that Ray's is in /tmp."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(RUN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr:
            if line.startswith("round 4"):
                process.send_signal(signal.SIGINT)
                break
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 130 and "images/s to the training loop" in out
    assert not started_here() and not list(tmp_path.glob("pipebench-ray*")) + list(tmp_path.glob("pymp-*"))


def test_a_node_is_lost_in_the_middle_of_a_pass(tmp_path):
    script = Path(__file__).with_name("lost_node.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = read_note(tmp_path / "note").found
    assert "1 of 3 nodes was lost on the way." in layout.text(parts(found))
    assert found.lost == 1 and sorted(one.cores for one in found.nodes) == [0.0, 1.0, 1.0]
    assert found.outputs.passes == 3 and found.outputs.samples == 16 + 2 * 4 * (4 + 40 + 4)
    assert len(found.arm("ray").throughput.readings_s) == 2 and not found.arm("ray").cpu_s


def test_a_command_that_is_killed_leaves_nothing(short):
    environment = {**os.environ, "TMPDIR": str(short)}
    with subprocess.Popen(
        RUN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        for line in process.stderr:
            if line.startswith("round 4"):
                process.kill()
                break
    until = time.monotonic() + 60
    while (started_here() or list(short.glob("*ray*"))) and time.monotonic() < until:
        time.sleep(0.2)
    assert not started_here() and not list(short.glob("*ray*"))
