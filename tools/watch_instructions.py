"""Counts the instructions that `pipebench watch` adds to a settled iteration, on some programs of `real_packages.py`.

    python tools/watch_instructions.py [--early] [--python PYTHON] [NAME...]

Seconds on a shared machine scatter by more than watching costs; instructions scatter less. Each program runs plainly
and watched under `valgrind --tool=callgrind`, over its data set and over one three times as large. What the larger one
adds is of iterations: in the two workers of the first pass, which are the first two processes to end, and in the
script's process during the last pass. Counting begins anew at each fork, so no import is in it. `BY_ADDRESS` is not
in it either: it finds types by their addresses in a table, and takes what these happen to be.

`programs/settled` lets a program record from its begin as it does after its first 1,024 iterations. `--early` leaves
that out: then these are some of the first ones.

A program is about fifty times as slow so. Its clock is as slow, by `libfaketime`: what happens every so many
milliseconds happens as often as in a plain run. Instructions of the kernel are not counted, nor what `watch` does from
outside. Needs the Debian packages `valgrind` and `faketime`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).absolute().parent))

import real_packages
from real_packages import Place, Program
from real_scripts import table
from watch_cost import lengthen

LARGER = 3
SLOWER = 50
SETTLED = real_packages.HERE / "settled"
FAKETIME = "/usr/$LIB/faketime/libfaketimeMT.so.1"
PROGRAMS = ("torchaudio", "kornia: AugmentationSequential", "PyTorch Geometric")
"""Programs with one loader, whose data `lengthen` makes larger."""
BY_ADDRESS = "pybind11::detail::all_type_info_get_cache"
"""Two runs of PyTorch Geometric differed by 8 million instructions there, of 2,260 in all (26 November 2026)."""
FORKED = "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent"
Counts = dict[tuple[str, bool], tuple[int, int]]
"""By program, and whether it was watched: the instructions of the script and of the workers."""
HEADS = ("program", "plain, millions", "of these in workers", "watched adds", "in the script", "in workers")


def counted(place: Place, one: Program, watched: bool) -> tuple[int, int]:
    """The instructions of a run: of the script's process since its last fork, and of the two workers of its first pass.

    The script ends last. Raises SystemExit if the program fails.
    """
    with tempfile.TemporaryDirectory(dir=place.results) as folder:
        under = (
            "env", f"LD_PRELOAD={FAKETIME}", f"FAKETIME=+0 x{1 / SLOWER}",
            "valgrind", "--tool=callgrind", *(f"--zero-before={one}" for one in FORKED), "--log-file=/dev/null",
            f"--callgrind-out-file={folder}/%p",
        )  # fmt: skip
        done = real_packages.run(place, one, watched, under=under)
        if done.returncode:
            raise SystemExit(f"{one.name} failed:\n{done.stderr[-2000:]}")
        ended = sorted(Path(folder).glob("[0-9]*"), key=lambda one: one.stat().st_mtime_ns)  # numbers begin again at 1
        *workers, script = map(_total, ended)
    return script, sum(workers[:2])


def _total(file: Path) -> int:
    """All instructions of a file of callgrind, without those of `BY_ADDRESS` itself."""
    found, ours, inside, of_call = 0, "", False, False
    with file.open(errors="replace") as lines:
        for line in lines:
            if line.startswith("summary:"):
                found += int(line.split()[1])
            elif line.startswith(("fn=", "cfn=")):
                number, _, name = line.partition("=")[2].strip().partition(" ")
                ours = number if name.startswith(BY_ADDRESS) else ours
                inside = inside if line.startswith("c") else bool(ours) and number == ours
            elif line.startswith("calls="):
                of_call = True  # the next line is what the called function took
            elif line[0] in "+-*0123456789":
                found -= int(line.split()[1]) if inside and not of_call else 0
                of_call = False
    return found


def both(place: Place, programs: list[Program]) -> Counts:
    """The counts of each program, plainly and watched, a run on each core at a time."""
    wanted = [(one, watched) for one in programs for watched in (False, True)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda each: counted(place, *each), wanted))
    return {(one.name, watched): counts for (one, watched), counts in zip(wanted, found, strict=True)}


def cells(one: Program, small: Counts, large: Counts) -> list[str]:
    """The cells of a program: what the larger data set adds to one pass."""
    of = {}
    for watched in (False, True):
        script, workers = (
            after - before for before, after in zip(small[one.name, watched], large[one.name, watched], strict=True)
        )
        of[watched] = script, workers
    plain, more = sum(of[False]), [after - before for before, after in zip(of[False], of[True], strict=True)]
    return [
        one.name, f"{plain / 1e6:,.0f}", f"{of[False][1] / plain:.0%}", f"{sum(more) / plain:+.2%}",
        *(f"{part / plain:+.2%}" for part in more),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[real_packages.asking()]
    )
    parser.add_argument("--early", action="store_true", help="record as in the first iterations of a run")
    asked = parser.parse_args()
    missing = [one for one in ("valgrind", "faketime") if shutil.which(one) is None]
    if missing:
        raise SystemExit(f"install {' and '.join(missing)}: apt-get install valgrind faketime")
    if not asked.early:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SETTLED), os.environ.get("PYTHONPATH"))))
    with real_packages.place(asked, one_thread=True) as place:
        programs = real_packages.chosen(asked, [one for one in real_packages.PROGRAMS if one.name in PROGRAMS])
        for one in programs:
            real_packages.warm(place, one)
        if any(place.made.rglob("*-again-*")):
            raise SystemExit(f"{place.made} has the larger data set already: give another folder to --keep")
        small = both(place, programs)
        sys.stderr.write("the larger data set\n")
        lengthen(place.made, LARGER, 1)
        for one in programs:
            real_packages.run(place, one, False)  # it makes what it reads
        large = both(place, programs)
    sys.stdout.write(table(HEADS, [cells(one, small, large) for one in programs]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
