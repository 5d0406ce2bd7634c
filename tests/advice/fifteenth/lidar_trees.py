"""Tree species from airborne lidar crowns, with a small PointNet."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
CROWNS, POINTS, SPECIES = 750, 512, 6


def segment_crowns(seed=31):
    rng = np.random.default_rng(seed)
    species = rng.integers(0, SPECIES, CROWNS)
    height = rng.random((CROWNS, POINTS))
    taper = 0.3 + 0.25 * species[:, None]
    radius = (1 - height) ** taper * np.sqrt(rng.random((CROWNS, POINTS)))
    angle = rng.uniform(0, 2 * np.pi, (CROWNS, POINTS))
    cloud = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], 2)
    cloud += rng.normal(0, 0.03, cloud.shape)
    return torch.from_numpy(cloud.astype(np.float32)), torch.from_numpy(species)


class Crowns(Dataset):
    def __init__(self, clouds, species):
        self.clouds, self.species = clouds, species

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, index):
        turn = torch.rand(()) * 2 * torch.pi
        c, s = torch.cos(turn), torch.sin(turn)
        cloud = self.clouds[index]
        x, y, z = cloud[:, 0], cloud[:, 1], cloud[:, 2]
        return torch.stack([c * x - s * y, s * x + c * y, z]), self.species[index]


def shared(cin, cout):
    return nn.Sequential(nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout), nn.ReLU(inplace=True))


class CrownNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(shared(3, 64), shared(64, 128))
        self.wide = nn.Sequential(shared(256, 256), shared(256, 384))
        self.head = nn.Sequential(nn.Linear(384, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, SPECIES))

    def forward(self, cloud):
        local = self.local(cloud)
        context = local.amax(2, keepdim=True).expand_as(local)
        return self.head(self.wide(torch.cat([local, context], 1)).amax(2))


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.inference_mode():
        for cloud, species in loader:
            right += (model(cloud).argmax(1) == species).sum().item()
    return right / len(loader.dataset)


def main():
    torch.manual_seed(0)
    clouds, species = segment_crowns()
    held_out = CROWNS // 10
    train = DataLoader(Crowns(clouds[held_out:], species[held_out:]), batch_size=30, shuffle=True,
                       num_workers=1, persistent_workers=True)
    test = DataLoader(Crowns(clouds[:held_out], species[:held_out]), batch_size=45)
    model = CrownNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for cloud, kind in train:
            loss = loss_fn(model(cloud), kind)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(train):.4f}, held out {evaluate(model, test):.3f}", flush=True)


if __name__ == "__main__":
    main()
