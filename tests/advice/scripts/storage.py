"""Two workers read from storage what is not in the page cache, one small piece after the other."""

import mmap
import os
import sys
import tempfile

import loop
import torch
from torch.utils.data import DataLoader, Dataset

PIECE, PIECES = 4096, 65536
READS = 24  # of one sample


class Table(Dataset):
    """Reads past the page cache, as from a data set that is larger than memory."""

    def __init__(self, path):
        self.path, self.file = path, None

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.file is None:
            self.file, self.room = os.open(self.path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, PIECE)
        for number in range(READS):
            os.preadv(self.file, [self.room], (index * READS + number) * 7919 % PIECES * PIECE)
        return torch.full((256,), float(self.room[0])), index % 10


def main(workers=2, iterations=300):
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(PIECES // 256):
            file.write(os.urandom(256 * PIECE))
        file.flush()
        os.fsync(file.fileno())
        train = DataLoader(Table(file.name), batch_size=8, shuffle=True, num_workers=workers)
        loop.one_pass(train, loop.Training(), iterations)


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
