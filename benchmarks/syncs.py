"""What examining a step for sync points costs, and that the studies' steps have as many as they should."""

from pipebench.studies import sync_points
from pipebench.watch import syncs


class Studies:
    """Sync points a step of the rows of the study `sync-points`: a change here is a change of the reviewed list."""

    version = "1"
    timeout = 60
    params = tuple(step.name for step in sync_points.STEPS)
    param_names = ("step",)

    def setup(self, name):
        self._step = next(step for step in sync_points.STEPS if step.name == name).build("small")
        self._step()

    def track_per_step(self, name):
        return syncs.examine(self._step, iterations=1).per_step

    track_per_step.unit = "sync points"

    def time_examine(self, name):
        syncs.examine(self._step, iterations=1)
