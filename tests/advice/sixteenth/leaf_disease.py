"""Leaf disease classifier: few labelled photos, consistency training on unlabelled ones."""
import os
import tempfile
import time

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "leaf_disease")
CLASSES, LABELLED, UNLABELLED, SIDE = 5, 640, 1500, 40


def draw_leaf(rng, label):
    image = np.full((96, 96, 3), (60, 90 + 10 * label, 70), np.uint8)
    cv2.ellipse(image, (48, 48), (40, 22), float(rng.uniform(0, 180)), 0, 360, (40, 150, 60), -1)
    for _ in range(3 + 4 * label):
        x, y = (int(v) for v in rng.integers(20, 76, 2))
        cv2.circle(image, (x, y), 2 + label, (30, 60 + 20 * label, 120), -1)
    noise = rng.integers(0, 25, image.shape, dtype=np.uint8)
    return cv2.add(image, noise)


def make_photos():
    os.makedirs(ROOT, exist_ok=True)
    if os.path.exists(os.path.join(ROOT, "done")):
        return
    rng = np.random.default_rng(5)
    for i in range(LABELLED + UNLABELLED):
        kind = "labelled" if i < LABELLED else "field"
        label = int(rng.integers(CLASSES))
        cv2.imwrite(os.path.join(ROOT, f"{kind}_{i:05d}_{label}.jpg"), draw_leaf(rng, label))
    open(os.path.join(ROOT, "done"), "w").close()


def weak(image):
    if np.random.rand() < 0.5:
        image = image[:, ::-1]
    return image


def strong(image):
    image = weak(image).astype(np.float32) * np.random.uniform(0.6, 1.4)
    x, y = np.random.randint(0, SIDE - 14, 2)
    image[y:y + 14, x:x + 14] = 110
    return np.clip(image, 0, 255)


def to_tensor(image):
    return torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32).transpose(2, 0, 1) / 255)


class LeafPhotos(Dataset):
    def __init__(self, kind):
        self.kind = kind
        self.files = sorted(f for f in os.listdir(ROOT) if f.startswith(kind))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        name = self.files[index]
        image = cv2.imread(os.path.join(ROOT, name))
        image = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        if self.kind == "field":
            return to_tensor(weak(image)), to_tensor(strong(image))
        return to_tensor(weak(image)), int(name.rsplit("_", 1)[1][0])


def build_model():
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(block(3, 12), block(12, 24), block(24, 48), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(48, CLASSES))


def consistency(logits_weak, logits_strong, threshold=0.8):
    confidence, pseudo = logits_weak.detach().softmax(1).max(1)
    loss = F.cross_entropy(logits_strong, pseudo, reduction="none")
    return (loss * (confidence > threshold)).mean()


def main():
    torch.manual_seed(0)
    cv2.setNumThreads(0)
    make_photos()
    labelled_loader = DataLoader(LeafPhotos("labelled"), batch_size=16, shuffle=True, num_workers=1,
                                 persistent_workers=True, drop_last=True)
    field_loader = DataLoader(LeafPhotos("field"), batch_size=32, shuffle=True, num_workers=2, drop_last=True)
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for epoch in range(EPOCHS):
        began, running = time.time(), 0.0
        for x, y in labelled_loader:
            u_weak, u_strong = next(iter(field_loader))
            logits = model(torch.cat([x, u_weak, u_strong]))
            logits_x, logits_weak, logits_strong = logits.split([len(x), len(u_weak), len(u_strong)])
            loss = F.cross_entropy(logits_x, y) + consistency(logits_weak, logits_strong)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch}: loss {running / len(labelled_loader):.4f} ({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
