"""Adds work to every call of a benchmark, and times it. `tools/noise.py planted` copies this module to both commits.

The added work is an empty loop after each call. The clock reads the processor time of the thread before the call,
between call and loop, and after the loop. So the true share of the added work is known without the statistics and
without the clock of `pipebench ab`. The base has the same clock and a loop of no steps, so the two commits differ in
one number only. When a process ends, it appends one line with its readings to a file in the folder `$NOISE_CLOCK`, one
for each benchmark, and plans the loop of the next one. While a process measures, it writes nothing and has no history
in its memory: the two sides would get other places for their buffers.

The first process of a benchmark finds out how long a call is; then each round has one; the last ones look at outputs.
"""

import json
import os
import statistics
import time
from pathlib import Path

WARMING = 3  # readings of a round that `pipebench ab` does not count, at most
TRIES, STEPS = 10, 10_000


def kept_in(folder, change, identity):
    """The path of the file for one benchmark and one side. It has a line for each process that took readings."""
    return Path(folder) / f"{change!r}-{identity.replace('/', '~')}.jsonl"


def rounds_in(path):
    """The lines after the first, which is no round."""
    return [json.loads(line) for line in path.read_text().splitlines()[1:]] if path.exists() else []


def steps_for(change, rounds, call, clock):
    """The number of steps that makes a call longer by `change`.

    It follows from the times of the rounds so far. In the first round it follows from a few calls now. Only the first
    round uses them, because they are slower than calls in a round: both sides arm at the same time.
    """
    if not change:
        return 0
    if rounds:
        call_ns = statistics.median(call / calls for one in rounds for calls, call, _ in one["read"])
        step_ns = statistics.median(more / calls / one["steps"] for one in rounds for calls, _, more in one["read"])
        return max(1, round(change * call_ns / step_ns))

    def least(act):
        took = []
        for _ in range(TRIES):
            begin = clock()
            act()
            took.append(clock() - begin)
        return min(took)

    return max(1, round(change * least(call) / (least(lambda: work(STEPS)) / STEPS)))


def work(steps):
    for _ in range(steps):
        pass


def plant(runner, change, clock=time.thread_time_ns):
    """Changes the class `runner` so that every armed call does `change` more work, and is timed."""
    folder, plain_arm, plain_reading, plain_exit = os.environ["NOISE_CLOCK"], runner.arm, runner.reading, os._exit
    last, taken, armed = [0, 0], [], {}

    def arm(self, identity, workload, keys):
        done = plain_arm(self, identity, workload, keys)
        *rest, block = self._armed[identity]
        path = kept_in(folder, change, identity)
        planned = read(path.with_suffix(".steps"))
        steps = int(planned) if planned else steps_for(change, [], lambda: block(1), clock)

        def longer(calls):
            begin = clock()
            block(calls)
            middle = clock()
            work(calls * steps)
            last[:] = middle - begin, clock() - middle

        self._armed[identity] = (*rest, longer)
        armed.update(path=path, steps=steps)
        taken.clear()
        return done

    def reading(self, identity, calls):
        found = plain_reading(self, identity, calls)
        taken.append((calls, *last))
        return found

    def leave(status):
        if taken:
            with armed["path"].open("a") as file:
                file.write(json.dumps({"steps": armed["steps"], "read": taken}) + "\n")
            if rounds := rounds_in(armed["path"]):
                armed["path"].with_suffix(".steps").write_text(f"{steps_for(change, rounds, None, clock):015d}")
        plain_exit(status)

    runner.arm, runner.reading, os._exit = arm, reading, leave


def read(path):
    """A short text without Python's buffers, which would lie among those of the benchmark; empty without a file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.read(file, 16)
    finally:
        os.close(file)


def summed(line, readings):
    """What the last `readings` of a round say: nanoseconds of the calls and of the added work."""
    _, call_ns, more_ns = zip(*line["read"][-readings:], strict=True)
    return {
        "call_ns": sum(call_ns), "more_ns": sum(more_ns), "middle_call_ns": middle(call_ns),
        "share": middle([more / call for call, more in zip(call_ns, more_ns, strict=True)]),
    }  # fmt: skip


def middle(values):
    """The mean of two medians, as `pipebench ab` takes it: every second reading follows one of its own side."""
    return statistics.fmean(statistics.median(kind) for kind in (values[::2], values[1::2]) if kind)
