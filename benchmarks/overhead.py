"""What the harness itself costs: a call of a variant that does nothing, and what surrounds a reading."""

import time

from . import asvbench

CALLS = 20_000


class Harness:
    """The cost of a call and of a reading, with a variant that does nothing."""

    version = "1"
    timeout = 60

    def setup(self):
        asvbench.uses_pillow(False)
        try:
            task, timing, runner = (asvbench.module(name) for name in ("task", "lab.timing", "runner"))
        except ImportError as missing:
            raise NotImplementedError(f"this commit has no {missing.name}") from missing
        self._reading_s = timing.Plan.reading_s
        self._workload = task.Workload(data="photos", quick=True)
        definition = task.Task(
            id="read/nothing",
            summary="nothing, to time the harness",
            groups=lambda workload: [("one",)],
            inputs=lambda workload, keys: [None],
            check=lambda output, given: None,
            agree=lambda output, expected, variant: None,
            work=lambda given, output: task.Work(1, 0, 0),
            per_call=lambda workload: 1,
        )
        variant = task.Variant("read/nothing", "nothing", lambda workload: lambda given: None)
        self._runner = runner.LocalRunner(find=lambda identity: (definition, variant))
        self._runner.prepare(variant.id, self._workload)
        self._runner.arm(variant.id, self._workload, ("one",))
        self._identity = variant.id

    def _fastest(self, calls):
        return min(self._runner.reading(self._identity, calls)[0] for _ in range(20))

    def track_ns_per_call(self):
        """The cost of the loop and the call of an empty variant."""
        return self._fastest(CALLS) / CALLS * 1e9

    track_ns_per_call.unit = "ns"

    def track_percent_of_a_reading(self):
        """The calls' share of a reading of 10 ms, if each takes 10 µs: the briefest of the registry, a file read."""
        calls = round(self._reading_s / 10e-6)
        return self._fastest(calls) / self._reading_s * 100

    track_percent_of_a_reading.unit = "%"

    def track_us_around_a_reading(self):
        """What a reading costs outside the timed part: thread settings, garbage collector, clock."""
        begin = time.perf_counter()
        for _ in range(200):
            self._runner.reading(self._identity, 1)
        return (time.perf_counter() - begin) / 200 * 1e6

    track_us_around_a_reading.unit = "us"
