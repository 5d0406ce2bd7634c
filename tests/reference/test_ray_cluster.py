"""A cluster, as a stand-in for Ray shows it: what is asked of Ray, and what is said where it refuses."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pipebench.errors import PipebenchError
from pipebench.reference import ray_cluster
from pipebench.reference.pipeline import FLOATS
from pipebench.reference.ray_work import Work
from pipebench.task import Workload

WORK = Work(Workload(data="tiny", batch_size=4), FLOATS, 16, 0)
OF_A_TASK = """\x1b[36mray::MapBatches(reference_pipeline)()\x1b[39m (pid=1, ip=192.0.2.1)
  File "/a/ray_work.py", line 1, in make
ModuleNotFoundError: No module named 'pipebench'

The above exception was the direct cause of the following exception:

ray.exceptions.UserCodeException: UDF failed to process a data block.
To change retry attempts, configure `max_map_retries`."""
OF_OURS = """  File "/a/ray_work.py", line 1, in make
pipebench.errors.PipebenchError: there is no folder /data
name one that is there

The above exception was the direct cause of the following exception: more"""


class FakeRay(ModuleType):
    """A `ray` with `ray.data`. `refuse` is raised by `init`, `fail` by an iteration; `nodes` have so many cores."""

    __version__ = "0"

    def __init__(self, cores=(1.0,), refuse=None, fail=None):
        super().__init__("ray")
        self.cores, self.refuse, self.fail = cores, refuse, fail
        self.asked, self.ended, self.ranges = {}, 0, []
        context = SimpleNamespace(enable_progress_bars=True)
        self.data = ModuleType("ray.data")
        self.data.DataContext = SimpleNamespace(get_current=lambda: context)
        self.data.range = self._range

    def init(self, **how):
        self.asked = how
        if self.refuse is not None:
            raise self.refuse

    def shutdown(self):
        self.ended += 1

    def nodes(self):
        return [{"NodeID": str(n), "Alive": True, "Resources": {"CPU": one}} for n, one in enumerate(self.cores)]

    def get_runtime_context(self):
        return SimpleNamespace(get_node_id=lambda: "0")

    def _range(self, samples, override_num_blocks):
        self.ranges.append((samples, override_num_blocks))
        return self

    def map_batches(self, function, **how):
        return self

    def iter_torch_batches(self, **how):
        yield {"how": how}
        if self.fail is not None:
            raise self.fail


@pytest.fixture
def use(monkeypatch):
    def put(**how):
        made = FakeRay(**how)
        monkeypatch.setitem(sys.modules, "ray", made)
        monkeypatch.setitem(sys.modules, "ray.data", made.data)
        for name in ray_cluster._QUIET:
            monkeypatch.setenv(name, "before")
        return made

    return put


def test_a_cluster_of_its_own_is_local_silent_and_ended(use):
    ray, folder = use(), Path("/tmp/a")
    with ray_cluster.connected(None, 3, 4 << 20, folder) as found:
        assert found.local and found.cores == 1 and found.library == "Ray Data 0"
    asked = ray.asked
    assert (asked["address"], asked["num_cpus"], asked["_temp_dir"]) == ("local", 3, "/tmp/a")
    assert asked["object_store_memory"] == 512 << 20 and not asked["include_dashboard"] and ray.ended == 1


def test_where_the_path_is_too_long_for_sockets_it_is_not_used(use):
    ray = use()
    with ray_cluster.connected(None, 1, 4 << 20, Path("/tmp") / ("a" * 60)):
        assert ray.asked["_temp_dir"] == "/tmp/ray"


def test_room_for_objects_grows_with_the_batch_and_too_little_of_it_is_said(use, monkeypatch):
    ray = use()
    monkeypatch.setattr(ray_cluster.shutil, "disk_usage", lambda path: SimpleNamespace(free=64 << 20))
    with ray_cluster.connected(None, 1, 16 << 20, Path("/tmp/a")) as found:
        assert ray.asked["object_store_memory"] == 1 << 30
        assert "/dev/shm has 67.1 MB free" in found.notes[0] and "--shm-size" in found.notes[0]


def test_a_cluster_that_is_there_is_asked_for_nothing_of_its_own(use):
    ray = use(cores=(0.0, 4.0))
    with ray_cluster.connected("head:6379", 1, 4 << 20, Path("/tmp/a")) as found:
        assert not found.local and found.cores == 4 and found.look()[0].trainer
    assert set(ray.asked) == {"address", "log_to_driver", "logging_level"} and ray.ended == 1


def test_a_cluster_without_a_core_is_an_error(use):
    ray = use(cores=(0.0,))
    with pytest.raises(PipebenchError, match="has no CPU"), ray_cluster.connected("head:6379", 1, 1, Path("/tmp/a")):
        pass
    assert ray.ended == 1


@pytest.mark.parametrize(
    ("address", "said"), [(None, "Ray did not start: no\\\\x1b port"), ("head:1", "did not take this process: no")]
)
def test_what_ray_refuses_is_said_and_nothing_is_left(use, address, said):
    ray = use(refuse=RuntimeError("no\x1b port\nmore"))
    with pytest.raises(PipebenchError, match=said), ray_cluster.connected(address, 1, 1, Path("/tmp/a")):
        pass
    assert ray.ended == 1


def test_an_installation_that_is_broken_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PipebenchError, match="cannot be imported"), ray_cluster.connected(None, 1, 1, Path("/tmp/a")):
        pass


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OF_A_TASK, "Ray Data failed: ModuleNotFoundError: No module named 'pipebench'"),
        (OF_OURS, "Ray Data failed: pipebench.errors.PipebenchError: there is no folder /data"),
        ("the object store is full", "Ray Data failed: the object store is full"),
        ("", "Ray Data failed: ValueError"),
    ],
)
def test_a_pass_that_fails_says_its_first_cause(use, text, said):
    use(fail=ValueError(text))
    with pytest.raises(PipebenchError) as raised:
        list(ray_cluster.batches(WORK, 16, 4, False, lambda dataset: None))
    assert raised.value.problem == said and "every node" in raised.value.remedy


def test_a_block_is_a_batch_and_batches_are_pinned_only_where_asked(use):
    ray, kept = use(), []
    (batch,) = ray_cluster.batches(WORK, 18, 4, False, kept.append)
    assert ray.ranges == [(18, 5)] and kept == [ray] and "pin_memory" not in batch["how"]
    (batch,) = ray_cluster.batches(WORK, 16, 4, True, kept.append)
    assert batch["how"]["pin_memory"] is True
