"""Which task of a Slurm job this process is, and how often the job was queued again. Slurm says it by variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def attempt(names: Mapping[str, str]) -> int:
    """How often Slurm has put this job into its queue again."""
    return _number(names, "SLURM_RESTART_COUNT")


def tasks(names: Mapping[str, str]) -> int:
    """How many tasks `srun` has started, of which this process is one. 1: alone, or not below `srun`.

    `SLURM_NTASKS` is also there in the script of a batch job, whose one task may start all others, and after `salloc`.
    """
    if "SLURM_STEP_NUM_TASKS" in names:
        return max(1, _number(names, "SLURM_STEP_NUM_TASKS"))
    if "SLURM_PROCID" not in names or names.get("ENVIRONMENT") == "BATCH":
        return 1
    return max(1, _number(names, "SLURM_NTASKS"))


def own_place(place: str, names: Mapping[str, str]) -> str:
    """A place that no other task of the job step has, and no attempt before: `a.csv` is `a.task3.csv` there.

    Alone, and at the first attempt, it is the same place. `SLURM_STEP_NUM_TASKS` is there only below `srun`.
    """
    mine = []
    if _number(names, "SLURM_STEP_NUM_TASKS") > 1:
        mine.append(f"task{_number(names, 'SLURM_PROCID')}")
    if again := attempt(names):
        mine.append(f"attempt{again}")
    path = Path(place)
    if not path.name or not mine:
        return place
    return str(path.with_name(".".join((path.stem, *mine)) + path.suffix))


def _number(names: Mapping[str, str], name: str) -> int:
    value = names.get(name, "")
    return int(value) if value.isdecimal() else 0
