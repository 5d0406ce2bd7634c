"""The catalogue: which tasks, variants and ceilings there are. They are found by name in `pipebench.stages`."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from pipebench.errors import PipebenchError, did_you_mean
from pipebench.task import STAGES, Task, Unavailable, Variant, Workload, _ceilings, _tasks, _variants

__all__ = [
    "Unavailable",
    "Workload",
    "ceilings",
    "find",
    "reference",
    "tasks",
    "variants",
]  # the first two: what older commits import


@functools.cache
def _discover() -> None:
    """Imports every module of `pipebench.stages`, and the ceilings, by name."""
    package = importlib.import_module("pipebench.stages")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"pipebench.stages.{module.name}")


def tasks() -> list[Task]:
    """Every task, in the order in which a sample flows."""
    _discover()
    return sorted(_tasks.values(), key=lambda one: STAGES.index(one.stage))


def variants(task_id: str) -> list[Variant]:
    """The variants of a task, its reference first."""
    _discover()
    return list(_variants[task_id].values())


def ceilings(task_id: str, workload: Workload) -> list[Variant]:
    """The ceilings that bound a task on this workload; often none."""
    _discover()
    return [one for one in _ceilings.get(task_id, {}).values() if one.cache in (None, workload.cache)]


def find(identity: str) -> tuple[Task, Variant]:
    """The task and the variant or ceiling called `stage/task/name`."""
    _discover()
    task_id, _, name = identity.rpartition("/")
    found = _variants.get(task_id, {}).get(name) or _ceilings.get(task_id, {}).get(name)
    if found is None:
        near = did_you_mean(identity, [*(one.id for task in _variants.values() for one in task.values())])
        raise PipebenchError(f"there is no variant {identity!r}", f"{near}see `pipebench run --list`")
    return _tasks[task_id], found


def reference(task_id: str) -> Variant:
    return variants(task_id)[0]
