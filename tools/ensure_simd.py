"""Builds pillow-simd once, for the suite's second column. It never fails; without pillow-simd that column is n/a.

asv runs this after each installation, with the environment's own Python. If the build exists already, this takes a few
milliseconds. If a build failed, its reason is kept for an hour, so that the next commits do not try again.
"""

import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))  # imports this tree, not the installed commit

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
