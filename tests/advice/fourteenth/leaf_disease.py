import io
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

EPOCHS = int(os.environ.get("EPOCHS", 6))
CLASSES = 5
SIDE = 64


def draw_leaf(rng, label, side=224):
    yy, xx = np.mgrid[:side, :side].astype(np.float32) / side - 0.5
    leaf = (xx / 0.42) ** 2 + (yy / 0.3) ** 2 < 1
    image = np.full((side, side, 3), (120, 100, 80), np.float32)
    image[leaf] = (60, 140, 50)
    for _ in range(3 + 4 * label):
        cx, cy = rng.uniform(-0.3, 0.3, 2)
        spot = (xx - cx) ** 2 + (yy - cy) ** 2 < rng.uniform(0.01, 0.05) ** 2
        image[spot & leaf] = (150 - 15 * label, 90 + 20 * label, 30)
    image += rng.normal(0, 12, image.shape)
    buffer = io.BytesIO()
    Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


class LeafImages(Dataset):
    def __init__(self, encoded, labels, transform):
        self.encoded, self.labels, self.transform = encoded, labels, transform

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, index):
        image = Image.open(io.BytesIO(self.encoded[index])).convert("RGB")
        return self.transform(image), self.labels[index]


def augmentation():
    return T.Compose([
        T.RandomResizedCrop(SIDE, scale=(0.5, 1.0)),
        T.RandomHorizontalFlip(),
        T.ColorJitter(0.3, 0.3, 0.2),
        T.ToTensor(),
        T.Normalize((0.45, 0.45, 0.35), (0.2, 0.2, 0.2)),
    ])


def build_model():
    def block(cin, cout, stride):
        return [nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
    return nn.Sequential(
        *block(3, 16, 2), *block(16, 24, 1), *block(24, 32, 2), *block(32, 48, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, CLASSES),
    )


class PseudoLabels:
    """Hands out batches of unlabelled leaves with the teacher's confident guesses."""

    def __init__(self, teacher, loader, threshold=0.6):
        self.teacher, self.loader, self.threshold = teacher, loader, threshold

    @torch.no_grad()
    def draw(self):
        images, _ = next(iter(self.loader))
        confidence, guess = self.teacher(images).softmax(1).max(1)
        return images, guess, (confidence > self.threshold).float()

    @torch.no_grad()
    def follow(self, student, decay=0.98):
        for t, s in zip(self.teacher.parameters(), student.parameters()):
            t.lerp_(s, 1 - decay)
        for t, s in zip(self.teacher.buffers(), student.buffers()):
            t.copy_(s)


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, 800).tolist()
    encoded = [draw_leaf(rng, label) for label in labels]
    labelled = LeafImages(encoded[:400], labels[:400], augmentation())
    unlabelled = LeafImages(encoded[400:], [-1] * 400, augmentation())

    options = dict(shuffle=True, drop_last=True, persistent_workers=True)
    labelled_loader = DataLoader(labelled, batch_size=10, num_workers=1, **options)
    unlabelled_loader = DataLoader(unlabelled, batch_size=20, num_workers=2, prefetch_factor=4,
                                   **options)

    student, teacher = build_model(), build_model()
    teacher.load_state_dict(student.state_dict())
    pseudo = PseudoLabels(teacher, unlabelled_loader)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    for epoch in range(EPOCHS):
        began = time.perf_counter()
        student.train()
        total = used = 0.0
        for images, target in labelled_loader:
            extra, guess, mask = pseudo.draw()
            logits = student(torch.cat([images, extra]))
            supervised = F.cross_entropy(logits[:len(images)], target)
            consistency = F.cross_entropy(logits[len(images):], guess, reduction="none")
            loss = supervised + 0.5 * (consistency * mask).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pseudo.follow(student)
            total += loss.item()
            used += mask.mean().item()
        steps = len(labelled_loader)
        print(f"epoch {epoch}: loss {total / steps:.3f}, pseudo labels used {used / steps:.2f}, "
              f"{time.perf_counter() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
