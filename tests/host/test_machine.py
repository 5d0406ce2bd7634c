"""Facts of this host, and the counters that say who else was busy."""

import os
import subprocess
import sys

from pipebench.host import limits, machine
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


def test_foreign_time_is_what_was_busy_and_not_ours():
    before = Load(wall_s=0.0, busy_s=100.0, steal_s=1.0, own_s=10.0, throttled_s=0.0)
    after = Load(wall_s=1.0, busy_s=101.5, steal_s=1.25, own_s=11.0, throttled_s=0.5)
    passed = after - before
    assert (passed.foreign_s, passed.steal_s, passed.throttled_s) == (0.5, 0.25, 0.5)
    assert (passed + passed).foreign_s == 1.0


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
