"""A worker without a process: a fetcher like torch's, and what the script gets of its batches."""

import types

from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import edited, unpacked


def fetcher(dataset, collate=list):
    found = types.SimpleNamespace(dataset=dataset, collate_fn=collate)
    found.fetch = lambda indices: found.collate_fn([found.dataset[one] for one in indices])
    return found


def fetched(dataset, edit, batches, collate=list, told=None):
    """The batches that the script gets with this edit, and then the patches are undone. `told` gets differences."""
    found, patches, edits = fetcher(dataset, collate), Patches(), (edit,)
    edited(found, edits, patches)
    try:
        return [unpacked(found.fetch(one), edits, (told if told is not None else []).append) for one in batches]
    finally:
        patches.undo()
