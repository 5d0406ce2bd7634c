"""Facts of this host, and the counters that say who else was busy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipebench.host import identity, limits, machine
from pipebench.host.machine import Load


def test_usable_cores_are_no_more_than_the_affinity_allows():
    assert 0 < machine.usable_cores() <= len(os.sched_getaffinity(0))


def planted(root, **texts):
    """Files of the outer one of two control groups; this process is in the inner one."""
    texts = {name.replace("_", ".", 1): text for name, text in texts.items()}
    (root / "sys/fs/cgroup/outer").mkdir(parents=True, exist_ok=True)  # groups are looked for once
    files = {"proc/self/cgroup": "0::/outer/own\n", "proc/meminfo": "MemAvailable: 8000000 kB\n"}
    for name, text in {**files, **{f"sys/fs/cgroup/outer/{one}": text for one, text in texts.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_quota_cuts_the_cores_also_that_of_an_outer_group(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert machine.usable_cores(planted(tmp_path, cpu_max="150000 100000\n")) == 1.5
    assert machine.usable_cores(planted(tmp_path, cpu_max="max 100000\n")) == 8


def test_a_memory_limit_cuts_the_memory_also_that_of_an_outer_group(tmp_path):
    assert limits.free_memory(planted(tmp_path)) == 8_000_000 << 10
    root = planted(tmp_path, memory_max="1000000\n", memory_current="400000\n")
    assert machine.memory_bytes(root) == 1_000_000
    assert limits.free_memory(root) == 600_000


def test_the_memory_is_the_tightest_limit_also_where_a_wider_one_has_less_left(tmp_path):
    root = planted(tmp_path, memory_max="9000000\n", memory_current="8900000\n")
    for name, text in (("memory.max", "1000000\n"), ("memory.current", "400000\n")):
        (root / "sys/fs/cgroup/outer/own").mkdir(exist_ok=True)
        (root / "sys/fs/cgroup/outer/own" / name).write_text(text)
    assert machine.memory_bytes(root) == 1_000_000
    assert limits.free_memory(root) == 100_000


def test_foreign_time_is_what_was_busy_and_not_ours():
    before = Load(wall_s=0.0, busy_s=100.0, steal_s=1.0, own_s=10.0, throttled_s=0.0)
    after = Load(wall_s=1.0, busy_s=101.5, steal_s=1.25, own_s=11.0, throttled_s=0.5)
    passed = after - before
    assert (passed.foreign_s, passed.steal_s, passed.throttled_s) == (0.5, 0.25, 0.5)
    assert (passed + passed).foreign_s == 1.0


@pytest.mark.slow
def test_our_own_work_is_not_foreign():
    before = machine.read_load()
    while os.times().user - before.own_s < 0.0 or machine.read_load().own_s - before.own_s < 0.3:
        sum(range(10_000))
    passed = machine.read_load() - before
    assert passed.own_s >= 0.3
    assert passed.busy_s >= passed.own_s - 0.05


def test_the_work_of_a_child_that_has_ended_is_ours():
    before = machine.read_load_of_tree()
    burn = "import os\nwhile os.times().user < 0.4: sum(range(10_000))"
    subprocess.run([sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"])
    passed = machine.read_load_of_tree() - before
    assert passed.own_s >= 0.4
    assert passed.busy_s >= passed.own_s - 0.05


def test_the_description_names_the_libraries_that_are_measured():
    described = machine.describe()
    assert {"torch", "torchvision", "pillow"} <= set(described.libraries)
    assert described.last_level_cache_bytes >= 0 and described.storage


NUMBERS = {
    "boot": ("proc/sys/kernel/random/boot_id", "7e59f357-1406-41b7-b3ea-c78e3fb24ae4\n"),
    "product": ("sys/class/dmi/id/product_uuid", "4C4C4544-0046-3110-8053-B4C04F4A4E32\n"),
    "installation": ("etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n"),
}


def numbered(root, **numbers):
    """A root folder with the numbers of a machine: those above, or others."""
    for place, number in ((place, numbers.get(name, number)) for name, (place, number) in NUMBERS.items()):
        (root / place).parent.mkdir(parents=True)
        (root / place).write_text(number)
    return root


def test_the_numbers_of_a_machine_are_kept_as_digests_alone(tmp_path):
    found = identity.digests(numbered(tmp_path / "a"))
    assert list(found) == ["boot", "product", "installation"]
    for name, (_, number) in NUMBERS.items():
        assert found[name] not in number.lower().replace("-", "") and len(found[name]) == 16
    assert identity.digests(numbered(tmp_path / "b")) == found and identity.digests(tmp_path) == {}
    odd = numbered(tmp_path / "c", product="00000000-0000-0000-0000-000000000000", installation="uninitialized\n")
    assert list(identity.digests(odd)) == ["boot"]


def test_the_installation_of_a_container_is_that_of_its_image_and_tells_no_machine(tmp_path):
    root = numbered(tmp_path)
    assert list(identity.digests(root, "overlay on overlay")) == ["boot", "product"]
    (root / ".dockerenv").touch()
    assert list(identity.digests(root, "ext4 on /dev/vda")) == ["boot", "product"]


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("b1 p1 i1", "b1 p1 i1", True),
        ("b1", "b1 p1 i1", True),
        ("b1 p1 i1", "b2 p1 i2", True),
        ("b1 p1 i1", "b2 p2 i1", False),
        ("b1 i1", "b2 p2 i2", False),
        ("b1", "b2", None),
        ("b1 p1", "b2 i1", None),
        ("", "b1 p1 i1", None),
    ],
)
def test_one_start_or_one_board_is_one_machine_and_another_start_says_nothing(ours, theirs, same):
    names = {name[0]: name for name in NUMBERS}
    found = identity.telling(*({names[one[0]]: one[1] for one in side.split()} for side in (ours, theirs)))
    assert (found and found[0] == found[1]) == same


def test_the_storage_is_that_of_the_deepest_mount_whatever_its_device_number(monkeypatch):
    """The files of a btrfs volume have other device numbers than its mount."""
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
        "2 1 0:45 / /my\\040data rw - btrfs /dev/sdb\\012 rw",
        "3 1 0:46 / /my\\040data rw - xfs /dev/sdc\\012 rw",
    )
    monkeypatch.setattr(machine, "_read", lambda path: "\n".join(mounts))
    assert machine.storage(Path("/my data/not/there")) == "xfs on /dev/sdc\\n"
    assert machine.storage(Path("/my")) == "ext4 on /dev/sda1"


def test_a_number_that_was_left_out_tells_nothing():
    assert identity.telling({"product": ""}, {"product": ""}) is None
