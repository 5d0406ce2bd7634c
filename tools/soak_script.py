"""What `tools/soak.py` runs under faults: a small training whose result depends on every sample and on every weight.

    python tools/soak_script.py RESULT WORKERS EPOCHS

Writes a digest of the samples in their order and of the weights to the file RESULT at its end. Under torchrun, ranks
train together, and the first one writes.
"""

import hashlib
import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SAMPLES, SIZE = 480, 64


class Made(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        made = torch.arange(SIZE * SIZE, dtype=torch.float32).reshape(SIZE, SIZE) * (index + 1) % 251
        return made.sin().mean(0), index


def main():
    result, workers, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(SIZE, 1)
    sampler, rank = None, int(os.environ.get("RANK", "0"))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
        sampler = DistributedSampler(Made(), shuffle=True, seed=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Made(), 8, shuffle=sampler is None, sampler=sampler, num_workers=workers)
    order = hashlib.sha256()
    for _ in range(epochs):
        for batch, indices in loader:
            order.update(indices.numpy().tobytes())
            optimiser.zero_grad()
            model(batch).square().mean().backward()
            optimiser.step()
    for one in model.parameters():
        order.update(one.detach().numpy().tobytes())
    if rank == 0:
        with open(result, "w", encoding="ascii") as file:
            file.write(order.hexdigest())


if __name__ == "__main__":
    main()
