"""NumPy's BLAS uses every core in every worker: the workers compete with each other."""

import sys

import loop
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Projected(Dataset):
    def __init__(self):
        self.matrix = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        found = np.full((128, 128), index % 7, dtype=np.float32)
        for _ in range(5):
            found = np.tanh(found @ self.matrix)
        return found[:16].copy(), index % 10


def main(workers=2, iterations=400, warm=40):
    train = DataLoader(Projected(), batch_size=2, shuffle=True, num_workers=workers)
    loop.one_pass(train, loop.Training(16 * 128), iterations, warm=warm)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
