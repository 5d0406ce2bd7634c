"""Iterates one loader whose batches hold tensors, a view, a NumPy array and a string; prints what arrived."""

import hashlib
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Things(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(0.004 if index % 4 == 0 else 0.001)
        return index


def together(indices):
    whole = torch.arange(1000, dtype=torch.float32) + indices[0]
    return {"a": whole[:10], "b": whole[10:20], "c": torch.full((8,), indices[0]), "d": np.arange(25.0), "e": "text"}


if __name__ == "__main__":
    passes, pinned = int(sys.argv[1]), "--pin" in sys.argv
    loader = DataLoader(
        Things(), 2, num_workers=2, collate_fn=together, multiprocessing_context="fork", pin_memory=pinned
    )
    held = torch.zeros(1, device="cuda") if pinned and torch.cuda.is_available() else None  # the device is in use
    digest = hashlib.sha256()
    for _ in range(passes):
        for batch in loader:
            for name in "abc":
                digest.update(batch[name].numpy().tobytes())
            digest.update(batch["d"].tobytes() + batch["e"].encode())
            time.sleep(0.002)
    sys.stdout.write(digest.hexdigest() + "\n")
