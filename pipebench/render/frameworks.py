"""The settings of a loader in the words of the library that made it. Pure."""

from __future__ import annotations

# library -> setting of torch's DataLoader -> how the library's user sets it
_WORDS = {
    "transformers": {
        "num_workers": "dataloader_num_workers in TrainingArguments",
        "persistent_workers=True": "dataloader_persistent_workers=True in TrainingArguments",
        "prefetch_factor": "dataloader_prefetch_factor in TrainingArguments",
        "batch_size": "per_device_eval_batch_size in TrainingArguments",
    },
    "ultralytics": {"num_workers": "workers in train()"},
    "lightning": {"num_workers": "num_workers in LightningDataModule.from_datasets()"},
    "deepspeed": {
        "num_workers": "num_local_io_workers in deepspeed_io()",
        "persistent_workers=True": "persistent_workers=True in a DataLoader of your own",
        "prefetch_factor": "prefetch_factor in a DataLoader of your own",
    },
}
_WORDS["pytorch_lightning"] = _WORDS["lightning"]
# library -> when it calls the user's function again that makes a loader
_CALLS = {"lightning": "Lightning asks for a new one where Trainer has reload_dataloaders_every_n_epochs"}
_CALLS["pytorch_lightning"] = _CALLS["lightning"]


def setting(name: str, made_by: str, to: int | str | None = None) -> str:
    """How the user sets `name` where the library `made_by` makes the loader ("": the user's own code makes it).

    With `to`, also to what.

    >>> setting("num_workers", "transformers"), setting("num_workers", "")
    ('dataloader_num_workers in TrainingArguments', 'num_workers')
    >>> setting("num_workers", "transformers", 0), setting("num_workers", "", "1 or more")
    ('dataloader_num_workers=0 in TrainingArguments', 'num_workers=1 or more')
    """
    words = _WORDS.get(made_by, {}).get(name, name)
    own, within, where = words.partition(" in ")
    return words if to is None else f"{own}={to}{within}{where}"


def made_anew(called_by: str) -> str:
    """In brackets, when the library `called_by` lets the user's function make another loader; "" if nobody knows."""
    return f" ({_CALLS[called_by]})" if called_by in _CALLS else ""
