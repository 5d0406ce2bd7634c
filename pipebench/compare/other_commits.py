"""Modules of pipebench inside another commit, under today's names.

The asv suite, `asvbench` and `pipebench ab` import modules of whatever commit they measure. Older commits have some of
them under other names. This file is read by its path from the checkout that drives, so that it, and not the measured
commit, knows all names; it imports nothing of pipebench itself.
"""

from __future__ import annotations

import importlib
from typing import Any

# Today's name -> the name before packages were introduced. A module that never moved is not listed.
BEFORE = {
    "compare.users_loader": "own",
    "host.machine": "machine",
    "lab.timing": "measure",
    "native.building": "native",
    "reference.dataloader": "live",
    "reference.pipeline": "feed",
    "reference.training_loop": "training",
    "reference.worker_health": "workers",
    "results.loading": "live",
    "syncpoints.examine": "watch.syncs",
    "task": "stage",
}


def module(name: str) -> Any:
    """The module `pipebench.<name>` of the commit under measurement; `ImportError` where it has none.

    If a module exists but cannot import what it needs, that error is raised. Only an absent module is looked up under
    its old name.
    """
    wanted = f"pipebench.{name}"
    try:
        return importlib.import_module(wanted)
    except ModuleNotFoundError as missing:
        absent = missing.name == wanted or wanted.startswith(f"{missing.name}.")
        if not absent or missing.name == "pipebench" or name not in BEFORE:
            raise
    return importlib.import_module(f"pipebench.{BEFORE[name]}")
