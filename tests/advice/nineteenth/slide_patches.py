"""Tumour / stroma / background classification of patches from stained tissue slides."""
import os

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

EPOCHS = int(os.environ.get("EPOCHS", 6))
SLIDES, SLIDE_SIDE, PATCH, STRIDE = 4, 1600, 32, 5
PATCHES_PER_EPOCH = 2400
STAINS = np.array([(236, 230, 238), (214, 150, 190), (120, 70, 150)], np.float32)


def stain_slide(seed):
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 1, (25, 25)).astype(np.float32)
    field = cv2.resize(coarse, (SLIDE_SIDE, SLIDE_SIDE), interpolation=cv2.INTER_CUBIC)
    mask = np.digitize(field, (0.3, 1.2)).astype(np.uint8)
    grain = cv2.resize(rng.normal(0, 14, (400, 400)).astype(np.float32), (SLIDE_SIDE, SLIDE_SIDE))
    image = np.clip(STAINS[mask] + grain[..., None], 0, 255).astype(np.uint8)
    return image, mask


class SlidePatches(Dataset):
    """Every grid position of every slide is a candidate patch."""

    def __init__(self, seeds):
        self.slides, positions, labels = [], [], []
        steps = np.arange(0, SLIDE_SIDE - PATCH, STRIDE)
        for number, seed in enumerate(seeds):
            image, mask = stain_slide(seed)
            self.slides.append(image)
            top, left = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
            positions.append(np.stack([np.full_like(top, number), top, left], 1))
            labels.append(mask[top + PATCH // 2, left + PATCH // 2])
        self.positions = np.concatenate(positions)
        self.labels = np.concatenate(labels).astype(np.int64)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        number, top, left = self.positions[index]
        patch = self.slides[number][top:top + PATCH, left:left + PATCH]
        turns = int(torch.randint(4, ()))
        patch = np.ascontiguousarray(np.rot90(patch, turns).transpose(2, 0, 1))
        return torch.from_numpy(patch).float().div_(127.5).sub_(1.0), self.labels[index]


class BalancedSampler(Sampler):
    """Draws patches so that tissue classes come up equally often."""

    def __init__(self, labels, num_samples, seed=0):
        share = np.bincount(labels, minlength=len(STAINS)) / len(labels)
        weights = 1.0 / share[labels]
        self.probabilities = weights / weights.sum()
        self.num_samples = num_samples
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.num_samples

    def __iter__(self):
        for _ in range(self.num_samples):
            yield int(self.rng.choice(len(self.probabilities), p=self.probabilities))


def patch_net():
    layers, channels = [], 3
    for width in (16, 32, 48):
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False),
                   nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, len(STAINS)))


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    patches = SlidePatches(range(SLIDES))
    sampler = BalancedSampler(patches.labels, PATCHES_PER_EPOCH)
    loader = DataLoader(patches, batch_size=32, sampler=sampler, num_workers=2,
                        prefetch_factor=4, persistent_workers=True)
    model = patch_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(EPOCHS):
        counts = torch.zeros(len(STAINS), len(STAINS), dtype=torch.long)
        total = 0.0
        for images, labels in loader:
            logits = model(images)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
            counts.index_put_((labels, logits.detach().argmax(1)), torch.ones_like(labels), accumulate=True)
        recall = counts.diag() / counts.sum(1).clamp(min=1)
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f} recall {recall.tolist()}", flush=True)


if __name__ == "__main__":
    main()
