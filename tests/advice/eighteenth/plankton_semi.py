"""FixMatch-style training on plankton micrographs: few labels, many unlabelled crops."""
import os
import tempfile

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "plankton_semi")
EPOCHS = int(os.environ.get("EPOCHS", 6))
CLASSES = 6
LABELLED = 1024
UNLABELLED = 3000
SIDE = 40


def draw(rng, label):
    img = np.full((SIDE, SIDE), 225, np.uint8)
    centre = tuple(int(v) for v in rng.integers(16, 24, 2))
    axes = (int(rng.integers(5, 14)), int(rng.integers(3, 5 + label)))
    cv2.ellipse(img, centre, axes, float(rng.integers(0, 180)), 0, 360, 90 + 15 * label, -1)
    for _ in range(label):
        end = tuple(int(v) for v in rng.integers(2, SIDE - 2, 2))
        cv2.line(img, centre, end, 60, 1)
    noise = rng.normal(0, 8, img.shape)
    return np.clip(img + noise, 0, 255).astype(np.uint8)


def prepare():
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(11)
    labels = rng.integers(0, CLASSES, LABELLED)
    images = np.stack([draw(rng, int(c)) for c in labels])
    paths = []
    for i in range(UNLABELLED):
        path = os.path.join(ROOT, f"u{i:05d}.png")
        paths.append(path)
        if not os.path.exists(path):
            cv2.imwrite(path, draw(rng, int(rng.integers(0, CLASSES))))
    return images, labels, paths


def flip_shift(img):
    if np.random.rand() < 0.5:
        img = img[:, ::-1]
    padded = np.pad(img, 4, mode="edge")
    y, x = np.random.randint(0, 9, 2)
    return np.ascontiguousarray(padded[y:y + SIDE, x:x + SIDE])


def strong(img):
    img = flip_shift(img).astype(np.float32)
    img = img * np.random.uniform(0.6, 1.4) + np.random.uniform(-30, 30)
    y, x = np.random.randint(0, SIDE - 12, 2)
    img[y:y + 12, x:x + 12] = 127
    return img.clip(0, 255).astype(np.uint8)


class LabelledCrops(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(flip_shift(self.images[i]))[None], int(self.labels[i])


class UnlabelledCrops(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        img = cv2.imread(self.paths[i], cv2.IMREAD_GRAYSCALE)
        return torch.from_numpy(flip_shift(img))[None], torch.from_numpy(strong(img))[None]


def make_model():
    layers, width = [], 1
    for out in (16, 32, 64):
        layers += [nn.Conv2d(width, out, 3, stride=2 if width == 1 else 1, padding=1),
                    nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def scaled(x):
    return x.float().div(127.5).sub(1)


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    images, labels, paths = prepare()
    labelled = DataLoader(LabelledCrops(images, labels), batch_size=16, shuffle=True,
                          drop_last=True)
    unlabelled = DataLoader(UnlabelledCrops(paths), batch_size=48, shuffle=True, drop_last=True,
                            num_workers=1)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True)

    for epoch in range(EPOCHS):
        sup_sum = unsup_sum = 0.0
        for x, y in labelled:
            weak, hard = next(iter(unlabelled))
            logits = model(scaled(torch.cat([x, weak, hard])))
            sup, on_weak, on_hard = logits.split([len(x), len(weak), len(hard)])
            prob, guess = on_weak.detach().softmax(1).max(1)
            mask = (prob > 0.9).float()
            loss_s = F.cross_entropy(sup, y)
            loss_u = (F.cross_entropy(on_hard, guess, reduction="none") * mask).mean()
            optimizer.zero_grad()
            (loss_s + loss_u).backward()
            optimizer.step()
            sup_sum += loss_s.item()
            unsup_sum += loss_u.item()
        steps = len(labelled)
        print(f"epoch {epoch}: supervised {sup_sum / steps:.3f}, consistency {unsup_sum / steps:.3f}",
              flush=True)


if __name__ == "__main__":
    main()
