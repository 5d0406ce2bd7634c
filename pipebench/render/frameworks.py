"""The settings of a loader in the words of the library that made it. Pure."""

from __future__ import annotations

# library -> setting of torch's DataLoader -> how the library's user sets it
_WORDS = {
    "transformers": {
        "num_workers": "dataloader_num_workers in TrainingArguments",
        "persistent_workers=True": "dataloader_persistent_workers=True in TrainingArguments",
        "prefetch_factor": "dataloader_prefetch_factor in TrainingArguments",
    },
    "ultralytics": {"num_workers": "workers in train()"},
    "lightning": {"num_workers": "num_workers in LightningDataModule.from_datasets()"},
    "fastai": {
        "num_workers": "num_workers in dataloaders()",
        "persistent_workers=True": "persistent_workers=True in dataloaders()",
    },
    "deepspeed": {
        "num_workers": "num_local_io_workers in deepspeed_io()",
        "persistent_workers=True": "persistent_workers=True in a DataLoader of your own",
        "prefetch_factor": "prefetch_factor in a DataLoader of your own",
    },
}
_WORDS["pytorch_lightning"] = _WORDS["lightning"]


def setting(name: str, made_by: str) -> str:
    """How the user sets `name` where the library `made_by` makes the loader ("": the user's own code makes it).

    >>> setting("num_workers", "transformers"), setting("num_workers", "")
    ('dataloader_num_workers in TrainingArguments', 'num_workers')
    """
    return _WORDS.get(made_by, {}).get(name, name)
