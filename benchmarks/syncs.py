"""What it costs to examine a step for sync points, and how many the steps of the study have."""

from . import NAMES, asvbench


class Studies:
    """Sync points per step in the rows of the study `sync-points`. A change here is a change of the reviewed list."""

    version = "1"
    timeout = 60
    params = NAMES["sync-points"]
    param_names = ("step",)

    def setup(self, name):
        asvbench.uses_pillow(False)
        try:
            studied, examining = asvbench.module("studies.sync_points"), asvbench.module("syncpoints.examine")
        except ImportError as missing:
            raise NotImplementedError(f"this commit has no {missing.name}") from missing
        found = [step for step in studied.STEPS if step.name == name]
        if not found:
            raise NotImplementedError(f"this commit has no step {name}")
        self._step, self._examine = found[0].build("small"), examining.examine
        self._step()

    def track_per_step(self, name):
        return self._examine(self._step, iterations=1).per_step

    track_per_step.unit = "sync points"

    @asvbench.detail
    def time_examine(self, name):
        self._examine(self._step, iterations=1)
