"""A server forks fresh processes: each lies elsewhere in memory, and its death costs nothing but its readings."""

import os
import signal
import sys
from multiprocessing import Pipe

import pytest
from tiny import IDENTITY, WORKLOAD, first_keys

from pipebench import stage
from pipebench.lab.fresh import FreshRunner, ProcessLost, fresh_runners
from pipebench.runner import LocalRunner
from pipebench.task import RunnerSpec, Variant


@pytest.fixture(scope="module")
def place():
    runner = FreshRunner(RunnerSpec("test"))
    runner.warm([IDENTITY], WORKLOAD)
    yield runner
    runner.close()
    assert not os.path.exists(f"/proc/{runner.pid}"), "the forked process outlives its place"


def _renewed(place):
    assert place.renew("decode/rgb", WORKLOAD, first_keys(2))
    assert place.prepare(IDENTITY, WORKLOAD).skip_code is None
    return place.pid


def test_each_process_is_another_and_does_the_same_work_as_this_one(place):
    local = LocalRunner()
    local.prepare(IDENTITY, WORKLOAD)
    wanted = local.arm(IDENTITY, WORKLOAD, first_keys(2))
    pids = []
    for _ in range(3):
        pids.append(_renewed(place))
        assert place.arm(IDENTITY, WORKLOAD, first_keys(2)) == wanted
        assert place.reading(IDENTITY, 2)[0] > 0
        (ours,), (theirs,) = (one.attempt(IDENTITY, WORKLOAD, first_keys(1)) for one in (local, place))
        assert (ours.output == theirs.output).all()
    assert len(set(pids)) == 3
    assert [pid for pid in pids[:2] if os.path.exists(f"/proc/{pid}")] == []


def test_the_server_has_one_thread_so_that_it_can_fork(place):
    _renewed(place)
    assert len(os.listdir(f"/proc/{place._process.pid}/task")) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_libraries_warn_of_is_not_said_again_by_each_process(place):
    """Found with photographs of 100 megapixels: two lines of Pillow for each fresh process."""
    place.ready(wait=True)
    with open(f"/proc/{place._process.pid}/environ", "rb") as file:
        assert b"PYTHONWARNINGS=ignore" in file.read().split(b"\0")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_each_process_has_a_padding_of_its_own(place):
    """What it has written differs in size, so what it allocates next lies elsewhere."""
    found = set()
    for _ in range(4):
        _renewed(place)
        place.arm(IDENTITY, WORKLOAD, first_keys(2))
        with open(f"/proc/{place.pid}/smaps_rollup") as file:
            found.add(next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty")))
    assert len(found) > 1


def test_a_process_that_is_killed_says_how_and_another_takes_its_place(place):
    first = _renewed(place)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ProcessLost, match="the test process was killed by SIGKILL"):
        place.arm(IDENTITY, WORKLOAD, first_keys(2))
    assert _renewed(place) != first
    assert place.arm(IDENTITY, WORKLOAD, first_keys(2)).samples == 2


def test_a_server_that_is_killed_is_started_again(place):
    _renewed(place)
    os.kill(place._process.pid, signal.SIGKILL)
    place._process.wait()
    with pytest.raises(ProcessLost):
        place.reading(IDENTITY, 1)
        place.reading(IDENTITY, 1)
    _renewed(place)
    assert place.arm(IDENTITY, WORKLOAD, first_keys(2)).samples == 2


def test_an_error_in_a_process_is_an_answer_and_ctrl_c_is_the_parents(place):
    _renewed(place)
    os.kill(place.pid, signal.SIGINT)
    with pytest.raises(Exception, match="KeyError"):
        place.reading("decode/rgb/opencv", 1)  # neither prepared nor armed
    assert place.arm(IDENTITY, WORKLOAD, first_keys(2)).samples == 2


def test_a_variant_with_its_own_environment_is_tried_and_timed_in_places_of_that_environment():
    spec = RunnerSpec("other", environment=(("MARK", "x"),))
    other = Variant("decode/rgb", "opencv", stage.find("decode/rgb/opencv")[1].build, runner=spec)
    plain = stage.find(IDENTITY)[1]
    trying, timing = fresh_runners([plain, other])
    with trying, timing:
        assert isinstance(trying.of(plain), LocalRunner)
        assert isinstance(timing.of(plain), FreshRunner)
        assert trying.of(other) is timing.of(other)
        assert timing.of(other).prepare("decode/rgb/opencv", WORKLOAD).skip_code is None
        with open(f"/proc/{timing.of(other)._process.pid}/environ") as file:
            assert "MARK=x" in file.read()


def test_a_place_is_ready_once_its_server_has_answered_or_is_gone():
    for ends in (lambda server: server.send_bytes(b"done"), lambda server: server.close()):
        place = object.__new__(FreshRunner)
        place._pipe, server = Pipe()
        place._warming = True
        assert not place.ready(wait=False)
        ends(server)
        assert place.ready(wait=True) and not place._warming


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_server_has_one_thread_with_pyarrow_too():
    pytest.importorskip("pyarrow")
    place = FreshRunner(RunnerSpec("tables"))
    try:
        place.warm(["read/image/parquet", "read/image/arrow-ipc"], WORKLOAD)
        assert place.ready(wait=True)
        with open(f"/proc/{place._process.pid}/maps") as file:
            assert "libarrow" in file.read()
        assert len(os.listdir(f"/proc/{place._process.pid}/task")) == 1
    finally:
        place.close()
