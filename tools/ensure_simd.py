"""Builds pillow-simd for the suite's second column, once, and never fails: without it that column is n/a.

asv runs this after each installation with the environment's own Python; where the build is there already it takes a
few milliseconds. The reason of a build that failed is kept beside it for an hour, so that not every commit tries again.
"""

import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))  # the tree's own, whatever commit is installed

from pipebench.errors import PipebenchError
from pipebench.host import machine
from pipebench.native import building

RETRY_S = 3600.0


def main() -> int:
    if building.pillow_simd_folder() is not None:
        return 0
    failed = machine.cache_folder() / "pillow-simd.failed"
    if failed.exists() and time.time() - failed.stat().st_mtime < RETRY_S:
        sys.stderr.write(failed.read_text(encoding="utf-8"))
        return 0
    try:
        building.build_pillow_simd(progress=lambda line: None)
    except PipebenchError as error:
        then = f"its column is n/a until then (delete {failed} to try at once)"
        why = f"pillow-simd: {error.problem}\n  {error.remedy}\n  {then}\n"
        sys.stderr.write(why)
        with contextlib.suppress(OSError):
            failed.parent.mkdir(parents=True, exist_ok=True)
            failed.write_text(why, encoding="utf-8")
        return 0
    failed.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
