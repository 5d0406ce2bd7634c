"""Examinations that never took place."""

from dataclasses import replace

from pipebench.results.examination import Examination, Finding

SHM = Finding(
    "shared memory",
    "will-hurt",
    "/dev/shm has 67.1 MB free; 8 workers × 2 batches of 64 float32 images need 617 MB",
    "Every batch of a worker lies there. A worker that finds no room dies of a bus error.",
    "enlarge it, or use fewer workers, a smaller batch or uint8 images",
    "docker run --shm-size=2g IMAGE",
    {"free": 64 << 20, "needed": 16 * 38535168},
)
LOAD = Finding(
    "load",
    "worth-knowing",
    "other processes use 1.8 of 4 cores",
    "Workers wait for a core, and the readings of a measurement scatter.",
    "end them, or come back when they have ended",
    "ps -eo pid,pcpu,comm --sort=-pcpu | head",
    {"busy_cores": 1.8},
)
GOVERNOR = Finding("governor", "not-known", "the system shows no frequencies, as most virtual machines")
EXAMINATION = Examination((SHM, LOAD, GOVERNOR, Finding("cores", "fine", "4 are usable")), "/data", 5.25)
ALL_WELL = Examination((Finding("cores", "fine", "4 are usable"),), "/data", 3.5)
MANY = Examination(
    tuple(replace(one, check=f"{one.check} {number}") for number in range(9) for one in EXAMINATION.findings),
    "/data",
    5.25,
)
