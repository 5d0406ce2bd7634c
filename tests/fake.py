"""A seeded fake of time, and tasks that exist only in tests."""

import itertools
import random

from pipebench.errors import SampleError
from pipebench.runner import LocalRunner, Runners
from pipebench.task import Task, Variant, Work, Workload


class FakeClock:
    """Time that passes only when a variant says so: `cost` seconds, plus seeded noise that only adds."""

    def __init__(self, noise=0.02, seed=0):
        self.now = 0.0
        self._rng = random.Random(seed)
        self._noise = noise

    def spend(self, cost):
        self.now += cost * (1 + self._rng.expovariate(1 / self._noise) if self._noise else 1)

    def elapsed(self, block):
        begin = self.now
        block()
        return self.now - begin


GONE = FileNotFoundError(2, "No such file or directory")


def breaking(after, error, sample=None):
    """A call that doubles what it is given. After so many calls it raises: for one sample only, or for all."""
    calls = itertools.count(1)

    def call(given):
        if next(calls) > after and sample in (None, given):
            raise error
        return 2 * given

    return call


class Bench:
    """A task of numbers: its reference doubles them, and each variant costs what it is told to."""

    def __init__(self, clock=None, samples=10, per_call=4):
        self.clock = clock or FakeClock()
        self.variants = {}
        self.task = Task(
            id="decode/number",
            summary="double a number",
            groups=lambda workload: [(f"s{index}",) for index in range(samples)],
            inputs=lambda workload, keys: [self.load(key) for key in keys],
            check=self._check,
            agree=self._agree,
            work=lambda given, output: Work(1, 100, 300),
            per_call=lambda workload: per_call,
        )

    def load(self, key):
        return int(key[1:])

    @staticmethod
    def _check(output, given):
        if not isinstance(output, int):
            raise SampleError("contract", f"it is a {type(output).__name__}")

    @staticmethod
    def _agree(output, expected, variant):
        if output != expected:
            raise SampleError("disagrees", f"{output} is not {expected}")

    def variant(self, name, cost, call=lambda given: 2 * given, build=None, **facts):
        def built(workload):
            def run(given):
                self.clock.spend(cost)
                return call(given)

            return run

        made = Variant(self.task.id, name, build or built, **facts)
        self.variants[made.id] = made
        return made

    def runners(self):
        return Runners(LocalRunner(self.clock, find=lambda identity: (self.task, self.variants[identity])))

    def measure(self, plan, workload=None, **options):
        from pipebench.lab.timing import measure

        rows = list(self.variants.values())
        with self.runners() as runners:
            return measure(
                self.task,
                [one for one in rows if not one.ceiling],
                workload or Workload(data="none"),
                runners=runners,
                plan=plan,
                ceilings=[one for one in rows if one.ceiling],
                reference=rows[0],
                now=lambda: self.clock.now,
                **options,
            )
