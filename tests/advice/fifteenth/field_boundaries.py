"""Field boundary segmentation on random windows of four-band satellite scenes."""
import os
import tempfile
from collections import OrderedDict

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
ROOT = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "field_boundaries")
SCENES, SIDE, WINDOW, WINDOWS_PER_SCENE = 24, 768, 64, 20


def render_scenes():
    done = os.path.join(ROOT, "complete")
    if not os.path.exists(done):
        os.makedirs(ROOT, exist_ok=True)
        rng = np.random.default_rng(21)
        for n in range(SCENES):
            parcels = rng.integers(0, 200, (12, 12, 4), dtype=np.uint8)
            scene = cv2.resize(parcels, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
            angle = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), float(rng.uniform(0, 90)), 1.5)
            scene = cv2.warpAffine(scene, angle, (SIDE, SIDE), borderMode=cv2.BORDER_REFLECT)
            edges = cv2.morphologyEx(scene[..., :3].max(2), cv2.MORPH_GRADIENT, np.ones((5, 5), np.uint8))
            scene = scene + rng.integers(0, 40, scene.shape, dtype=np.uint8)
            level = [cv2.IMWRITE_PNG_COMPRESSION, 1]
            cv2.imwrite(os.path.join(ROOT, f"scene_{n:02d}.png"), scene, level)
            cv2.imwrite(os.path.join(ROOT, f"edges_{n:02d}.png"), (edges > 20).astype(np.uint8), level)
        open(done, "w").close()


class SceneStore:
    """Decoded scenes, with the most recently used ones kept in memory."""

    def __init__(self, root, keep=3):
        self.root, self.keep = root, keep
        self.recent = OrderedDict()

    def get(self, number):
        if number in self.recent:
            self.recent.move_to_end(number)
            return self.recent[number]
        bands = cv2.imread(os.path.join(self.root, f"scene_{number:02d}.png"), cv2.IMREAD_UNCHANGED)
        edges = cv2.imread(os.path.join(self.root, f"edges_{number:02d}.png"), cv2.IMREAD_UNCHANGED)
        self.recent[number] = bands, edges
        while len(self.recent) > self.keep:
            self.recent.popitem(last=False)
        return bands, edges


class FieldWindows(Dataset):
    def __init__(self, store):
        self.store = store

    def __len__(self):
        return SCENES * WINDOWS_PER_SCENE

    def __getitem__(self, index):
        bands, edges = self.store.get(index // WINDOWS_PER_SCENE)
        top, left = torch.randint(SIDE - WINDOW, (2,)).tolist()
        area = np.s_[top:top + WINDOW, left:left + WINDOW]
        window = torch.from_numpy(bands[area].astype(np.float32) / 255).permute(2, 0, 1)
        target = torch.from_numpy(edges[area].astype(np.float32))
        if torch.rand(()) < 0.5:
            window, target = window.flip(-1), target.flip(-1)
        return window, target[None]


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(4, 12, 3, padding=1), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(24, 24, 3, padding=1), nn.ReLU())
        self.up = nn.Conv2d(36, 12, 3, padding=1)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = F.interpolate(self.middle(self.down2(fine)), scale_factor=2)
        return self.out(F.relu(self.up(torch.cat([fine, coarse], 1))))


def main():
    torch.manual_seed(0)
    render_scenes()
    windows = FieldWindows(SceneStore(ROOT))
    loader = DataLoader(windows, batch_size=16, shuffle=True, num_workers=2,
                        persistent_workers=True)
    model = SmallUNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        total, overlap, union = 0.0, 0.0, 0.0
        for window, target in loader:
            logits = model(window)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
            found = logits.detach() > 0
            overlap += (found & (target > 0)).sum().item()
            union += (found | (target > 0)).sum().item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}, IoU {overlap / max(union, 1):.3f}", flush=True)


if __name__ == "__main__":
    main()
