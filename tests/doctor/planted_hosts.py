"""A machine that was planted: a folder with the files of its kernel, and the answers of its programs."""

from pathlib import Path

from pipebench.doctor.asking import Answer
from pipebench.doctor.host import Host, counters

GB = 1 << 30
MEMINFO = "MemTotal: 33554432 kB\nMemAvailable: {} kB\nSwapTotal: 8388608 kB\nSwapFree: {} kB\nHugePages_Total: 0\n"
PILLOW = {"version": "13.0.0", "turbo": True, "jpeg": "3.1.4"}
TORCH = {"version": "2.15.0", "cuda": "13.0", "hip": "", "threads": 4, "sharing": "file_descriptor"}
ANSWERS = {
    "pillow": PILLOW,
    "torch": TORCH,
    "torchvision": {"version": "0.29.2"},
    "device": {"available": True, "devices": 1, "said": ""},
    "opencv": {"version": "5.0.0", "threads": 1, "jpeg": "JPEG: build-libjpeg-turbo (ver 3.1.2-70)"},
    "simplejpeg": {"version": "1.9.0"},
    "torchcodec": {"version": "0.17.0"},
}
VERSIONS = {"torch": "2.15.0", "torchvision": "0.29.2", "pillow": "13.0.0", "numpy": "2.4.6"}
SMI = Answer("NVIDIA H100 80GB HBM3, 570.86.15, 1, 81559, 0\n", 0)


def _stat(*cores):
    """/proc/stat with the ticks of each core: used, idle, stolen."""
    return "".join(
        f"cpu{number} {used} 0 0 {idle} 0 0 0 {stolen} 0 0\n" for number, (used, idle, stolen) in enumerate(cores)
    )


BEGIN = _stat((100, 100, 0), (100, 100, 0))
STAT = {  # a second later
    "idle": _stat((101, 199, 0), (101, 199, 0)),
    "busy": _stat((190, 110, 0), (190, 110, 0)),
    "part": _stat((140, 160, 0), (100, 200, 0)),
    "below": _stat((148, 152, 0), (146, 154, 0)),  # around one program, which uses a whole core
    "above": _stat((152, 148, 0), (154, 146, 0)),
    "stolen": _stat((110, 170, 20), (110, 170, 20)),
    "nibbled": _stat((110, 187, 3), (110, 185, 5)),
}
GOOD = {
    "proc/self/cgroup": "0::/\n",
    "proc/meminfo": MEMINFO.format(20 << 20, 8 << 20),
    "proc/self/mountinfo": "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
    "sys/class/block/sda2/queue/rotational": "0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
    "usr/bin/cc": "",
    "usr/include/Python.h": "",
    "usr/include/jpeglib.h": "",
}


def host(root, files=(), stat="idle", before=(), environ=(), answers=(), versions=(), **more):
    """A machine on which all is well but for what is given. A file or an answer that is None is not there.

    `before` are the texts of files at the first reading of the counters; what `files` says is there at the second.
    """
    _write(root, {**GOOD, "proc/stat": BEGIN, **dict(files), **dict(before)})
    earlier = counters(root)
    _write(root, {**GOOD, "proc/stat": STAT[stat], **dict(files)})
    settings = {
        "data": Path("/data"),
        "affinity": frozenset(range(4)),
        "descriptors": 65536,
        "include": root / "usr/include",
        "smi": SMI,
        "pair": ("numpy", "torch (>=2.14.0)"),
        "space": lambda path: 100 * GB,
        "residency": lambda paths: 1.0,
        **more,
    }
    return Host(
        root,
        environ={"PATH": str(root / "usr/bin"), **dict(environ)},
        answers={name: said for name, said in {**ANSWERS, **dict(answers)}.items() if said is not None},
        versions={**VERSIONS, **dict(versions)},
        earlier=earlier,
        later=counters(root),
        **settings,
    )


def _write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)
            path.chmod(0o755)
