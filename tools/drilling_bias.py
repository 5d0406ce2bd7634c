"""How far the lines under a large row can be trusted: planted shares, found from outside and by a thread inside.

    python tools/drilling_bias.py shares --seconds 60 --save drilling.jsonl
    python tools/drilling_bias.py report drilling.jsonl

`shares` runs a process that does known kinds of work in turn and times each by its own clock: pure Python, C that holds
the interpreter's lock, and C that releases it, in short and in long pieces. Meanwhile its stack is looked at from
outside, as `pipebench watch` does, and for comparison by a thread inside it (`sys._current_frames`). Each run appends
lines to the file. What looks cost is measured by `tools/drilling_cost.py`. It needs no torch, so it runs on any
interpreter that pipebench supports.
"""

import argparse
import datetime
import itertools
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).absolute().parent.parent))

from pipebench.watch.launch.stacks import StackReader, read_meanwhile
from pipebench.watch.record.exclusive_time import StageTimer
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.record_file import encoded
from pipebench.watch.worker.stack_place import FOLDER, place_of

ROW = 5
NUMBERS = list(range(400_000))
WORDS = " ".join(f"word{number}" for number in range(4_000))
NOISE = random.Random(1).randbytes(400_000)


def pure_python(steps):
    total = 0
    for step in range(steps):
        total += step * step % 7
    return total


def many_small_calls(steps):
    found = []
    for step in range(steps):
        found.append(len(str(step)))
    return found


def c_that_holds_the_lock(part):
    return sum(NUMBERS[:part])


def c_that_releases_the_lock(part):
    return zlib.compress(NOISE[:part], 1)


def sleeping(seconds):
    time.sleep(seconds)


# In milliseconds on the machine where they were chosen; the truth is what the clock says, not these numbers.
MIXTURES = {
    "short pieces": ((pure_python, 8_000), (many_small_calls, 3_000), (c_that_holds_the_lock, 60_000),
                     (c_that_releases_the_lock, 20_000), (sleeping, 0.0005)),
    "long pieces": ((pure_python, 150_000), (many_small_calls, 60_000), (c_that_holds_the_lock, 400_000),
                    (c_that_releases_the_lock, 400_000), (sleeping, 0.01)),
    "mostly Python": ((pure_python, 60_000), (many_small_calls, 20_000), (sleeping, 0.0002)),
}  # fmt: skip


def item(mixture, spent):
    for function, amount in mixture:
        began = time.perf_counter()
        function(amount)
        spent[function.__name__] += time.perf_counter() - began


@unseen
def fetch(timer, mixture, spent):
    timer.switch(ROW)
    item(mixture, spent)
    timer.switch(0)


class Inside:
    """What a thread of the process itself sees: a stack each 10 ms on average, when it gets the lock."""

    def __init__(self, timer, thread):
        self.found, self.over = Counter(), threading.Event()
        self._timer, self._thread = timer, thread
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        chance = random.Random(2)
        while not self.over.wait(0.01 * (0.5 + chance.random())):
            if self._timer.current == ROW:
                frame, name = sys._current_frames().get(self._thread), None
                while frame is not None:
                    if frame.f_code.co_name in PLANTED:
                        name = frame.f_code.co_name
                        break
                    frame = frame.f_back
                del frame
                self.found[name] += 1


PLANTED = {function.__name__ for function, _ in itertools.chain(*MIXTURES.values())}


def plant(folder, mixture, seconds, inside):
    """The planted process: works for some seconds, then prints the true shares and what a thread inside has seen."""
    timer, spent, done = StageTimer(), Counter(), []
    place = Path(folder) / FOLDER / "planted"
    place.with_suffix(".part").write_bytes(encoded(place_of(timer, 1, 0)))
    place.with_suffix(".part").rename(place)
    watcher = Inside(timer, threading.get_ident()) if inside else None
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        fetch(timer, MIXTURES[mixture], spent)
        done.append(time.perf_counter())
    if watcher is not None:
        watcher.over.set()
    sys.stdout.write(json.dumps({"spent": spent, "inside": watcher.found if watcher else None, "done": done}))


def planted(folder, mixture, seconds, inside=False):
    """Starts the planted process."""
    command = [sys.executable, __file__, "plant", os.fspath(folder), mixture, str(seconds), str(int(inside))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def shares(seconds):
    """One run of each mixture, seen from outside; then again, seen from inside."""
    for mixture in MIXTURES:
        with tempfile.TemporaryDirectory() as folder:
            reader = StackReader(Path(folder))
            process = planted(folder, mixture, seconds)
            with read_meanwhile(reader):
                told = json.loads(process.communicate()[0])
            if reader.found.refused is not None:
                sys.exit(f"the stack could not be read: {reader.found.refused}")
            (looks,) = reader.found.of.values()
            seen = Counter(one.place.function if one.place else None for one in looks)
        yield row("outside", mixture, told["spent"], seen)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / FOLDER).mkdir()
            told = json.loads(planted(folder, mixture, seconds, inside=True).communicate()[0])
        yield row("inside", mixture, told["spent"], told["inside"])


def row(how, mixture, spent, seen):
    whole = sum(spent.values())
    return {
        "how": how,
        "mixture": mixture,
        "looks": sum(seen.values()),
        "true": {name: spent[name] / whole for name in spent},
        "seen": {name or "-": n for name, n in seen.items()},
    }


def about():
    return {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "load": os.getloadavg()[0],
            "python": platform.python_version(), "cpus": os.cpu_count()}  # fmt: skip


def beyond(share, count, looks):
    """How far a share lies outside Wilson's interval of 95 % for `count` of `looks`."""
    z = 1.96
    found = count / looks
    middle = (found + z * z / (2 * looks)) / (1 + z * z / looks)
    half = z * math.sqrt(found * (1 - found) / looks + z * z / (4 * looks * looks)) / (1 + z * z / looks)
    return max(0.0, middle - half - share, share - middle - half)


def report(lines):
    """The lines of a file as text."""
    for one in lines:
        yield f"{one['at']}, Python {one['python']}, load {one['load']:.1f}"
        yield f"  {one['mixture']}, seen from {one['how']}: {one['looks']} looks"
        for name, share in sorted(one["true"].items(), key=lambda pair: -pair[1]):
            count = one["seen"].get(name, 0)
            off = beyond(share, count, one["looks"])
            yield f"    {name:26} true {share:6.1%}  seen {count / one['looks']:6.1%}  beyond its interval {off:6.1%}"
        lost = one["looks"] - sum(one["seen"].get(name, 0) for name in one["true"])
        yield f"    {'anything else':26} true   0.0%  seen {lost / one['looks']:6.1%}"
    for how in ("outside", "inside"):
        found = [(beyond(share, one["seen"].get(name, 0), one["looks"]), name) for one in lines if one["how"] == how
                 for name, share in one["true"].items()]  # fmt: skip
        if found:
            within = sum(off == 0 for off, _ in found)
            yield f"from {how}: {within} of {len(found)} shares within their interval; worst {max(found)[0]:.1%} beyond"


def main():
    if sys.argv[1:2] == ["plant"]:
        folder, mixture, seconds, inside = sys.argv[2:]
        plant(folder, mixture, float(seconds), bool(int(inside)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shares", "report"])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--save", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "report":
        lines = [json.loads(text) for text in chosen.file.read_text().splitlines()]
    else:
        lines = []
        for one in shares(chosen.seconds):
            lines.append({**about(), **one})
            if chosen.save is not None:
                with chosen.save.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    sys.stdout.write("\n".join(report(lines)) + "\n")


if __name__ == "__main__":
    main()
