"""Adds work to every call of a benchmark, and times it. `tools/noise.py planted` copies this module to both commits.

The added work is an empty loop after each call. The clock reads the time before the call, between call and loop, and
after the loop. So the true share of the added work is known without the statistics of `pipebench ab`. The base has the
same clock and a loop of no steps, so the two commits differ in one number only. When the process of a round ends, it
appends one line for its benchmark to a file in the folder `$NOISE_CLOCK`. It writes nothing while readings are taken.
"""

import json
import os
import statistics
import time
from pathlib import Path

WARMING = 3  # readings after `arm` that `pipebench ab` does not count
TRIES, STEPS = 10, 10_000


def kept_in(folder, change, identity):
    """The path of the file for one benchmark and one side. It has a line for each round."""
    return Path(folder) / f"{change!r}-{identity.replace('/', '~')}.jsonl"


def rounds_in(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def steps_for(change, rounds, call, clock):
    """The number of steps that makes a call longer by `change`.

    It follows from the times of the rounds so far. In the first round it follows from a few calls now. Only the first
    round uses them, because they are slower than calls in a round: both sides arm at the same time.
    """
    if not change:
        return 0
    if rounds:
        call_ns = statistics.median(one["least_call_ns"] / one["calls"] for one in rounds)
        step_ns = statistics.median(one["least_more_ns"] / one["calls"] / one["steps"] for one in rounds)
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


def plant(runner, change, clock=time.perf_counter_ns):
    """Changes the class `runner` so that every armed call does `change` more work, and is timed."""
    folder, plain_arm, plain_reading, plain_exit = os.environ["NOISE_CLOCK"], runner.arm, runner.reading, os._exit
    last, taken, armed = [0, 0], [], {}

    def arm(self, identity, workload, keys):
        done = plain_arm(self, identity, workload, keys)
        *rest, block = self._armed[identity]
        path = kept_in(folder, change, identity)
        steps = steps_for(change, rounds_in(path), lambda: block(1), clock)

        def longer(calls):
            begin = clock()
            block(calls)
            middle = clock()
            work(calls * steps)
            last[:] = middle - begin, clock() - middle

        self._armed[identity] = (*rest, longer)
        armed.update(path=path, steps=steps, warming=WARMING)
        return done

    def reading(self, identity, calls):
        found = plain_reading(self, identity, calls)
        if armed["warming"]:
            armed["warming"] -= 1
        else:
            armed["calls"] = calls
            taken.append(tuple(last))
        return found

    def leave(status):
        if taken:
            line = summed(taken, armed["calls"], armed["steps"])
            with armed["path"].open("a") as file:
                file.write(json.dumps(line) + "\n")
        plain_exit(status)

    runner.arm, runner.reading, os._exit = arm, reading, leave


def summed(taken, calls, steps):
    """The line of a round. `taken` has, for each reading, the nanoseconds of the call and of the added work."""
    call_ns, more_ns = zip(*taken, strict=True)
    return {
        "readings": len(taken), "calls": calls, "steps": steps,
        "call_ns": sum(call_ns), "more_ns": sum(more_ns),
        "least_call_ns": min(call_ns), "least_more_ns": min(more_ns),
    }  # fmt: skip
