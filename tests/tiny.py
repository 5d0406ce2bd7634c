"""The smallest real work of the lab: one decoder on the images that need no download."""

from pipebench import stage
from pipebench.task import Workload

WORKLOAD = Workload(data="tiny", batch_size=4, quick=True)
IDENTITY = "decode/rgb/pillow"


def first_keys(count):
    """The first so many samples."""
    task, _ = stage.find(IDENTITY)
    return tuple(key for group in task.groups(WORKLOAD) for key in group)[:count]
