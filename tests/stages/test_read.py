"""Reading a shard: what is timed is what is counted, however long the shard and however its members are spelled."""

import io
import tarfile
from pathlib import Path

import pytest

from pipebench import stage
from pipebench.data import datasets
from pipebench.runner import LocalRunner
from pipebench.task import Workload

STREAMED = ["tarfile", "tar-index", "webdataset"]


@pytest.fixture(scope="module")
def long_shard(tmp_path_factory):
    """A shard of 400 samples, `.JPG` and `.cls`, of which a quick run times 64."""
    path = tmp_path_factory.mktemp("long") / "long.tar"
    images = [one.read() for one in datasets.load("tiny").samples]
    with tarfile.open(path, "w") as shard:
        for index in range(400):
            for suffix, data in (("JPG", images[index % len(images)]), ("cls", b"1")):
                member = tarfile.TarInfo(f"some.d/{index:06d}.{suffix}")
                member.size = len(data)
                shard.addfile(member, io.BytesIO(data))
    return path


def _bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("task_id", ["read/image", "read/all-members"])
@pytest.mark.parametrize("name", STREAMED)
def test_a_call_reads_little_more_than_what_it_counts(long_shard, task_id, name):
    workload = Workload(data=str(long_shard), quick=True)
    task, variant = stage.find(f"{task_id}/{name}")
    assert task.from_the_start
    runner = LocalRunner()
    assert runner.prepare(variant.id, workload).skip_code is None
    keys = tuple(key for group in task.groups(workload) for key in group)[: task.per_call(workload)]
    (attempt, *_) = attempts = runner.attempt(variant.id, workload, keys)
    assert len(attempts) == 64 and attempt.kind is None
    work = runner.arm(variant.id, workload, keys)
    assert work.samples == 64
    runner.reading(variant.id, 1)  # the first also fills the page cache
    before = _bytes_read()
    runner.reading(variant.id, 1)
    assert _bytes_read() - before < 1.3 * work.input_bytes + (1 << 20)
