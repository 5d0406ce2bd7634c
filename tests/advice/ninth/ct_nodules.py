"""3D nodule/no-nodule classifier, two scanners with different voxel spacing."""
import os, shutil, tempfile, time
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

EPOCHS = int(os.environ.get('EPOCHS', '6'))
torch.set_num_threads(1)
GRID = 32          # isotropic grid fed to the network
PER_SITE = 90


def simulate_site(folder, name, shape, seed):
    g = np.random.default_rng(seed)
    base = g.normal(-700, 120, shape)
    zz, yy, xx = np.ogrid[:shape[0], :shape[1], :shape[2]]
    items = []
    for k in range(PER_SITE):
        vol = np.roll(base, g.integers(0, 40), axis=1) + g.normal(0, 30)
        label = k % 2
        if label:
            c = [g.integers(s // 4, 3 * s // 4) for s in shape]
            r = g.uniform(0.12, 0.2)
            d = ((zz - c[0]) / shape[0]) ** 2 + ((yy - c[1]) / shape[1]) ** 2 + ((xx - c[2]) / shape[2]) ** 2
            vol[d < r * r] = 60
        p = os.path.join(folder, f'{name}_{k:03d}.npy')
        np.save(p, vol.astype(np.int16))
        items.append((p, label))
    return items


class CTVolumes(Dataset):
    def __init__(self, items, spacing, augment=True):
        self.items = items
        self.spacing = spacing
        self.augment = augment
        self.cache = {}

    def __len__(self):
        return len(self.items)

    def prepare(self, path):
        hu = torch.from_numpy(np.load(path).astype(np.float32))[None, None]
        hu = hu.clamp_(-1000, 400)
        # anti-alias in-plane before going down to the coarse grid
        k = torch.tensor([1., 4., 6., 4., 1.])
        k = k / k.sum()
        for _ in range(2):
            hu = F.conv3d(F.pad(hu, (2, 2, 0, 0, 0, 0), mode='replicate'), k.view(1, 1, 1, 1, 5))
            hu = F.conv3d(F.pad(hu, (0, 0, 2, 2, 0, 0), mode='replicate'), k.view(1, 1, 1, 5, 1))
        hu = F.interpolate(hu, size=(GRID, GRID, GRID), mode='trilinear', align_corners=False)[0]
        lo, hi = torch.quantile(hu[:, ::2, ::2, ::2], torch.tensor([0.005, 0.995]))
        return ((hu - lo) / (hi - lo + 1e-6)).clamp_(0, 1)

    def __getitem__(self, i):
        path, label = self.items[i]
        if path not in self.cache:
            self.cache[path] = self.prepare(path)
        x = self.cache[path]
        if self.augment:
            for ax in (1, 2, 3):
                if torch.rand(1).item() < .5:
                    x = x.flip(ax)
            x = x + 0.02 * torch.randn_like(x)
        return x, torch.tensor(float(label)), torch.tensor(self.spacing)


class Small3D(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(1, w, 3, stride=2, padding=1), nn.InstanceNorm3d(w), nn.LeakyReLU(0.1),
            nn.Conv3d(w, 2 * w, 3, padding=1), nn.InstanceNorm3d(2 * w), nn.LeakyReLU(0.1), nn.MaxPool3d(2),
            nn.Conv3d(2 * w, 4 * w, 3, padding=1), nn.LeakyReLU(0.1), nn.AdaptiveMaxPool3d(1), nn.Flatten())
        self.fc = nn.Linear(4 * w + 3, 1)

    def forward(self, x, spacing):
        return self.fc(torch.cat([self.body(x), spacing], 1)).squeeze(1)


def main():
    torch.manual_seed(1234)
    tmp = tempfile.mkdtemp(prefix='ct_')
    try:
        site_a = CTVolumes(simulate_site(tmp, 'siteA', (40, 112, 112), 1), [2.5, 0.7, 0.7])
        site_b = CTVolumes(simulate_site(tmp, 'siteB', (56, 96, 96), 2), [1.25, 0.8, 0.8])
        # last ten of each site are kept back for the reader study
        train = ConcatDataset([Subset(site_a, range(PER_SITE - 10)), Subset(site_b, range(PER_SITE - 10))])
        kw = {'batch_size': 4, 'shuffle': True, 'num_workers': 2}
        loader = DataLoader(train, **kw)
        net = Small3D()
        opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        for e in range(EPOCHS):
            t = time.time(); s = 0.; right = 0
            for vol, lab, sp in loader:
                z = net(vol, sp)
                loss = F.binary_cross_entropy_with_logits(z, lab)
                opt.zero_grad(); loss.backward(); opt.step()
                s += loss.item() * len(lab); right += int(((z > 0) == (lab > .5)).sum())
            print(f'epoch {e:2d} | bce {s/len(train):.4f} | acc {right/len(train):.3f} | {time.time()-t:.2f} s', flush=True)
    finally:
        shutil.rmtree(tmp)


if __name__ == '__main__':
    main()
