"""Writes `.asv/fast.conf.json`: asv.conf.json with environments that use the packages of the running Python.

    python tools/asv_fast.py
    asv --config .asv/fast.conf.json run HEAD~2..HEAD --record-samples

An environment is then made in seconds and takes a few megabytes instead of 5.6 GB: a `.pth` file adds torch and the
other packages of the Python that runs this script. Each commit is used where asv has checked it out, so switching takes
no time. Results go into the same folder as those of the full configuration. The environment's name in a result says
which configuration made it.
"""

import json
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
BORROW = (
    "import sys, sysconfig; "
    "open(sysconfig.get_path('purelib') + '/commit.pth', 'w').write(sys.argv[1] + chr(10) + sys.argv[2] + chr(10))"
)


def fast(full, borrowed):
    """The configuration `full`, changed to install asv's runner only. `borrowed` is the folder of the packages used."""
    made = json.loads(full)
    made["matrix"]["req"] = {"pip+asv_runner": ["0.3.2"]}
    made["pythons"] = [f"{sys.version_info.major}.{sys.version_info.minor}"]
    made["repo"], made["benchmark_dir"] = "..", "../benchmarks"
    made["build_command"], made["uninstall_command"] = [], []
    made["install_command"] = [
        f'in-dir={{env_dir}} python -c "{BORROW}" {{build_dir}} {borrowed}',
        f"{sys.executable} {ROOT}/tools/ensure_simd.py",
    ]
    made["env_dir"], made["results_dir"], made["html_dir"] = "fast", "results", "html"
    return made


def main():
    place = ROOT / ".asv" / "fast.conf.json"
    place.parent.mkdir(exist_ok=True)
    made = fast((ROOT / "asv.conf.json").read_text(encoding="utf-8"), sysconfig.get_path("purelib"))
    place.write_text(json.dumps(made, indent=4) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {place.relative_to(ROOT)}: asv --config {place.relative_to(ROOT)} run HEAD^!\n")


if __name__ == "__main__":
    main()
