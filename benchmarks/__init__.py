"""The asv suite: one short file for each stage, over pipebench's registry.

asv collects the long view: one to three rows a stage, the loader and the training, which a commit can be given each
time. With PIPEBENCH_SUITE=all it collects every variant and every setting. Names and versions are the same.

Whatever commit it measures, the suite takes the base classes and the names of the variants from the tree in which it
lies. What the measured commit does not have is n/a. torch is imported here, so that asv's fork server imports it once
and not in every benchmark's process. No import may run a multi-threaded operation: a forked process would wait for
threads that it does not have.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
LISTING = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pipebench import stage
from pipebench.studies import sync_points
names = {task.id: [one.name for one in stage.variants(task.id)] for task in stage.tasks()}
print(json.dumps({**names, "sync-points": [step.name for step in sync_points.STEPS]}))
"""


def _pillow_first():
    """Puts the folder of pillow-simd first on the path in its column, before anything imports PIL."""
    if os.environ.get("PIPEBENCH_PIL") == "simd":
        with contextlib.suppress(ImportError):
            folder = asvbench.module("native.building").pillow_simd_folder()
            if folder is not None:
                sys.path.insert(0, str(folder))


def _base_classes():
    """The module `pipebench/asvbench.py` of this tree, even if an older pipebench is installed."""
    found = importlib.util.spec_from_file_location(f"{__name__}.asvbench", ROOT / "pipebench" / "asvbench.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def _names():
    """The variants of each task in this tree. Another process lists them; a file keeps them until a stage changes."""
    package = ROOT / "pipebench"
    sources = [package / "stage.py", package / "task.py"]
    sources += [path for folder in ("stages", "studies") for path in sorted((package / folder).glob("*.py"))]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    kept = ROOT / ".asv" / f"variants-{digest}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(kept.read_text())
    done = subprocess.run(
        [sys.executable, "-c", LISTING, str(ROOT)], check=True, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    with contextlib.suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_text(done.stdout)
        whole.replace(kept)
    return json.loads(done.stdout)


asvbench = _base_classes()
_pillow_first()
import torch  # noqa: E402, F401  # see above
import torchvision.transforms.v2  # noqa: E402, F401  # see above

asvbench.MANIFESTS.update((path.stem, tomllib.loads(path.read_text())) for path in (ROOT / "datasets").glob("*.toml"))
NAMES = _names()
asvbench.Task.variants.update(NAMES)
