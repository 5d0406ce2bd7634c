"""Every check on planted machines: one on which all is well, and those that it is there to find."""

import os
from pathlib import Path

import planted_hosts
import pytest
from planted_hosts import GB, MEMINFO, PILLOW, SMI, STAT, TORCH

from pipebench import doctor
from pipebench.doctor import memory
from pipebench.doctor.asking import Answer
from pipebench.doctor.checking import CHECKS
from pipebench.doctor.examining import finding, findings
from pipebench.doctor.host import BATCH_BYTES, PREFETCH
from pipebench.errors import PipebenchError
from pipebench.host import limits, machine, page_cache

doctor.discover()
HURTS, KNOW, FINE, UNKNOWN = "will-hurt", "worth-knowing", "fine", "not-known"
ONLY_SHOW = ("ps ", "df ", "free", "vmstat", "nvidia-smi", "taskset -cp $", "grep ", "pipebench ")
HERE = Path(__file__).parent
DEEP = Path("/tmp/" + "x" * 80)
TWO_CORES = {"sys/fs/cgroup/cpu.max": "200000 100000\n"}
CPU_STAT = "sys/fs/cgroup/cpu.stat"
V1 = "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/cpu.cfs_period_us"
THROTTLED = "nr_periods {}\nnr_throttled {}\n"
HUGE = "sys/kernel/mm/transparent_hugepage/enabled"
MANY_THREADS = {"torch": {**TORCH, "threads": 64}}
NO_TORCH = {"torch": {"error": "OSError: libcudart.so.12: none"}}
GOVERNOR = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
DRIVER = "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"
MOUNTS = "proc/self/mountinfo"
TURNING = {"sys/class/block/sda2/queue/rotational": "1\n"}
NO_CUDA = {"torch": {**TORCH, "cuda": ""}}
ROCM = {"torch": {**TORCH, "cuda": "", "hip": "6.4"}}
UNSEEN = {"device": {"available": False, "devices": 0, "said": "The NVIDIA driver on your system is too old"}}
LIBJPEG9 = {"pillow": {**PILLOW, "turbo": False, "jpeg": "9.5"}}
MISSING = {"missing": True}
SWAPPED = {"files": {"proc/vmstat": "pswpin 300\npswpout 0\n"}, "before": {"proc/vmstat": "pswpin 200\npswpout 0\n"}}
NMS = {"torchvision": {"error": "RuntimeError: operator torchvision::nms does not exist"}}

# check, level, words of the finding, what is planted
CASES = [
    ("cores", HURTS, "1 core is usable", {"affinity": frozenset({3})}),
    ("cores", HURTS, "0.5 cores are usable", {"files": {"sys/fs/cgroup/cpu.max": "50000 100000"}}),
    ("cores", KNOW, "a quota allows 2 of 4 cores", {"files": TWO_CORES}),
    ("cores", KNOW, "a quota allows 3 of 4", {"files": {V1[0]: "300000", V1[1]: "100000"}}),
    ("cores", FINE, "4 are usable", {"files": {V1[0]: "-1", V1[1]: "100000"}}),
    ("throttling", HURTS, "in 4 of the last 10 periods",
     {"files": {**TWO_CORES, CPU_STAT: THROTTLED.format(110, 7)}, "before": {CPU_STAT: THROTTLED.format(100, 3)}}),
    ("throttling", KNOW, "in 3 % of all periods",
     {"files": {**TWO_CORES, CPU_STAT: THROTTLED.format(100, 3)}}),
    ("throttling", FINE, "not now", {"files": {**TWO_CORES, CPU_STAT: THROTTLED.format(100, 0)}}),
    ("throttling", FINE, "no quota", {}),
    ("governor", HURTS, "powersave (driver acpi-cpufreq)", {"files": {GOVERNOR: "powersave", DRIVER: "acpi-cpufreq"}}),
    ("governor", KNOW, "powersave (driver intel_pstate)", {"files": {GOVERNOR: "powersave"}}),
    ("governor", FINE, "performance", {}),
    ("governor", UNKNOWN, "as most virtual machines", {"files": {GOVERNOR: None}}),
    ("load", HURTS, "used 1.8 of 2 cores in the last 2 s", {"stat": "busy", "affinity": frozenset({0, 1})}),
    ("load", KNOW, "used 0.9 of 2 cores", {"stat": "below", "affinity": frozenset({0, 1})}),
    ("load", KNOW, "used 1.1 of 2 cores", {"stat": "above", "affinity": frozenset({0, 1})}),
    ("load", KNOW, "used 0.4 of 2 cores", {"stat": "part", "affinity": frozenset({0, 1})}),
    ("load", FINE, "used 0.0 of 1 core ", {"stat": "part", "affinity": frozenset({1})}),
    ("load", UNKNOWN, "stand still", {"before": {"proc/stat": STAT["idle"]}}),
    ("steal", HURTS, "gave 20 %", {"stat": "stolen"}),
    ("steal", KNOW, "gave 4 %", {"stat": "nibbled"}),
    ("steal", FINE, "gave 0 %", {}),
    ("memory", HURTS, "537 MB of 34.4 GB", {"files": {"proc/meminfo": MEMINFO.format(512 << 10, 0)}}),
    ("memory", HURTS, "of 2.15 GB are available",
     {"files": {"sys/fs/cgroup/memory.max": f"{2 * GB}", "sys/fs/cgroup/memory.current": f"{2 * GB}"}}),
    ("memory", KNOW, "4.29 GB of 34.4 GB", {"files": {"proc/meminfo": MEMINFO.format(4 << 20, 0)}}),
    ("memory", FINE, "2.15 GB of 2.15 GB", {"files": {"sys/fs/cgroup/memory.max": f"{2 * GB}",
     "sys/fs/cgroup/memory.current": f"{2 * GB}", "sys/fs/cgroup/memory.stat": f"anon 5\ninactive_file {2 * GB}\n"}}),
    ("memory", FINE, "21.5 GB of 34.4 GB", {}),
    ("swap", HURTS, "were swapped within 2 s", SWAPPED),
    ("swap", KNOW, "4.29 GB are swapped out", {"files": {"proc/meminfo": MEMINFO.format(20 << 20, 4 << 20)}}),
    ("swap", FINE, "none in use", {}),
    ("huge pages", KNOW, "are off", {"files": {HUGE: "always madvise [never]"}}),
    ("huge pages", FINE, "madvise", {}),
    ("shared memory", HURTS, "8 workers with 18 batches of 64 float32 images need 694 MB",
     {"space": lambda _: 64 << 20}),
    ("shared memory", UNKNOWN, "no /dev/shm", {"space": lambda _: None}),
    ("shared memory", FINE, "107 GB free", {}),
    ("descriptors", HURTS, "64 descriptors", {"descriptors": 64}),
    ("descriptors", KNOW, "1024 descriptors", {"descriptors": 1024}),
    ("descriptors", KNOW, "by file_system", {"answers": {"torch": {**TORCH, "sharing": "file_system"}}}),
    ("descriptors", FINE, "65536 descriptors; torch shares tensors by file_descriptor", {}),
    ("descriptors", FINE, "no limit", {"descriptors": None}),
    ("temporary folder", HURTS, "has 85 bytes; 75 are allowed", {"temporary": DEEP}),
    ("temporary folder", FINE, str(DEEP), {"temporary": DEEP, "short_sockets": True}),
    ("temporary folder", KNOW, "TMPDIR is /gone", {"environ": {"TMPDIR": "/gone"}}),
    ("temporary folder", KNOW, "1.00 MB free", {"space": lambda _: 10**6}),
    ("temporary folder", FINE, "/tmp", {"temporary": Path("/tmp" + "/x" * 35 + "y")}),
    ("storage", HURTS, "ext4 (/dev/sda2), which says that it rotates", {"files": TURNING}),
    ("storage", KNOW, "most of it is in the page cache", {"files": TURNING, "data": HERE}),
    ("storage", KNOW, "(/dev/vda), which", {"files": {MOUNTS: "22 1 254:0 / / rw - ext4 /dev/vda rw",
     "sys/dev/block/254:0/queue/rotational": "1"}}),
    ("storage", KNOW, "nfs4 (server:/a b)", {"files": {MOUNTS: "1 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
     "2 1 0:50 / /data rw - nfs4 server:/a\\040b rw"}}),
    ("storage", KNOW, "fuse.s3fs", {"files": {MOUNTS: "2 1 0:50 / /data rw - fuse.s3fs bucket rw"}}),
    ("storage", KNOW, "tmpfs", {"files": {MOUNTS: "2 1 0:50 / / rw - tmpfs shm rw"}}),
    ("storage", KNOW, "overlay", {"files": {MOUNTS: "2 1 0:50 / / rw - overlay overlay rw"}}),
    ("storage", UNKNOWN, "does not show the disk of zroot", {"files": {MOUNTS: "2 1 0:50 / / rw - zfs zroot rw"}}),
    ("storage", FINE, "which does not rotate", {"files": {MOUNTS: "2 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
     "3 1 0:50 / /database rw - nfs4 server:/x rw"}}),
    ("page cache", KNOW, "25 % of", {"residency": lambda paths: 0.25, "data": HERE}),
    ("page cache", KNOW, "do not fit in 1.02 kB", {"data": HERE, "files": {"proc/meminfo": MEMINFO.format(1, 0)}}),
    ("page cache", UNKNOWN, "does not tell it of these files", {"residency": lambda paths: None, "data": HERE}),
    ("page cache", UNKNOWN, "name your data", {"asked": False}),
    ("page cache", UNKNOWN, "/gone may not be read by you", {"data": Path("/gone")}),
    ("page cache", FINE, "100 % of", {"data": HERE}),
    ("threads", HURTS, "torch starts 64 threads; 4 cores may be used", {"answers": MANY_THREADS}),
    ("threads", HURTS, "OMP_NUM_THREADS=8; 4 cores", {"environ": {"OMP_NUM_THREADS": "8,2"}}),
    ("threads", KNOW, "OMP_NUM_THREADS=all is no number", {"environ": {"OMP_NUM_THREADS": "all"}}),
    ("threads", KNOW, "OpenCV starts 4 threads in each worker: 32 with 8 workers",
     {"answers": {"opencv": {"version": "5", "threads": 4, "jpeg": ""}}}),
    ("threads", FINE, "torch starts 4 threads, OpenCV starts 1 thread", {}),
    ("threads", UNKNOWN, "asked for 5.5 s",
     {"answers": {"torch": None, "opencv": None}, "late": {"torch": 5.5, "opencv": 5.5}}),
    ("threads", UNKNOWN, "ended its process", {"answers": {"torch": None}}),
    ("threads", FINE, "neither torch nor OpenCV can be imported",
     {"answers": {**NO_TORCH, "opencv": {"missing": True}}}),
    ("torch and torchvision", HURTS, "operator torchvision::nms does not exist", {"answers": NMS}),
    ("torch and torchvision", HURTS, "libcudart.so.12", {"answers": NO_TORCH}),
    ("torch and torchvision", KNOW, "torch is not installed", {"answers": {"torch": MISSING}}),
    ("torch and torchvision", KNOW, "asks for torch ==2.14.0, and torch is 2.15.0", {"pair": ("torch==2.14.0",)}),
    ("torch and torchvision", KNOW, "asks for torch >=2.16", {"pair": ("torch (>=2.16)",)}),
    ("torch and torchvision", UNKNOWN, "asked for 5.5 s", {"answers": {"torch": None}, "late": {"torch": 5.5}}),
    ("torch and torchvision", UNKNOWN, "ended its process", {"answers": {"torch": None}}),
    ("torch and torchvision", FINE, "torch 2.15.0+cpu, torchvision 0.29.2",
     {"pair": ("torch==2.15.0", "torchfix; extra == 'dev'"), "versions": {"torch": "2.15.0+cpu"}}),
    ("torch and torchvision", FINE, "no torchvision", {"answers": {"torchvision": {"missing": True}}}),
    ("releases", KNOW, "Python before 3.14.5: the garbage collector", {"python": "3.14.4"}),
    ("releases", KNOW, "leaks the memory of each image", {"versions": {"torchvision": "0.20.1+cu124"}}),
    ("releases", HURTS, "built for NumPy 1", {"versions": {"opencv-python": "4.9.0.80", "numpy": "2.0.0"}}),
    ("releases", FINE, "none that is known to be bad", {"python": "3.14.5"}),
    ("devices", HURTS, "Driver/library version mismatch",
     {"smi": Answer("Failed to initialize NVML: Driver/library version mismatch\n", 18)}),
    ("devices", KNOW, "92 % of its time", {"smi": Answer("A100, 5, 1, 100, 0\nA100, 5, 60, 100, 92\n", 0)}),
    ("devices", UNKNOWN, "did not end in time", {"smi": Answer("", None)}),
    ("devices", FINE, "1 device, NVIDIA H100 80GB HBM3, driver 570.86.15", {}),
    ("devices", FINE, "no GPU", {"smi": None, "answers": UNSEEN}),
    ("devices", FINE, "torch for CUDA 13.0 sees 1 device; there is no nvidia-smi", {"smi": None}),
    ("devices", UNKNOWN, "asked for 5.5 s", {"smi": None, "answers": {"device": None}, "late": {"device": 5.5}}),
    ("torch and the device", HURTS, "built without CUDA", {"answers": NO_CUDA | UNSEEN}),
    ("torch and the device", HURTS, "driver on your system is too old", {"answers": UNSEEN}),
    ("torch and the device", UNKNOWN, "torch is not installed",
     {"answers": {"torch": MISSING, "device": MISSING}}),
    ("torch and the device", KNOW, "hides every device", {"answers": UNSEEN, "environ": {"CUDA_VISIBLE_DEVICES": ""}}),
    ("torch and the device", FINE, "no GPU", {"smi": None, "answers": NO_CUDA | UNSEEN}),
    ("torch and the device", FINE, "torch for CUDA 13.0 sees 1 device", {"smi": None}),
    ("torch and the device", FINE, "torch for ROCm 6.4 sees 1", {"smi": None, "answers": ROCM}),
    ("torch and the device", FINE, "sees 1 device", {}),
    ("decoders", HURTS, "libjpeg without turbo, 9.5", {"answers": LIBJPEG9}),
    ("decoders", HURTS, "JSIMD_FORCENONE=1", {"environ": {"JSIMD_FORCENONE": "1"}}),
    ("decoders", KNOW, "OpenCV 5.0.0 with libjpeg (ver 62)",
     {"answers": {"opencv": {"version": "5.0.0", "threads": 1, "jpeg": "JPEG: libjpeg (ver 62)"}}}),
    ("decoders", KNOW, "torchcodec is installed and cannot be imported",
     {"answers": {"torchcodec": {"error": "RuntimeError: Could not load libtorchcodec"}}}),
    ("decoders", FINE, "Pillow 13.0.0 with libjpeg-turbo 3.1.4; OpenCV 5.0.0 with build-libjpeg-turbo", {}),
    ("compiler", KNOW, "missing: a C compiler, Python.h, jpeglib.h",
     {"files": dict.fromkeys(("usr/bin/cc", "usr/include/Python.h", "usr/include/jpeglib.h"))}),
    ("compiler", FINE, "cc, Python.h and jpeglib.h are there",
     {"files": {"usr/include/jpeglib.h": None, "usr/include/x86_64-linux-gnu/jpeglib.h": ""}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "level", "words", "planted"), CASES, ids=[f"{one[0]}-{one[1]}" for one in CASES])
def test_a_check_says_what_was_planted(tmp_path, name, level, words, planted):
    found = finding(name, CHECKS[name], planted_hosts.host(tmp_path, **planted))
    assert (found.level, words in found.found) == (level, True), found
    assert bool(found.matters and found.remedy) == (level in (HURTS, KNOW))
    if found.command.startswith(ONLY_SHOW):  # then the remedy says no more than that
        assert "list " in found.remedy or found.remedy.startswith("measure it")


@pytest.mark.parametrize(("page", "said"), [(4096, "410 kB were"), (65536, "6.55 MB were")])
def test_the_kernel_counts_what_is_swapped_in_its_own_pages(tmp_path, monkeypatch, page, said):
    monkeypatch.setattr(memory, "PAGESIZE", page)
    assert said in finding("swap", CHECKS["swap"], planted_hosts.host(tmp_path, **SWAPPED)).found


def test_every_check_has_a_machine_that_is_well_and_one_that_is_not():
    assert {name for name, level, *_ in CASES if level == FINE} == set(CHECKS)
    assert {name for name, level, *_ in CASES if level in (HURTS, KNOW)} == set(CHECKS)


def test_a_machine_on_which_all_is_well(tmp_path):
    found = findings(planted_hosts.host(tmp_path, data=HERE))
    assert {one.level for one in found} == {FINE}, [one for one in found if one.level != FINE]
    assert [one.check for one in found] == list(CHECKS)


def test_a_machine_that_shows_nothing_ends_no_check(tmp_path):
    """No file at all and no answer: what cannot be read is not known, and says which file."""
    host = planted_hosts.host(tmp_path, files=dict.fromkeys((*planted_hosts.GOOD, "proc/stat")), answers={})
    found = {one.check: one for one in findings(host)}
    assert found["memory"].found.endswith("proc/meminfo: No such file or directory")
    assert {found[one].level for one in ("memory", "swap", "huge pages", "load", "storage")} == {UNKNOWN}


def test_limits_of_outer_groups_hold_for_the_inner_one(tmp_path, monkeypatch):
    files = {
        "proc/self/cgroup": "0::/user.slice/job\n",
        "sys/fs/cgroup/user.slice/cpu.max": "150000 100000",
        "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000",
    }
    assert planted_hosts.host(tmp_path, files).cores == 1.5
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))
    assert machine.usable_cores(tmp_path) == 1.5  # the same reader for all


def test_a_command_is_safe_to_copy_whatever_the_folder_is_called(tmp_path):
    mounts = {MOUNTS: "2 1 0:50 / / rw - nfs4 server:/a rw"}

    def command(data, **more):
        return finding("storage", CHECKS["storage"], planted_hosts.host(tmp_path, mounts, data=data, **more)).command

    assert command(Path("/a'; rm -rf $HOME")) == "cp -r '/a'\"'\"'; rm -rf $HOME' LOCAL_FOLDER"
    assert command(Path("/a\x1b[31m")) == ""  # the path as it is shown is no path
    assert command(Path("/here"), asked=False) == ""  # the current folder is not the data


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"MKL_NUM_THREADS": "64"}, "export MKL_NUM_THREADS=4"),
        ({"OPENBLAS_NUM_THREADS": "64", "OPENCV_FOR_THREADS_NUM": "9"},
         "export OPENBLAS_NUM_THREADS=4 OPENCV_FOR_THREADS_NUM=1"),
        ({"OMP_NUM_THREADS": "all", "MKL_NUM_THREADS": "0"}, "export OMP_NUM_THREADS=4 MKL_NUM_THREADS=4"),
    ],
)  # fmt: skip
def test_the_remedy_for_threads_sets_the_variables_that_are_wrong(tmp_path, environ, wanted):
    command = finding("threads", CHECKS["threads"], planted_hosts.host(tmp_path, environ=environ)).command
    assert command == wanted
    mended = environ | dict(one.split("=") for one in command.split()[1:])
    assert finding("threads", CHECKS["threads"], planted_hosts.host(tmp_path, environ=mended)).level == FINE


@pytest.mark.parametrize(
    ("name", "planted", "wanted"),
    [
        ("shared memory", {"files": {".dockerenv": ""}}, "docker run --shm-size=2g IMAGE"),
        ("shared memory", {"files": {"run/.containerenv": ""}}, "podman run --shm-size=2g IMAGE"),
        ("shared memory", {"environ": {"KUBERNETES_SERVICE_HOST": "x"}, "files": {".dockerenv": ""}}, ""),
        ("shared memory", {}, "sudo mount -o remount,size=2G /dev/shm"),
        ("descriptors", {"descriptors": 64}, "ulimit -n 65536"),
        ("descriptors", {"descriptors": 64, "most_descriptors": 4096}, "ulimit -n 4096"),
        ("descriptors", {"descriptors": 64, "most_descriptors": 64}, ""),
        ("descriptors", {"descriptors": 64, "most_descriptors": 99}, ""),  # 100 are needed
        ("descriptors", {"descriptors": 64, "most_descriptors": 100}, "ulimit -n 100"),
        ("cores", {"affinity": frozenset({3})}, ""),
    ],
)
def test_a_command_does_what_the_remedy_says_where_it_is_run(tmp_path, name, planted, wanted):
    host = planted_hosts.host(tmp_path, **{"space": lambda _: 64 << 20, **planted})
    assert finding(name, CHECKS[name], host).command == wanted


@pytest.mark.parametrize("gone", range(1, 8))
def test_what_is_missing_to_build_is_named_with_what_needs_it_and_nothing_else_is(tmp_path, gone):
    things = {"a C compiler": "usr/bin/cc", "Python.h": "usr/include/Python.h", "jpeglib.h": "usr/include/jpeglib.h"}
    missing = [name for place, name in enumerate(things) if gone >> place & 1]
    host = planted_hosts.host(tmp_path, files={things[name]: None for name in missing})
    matters = finding("compiler", CHECKS["compiler"], host).matters
    assert [name for name in things if name in matters] == missing
    assert ("orch.compile" in matters) == (missing != ["jpeglib.h"])
    assert ("region decoder" in matters) == (missing != ["Python.h"])


@pytest.mark.parametrize(
    ("length", "mine", "words"),
    [
        (0, True, "files that were looked at state a size of 0 bytes"),
        (9, False, "only to the owner of a file and to users"),
    ],
)
def test_why_the_page_cache_is_not_known_is_what_is_true_of_the_files(tmp_path, monkeypatch, length, mine, words):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_bytes(b"x" * length)
    monkeypatch.setattr(page_cache.os, "access", lambda path, mode: mine or mode != os.W_OK)
    monkeypatch.setattr(page_cache.os, "geteuid", lambda: os.stat(tmp_path / "data/file").st_uid + (not mine))
    host = planted_hosts.host(tmp_path, data=tmp_path / "data", residency=page_cache.residency)
    found = finding("page cache", CHECKS["page cache"], host)
    assert (found.level, words in found.found) == (UNKNOWN, True), found


def test_doctor_and_a_loader_that_starts_count_alike(tmp_path, monkeypatch):
    """What `doctor` says that a loader needs is what the check before a loader asks for."""
    host = planted_hosts.host(tmp_path, descriptors=64, space=lambda _: 0)
    shared, files = (finding(one, CHECKS[one], host) for one in ("shared memory", "descriptors"))
    monkeypatch.setattr(limits, "free_bytes", lambda folder: int(shared.facts["needed"]))
    monkeypatch.setattr(limits, "descriptors", lambda: int(files.facts["needed"]))
    limits.check_resources(host.workers, PREFETCH, BATCH_BYTES)
    monkeypatch.setattr(limits, "descriptors", lambda: int(files.facts["needed"]) - 1)
    with pytest.raises(PipebenchError, match="file descriptors"):
        limits.check_resources(host.workers, PREFETCH, BATCH_BYTES)
    monkeypatch.setattr(limits, "free_bytes", lambda folder: int(shared.facts["needed"]) - 1)
    with pytest.raises(PipebenchError, match="batches of"):
        limits.check_resources(host.workers, PREFETCH, BATCH_BYTES)


def test_smi_of_a_device_without_figures(tmp_path):
    host = planted_hosts.host(tmp_path, smi=Answer("A, B, 1, [N/A], [N/A], [N/A]\n", 0))
    assert finding("devices", CHECKS["devices"], host).found == "1 device, A, B, driver 1"
    assert finding("devices", CHECKS["devices"], planted_hosts.host(tmp_path, smi=SMI)).level == FINE
