"""More work in every call of a benchmark, and a clock of its own. `tools/noise.py planted` copies it to both commits.

The work is an empty loop after each call. The clock reads the time before the call, between call and loop, and after
the loop, so the true share of the added work is known without the statistics of `pipebench ab`. The base has the same
clock and a loop of no steps: the two commits differ in one number. When a round's process leaves, it appends one line
for its benchmark to a file in the folder `$NOISE_CLOCK`; nothing is written while readings are taken.
"""

import json
import os
import statistics
import time
from pathlib import Path

WARMING = 3  # readings after `arm` that `pipebench ab` does not count
TRIES, STEPS = 10, 10_000


def kept_in(folder, change, identity):
    """The file of one benchmark and side, a line for each round."""
    return Path(folder) / f"{change!r}-{identity.replace('/', '~')}.jsonl"


def rounds_in(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def steps_for(change, rounds, call, clock):
    """How many steps make a call longer by `change`: from what the rounds so far took, else from a few calls now.

    Calls now are slower than in a round, because both sides arm at the same time; so only the first round uses them.
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
    """Makes every armed call of the class `runner` do `change` more work, and times it."""
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
    """A round's line: `taken` has nanoseconds of the call and of the added work for each reading."""
    call_ns, more_ns = zip(*taken, strict=True)
    return {
        "readings": len(taken), "calls": calls, "steps": steps,
        "call_ns": sum(call_ns), "more_ns": sum(more_ns),
        "least_call_ns": min(call_ns), "least_more_ns": min(more_ns),
    }  # fmt: skip
