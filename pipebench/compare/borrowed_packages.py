"""An asv configuration whose environments borrow the packages of the running Python instead of downloading torch.

Such an environment is made in seconds and takes a few megabytes. Two `.pth` files make it: `commit.pth` names asv's
checkout of the commit, and `packages.pth`, which Python reads after it, names the folders of the borrowed packages.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipebench.compare import bounded
from pipebench.compare.import_roots import import_roots, must_be_built
from pipebench.errors import PipebenchError
from pipebench.host.whole_files import write_whole

FULL = "asv.conf.json"
FAST = ".asv/fast.conf.json"
PACKAGES = "packages.pth"
RUNNER = {"pip+asv_runner": ["0.3.2"]}
# What JSON does not have: comments, and commas before a closing bracket. Strings come first and are kept.
_MORE_THAN_JSON = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*(?://[^\n]*\n\s*)*[}\]])', re.DOTALL)
_PATHS = "import json, sys; print(json.dumps(sys.path))"
_WRITE = (
    "import sys, sysconfig; open(sysconfig.get_path('purelib') + '/commit.pth', 'w').write(chr(10).join(sys.argv[1:]))"
)
_COPY = "import shutil, sys, sysconfig; shutil.copy(sys.argv[1], sysconfig.get_path('purelib'))"


def write(repo: Path) -> str:
    """Writes `.asv/fast.conf.json` and `.asv/packages.pth` beside `asv.conf.json`, and returns the former's name."""
    try:
        if (repo / FULL).exists() and not (repo / FULL).is_file():
            raise ValueError("it is not a regular file")  # to read a pipe could take for ever
        full = json.loads(_MORE_THAN_JSON.sub(r"\1", (repo / FULL).read_text(encoding="utf-8")))
        if not isinstance(full, dict):
            raise ValueError("it holds no object")
    except FileNotFoundError as missing:
        raise PipebenchError(f"{FULL} does not exist", "write one: pipebench init MODULE:MAKE_LOADER") from missing
    except (OSError, ValueError, RecursionError) as error:
        raise PipebenchError(f"{FULL} cannot be read: {error}", "mend it: `asv check` says what is wrong") from error
    lines = [*borrowed_folders(repo), *_finders(repo)]
    write_whole(repo / ".asv" / PACKAGES, "".join(f"{line}\n" for line in lines).encode())
    write_whole(repo / FAST, (json.dumps(fast(full, repo), indent=4) + "\n").encode())
    return FAST


def fast(full: dict[str, Any], repo: Path) -> dict[str, Any]:
    """The configuration `full` of asv, changed to borrow packages. It lies in `.asv`, one folder below.

    Results and benchmarks are those of `full`; environments have a folder of their own. A project that need not
    be built is used where asv has checked it out. Any other keeps its commands, which must not install its
    dependencies.
    """
    made: dict[str, Any] = json.loads(json.dumps(full).replace("{conf_dir}", "{conf_dir}/.."))
    made["matrix"] = {**made.get("matrix", {}), "req": RUNNER}
    made["pythons"] = [f"{sys.version_info.major}.{sys.version_info.minor}"]
    for key, usual in (("benchmark_dir", "benchmarks"), ("results_dir", "results"), ("html_dir", "html")):
        made[key] = os.path.relpath(full.get(key, usual), ".asv")
    if (repo / full.get("repo", ".")).exists():  # else it is an address
        made["repo"] = os.path.relpath(full.get("repo", "."), ".asv")
    made["env_dir"] = "fast"
    commands = made.get("install_command", [])
    if not must_be_built(repo):
        others = [one for one in commands if "{build_dir}" not in one and "{wheel_file}" not in one]
        commands = [used_in_place(repo), *others]
        made["build_command"], made["uninstall_command"] = [], []
    made["install_command"] = [f'in-dir={{env_dir}} python -c "{_COPY}" {{conf_dir}}/{PACKAGES}', *commands]
    return made


def used_in_place(repo: Path) -> str:
    """The install command that puts a commit's import roots on the path where asv has checked it out."""
    found = [os.path.relpath(root, repo) for root in import_roots(repo)]
    inside = dict.fromkeys([*(root for root in found if root != "."), "src"])
    roots = " ".join(["{build_dir}/" + root for root in inside] + ["{build_dir}"])
    return f'in-dir={{env_dir}} python -c "{_WRITE}" {roots}'


def borrowed_folders(repo: Path) -> list[str]:
    """The folders that this Python's `site` adds to the import path: its packages, and what `.pth` files name.

    Folders of the repository itself are left out: the commit is to be measured, not the working tree. A virtual
    environment that lies in the repository is not left out.
    """
    without, everything = (_import_path(*options) for options in (["-S"], []))
    added = [one for one in everything if one not in without and Path(one).is_dir()]
    environment = [Path(sys.prefix)] if _inside(sys.prefix, repo) else []
    return [one for one in added if not _inside(one, repo) or any(_inside(one, prefix) for prefix in environment)]


def _import_path(*options: str) -> list[str]:
    """The import path of a new process of this Python, without the current folder and without PYTHONPATH."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", *options, "-c", _PATHS]
    said = bounded.done(command, Path.cwd(), bounded.GIT_S, "python -c", clean)
    said.check_returncode()
    found: list[str] = json.loads(said.stdout)
    return found


def _finders(repo: Path) -> Iterator[str]:
    """For each other project that setuptools has installed as editable by an import hook: the line that installs it."""
    for name, module in sorted(sys.modules.items()):
        places = getattr(module, "MAPPING", {}) if name.startswith("__editable__") else {}
        if places and not any(_inside(place, repo) for place in places.values()):
            yield f"import {name}; {name}.install()"


def _inside(place: str, folder: Path) -> bool:
    return Path(place).resolve().is_relative_to(folder.resolve())
