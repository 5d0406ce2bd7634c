"""Makes very many small samples of nine stages each, and prints the largest resident size of itself and of a worker."""

import resource
import sys

from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose


def pass_on(value):
    return value


class Many(Dataset):
    def __init__(self, length):
        self.length = length
        self.transform = Compose([pass_on] * 8)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.transform(index)


def main():
    samples, workers = int(sys.argv[1]), int(sys.argv[2])
    batches = 0
    for _ in DataLoader(Many(samples), batch_size=64, num_workers=workers, collate_fn=len):
        batches += 1
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    print(batches, *(resource.getrusage(kind).ru_maxrss * 1024 for kind in kinds))


if __name__ == "__main__":
    main()
