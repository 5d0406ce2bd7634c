"""A worker without a process: a fetcher like torch's, and what the script gets of its batches."""

from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import edited, unpacked


class _Fetcher:
    def __init__(self, dataset, collate=list):
        self.dataset, self.collate_fn = dataset, collate

    def fetch(self, indices):
        return self.collate_fn([self.dataset[one] for one in indices])


def fetcher(dataset, collate=list):
    return _Fetcher(dataset, collate)


def fetched(dataset, edit, batches, collate=list, told=None):
    """The batches that the script gets with this edit, and then the patches are undone. `told` gets differences."""
    found, patches, edits = fetcher(dataset, collate), Patches(), (edit,)
    edited(found, edits, patches)
    try:
        return [unpacked(found.fetch(one), edits, (told if told is not None else []).append) for one in batches]
    finally:
        patches.undo()
