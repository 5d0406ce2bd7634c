"""After each pass, validation takes longer than training: its loader has no workers."""

import sys
import time

import loop
import torch
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((256,), float(index)), index % 10


def main(validation_workers=0, count=5, workers=4):
    train = DataLoader(Photos(80), batch_size=2, num_workers=workers, persistent_workers=True)
    check = DataLoader(Photos(80), batch_size=2, num_workers=validation_workers)
    training = loop.Training(step_ms=40)

    def validate():
        with torch.no_grad():
            for x, _ in check:
                training.model.layer(x)

    loop.passes(train, training, count, between=validate)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
