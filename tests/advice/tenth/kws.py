"""keyword spotting, 10 words, synthetic clips + room reverb augmentation. small DS-CNN."""
import os, time
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

EPOCHS = int(os.environ.get('EPOCHS', 8))
SR = 16000
N_CLIPS = 640
N_ROOMS = 320
N_WORDS = 10
NFFT, HOP, NMEL = 512, 160, 40


def hz2mel(f): return 2595 * np.log10(1 + f / 700)
def mel2hz(m): return 700 * (10 ** (m / 2595) - 1)


def mel_bank():
    pts = mel2hz(np.linspace(hz2mel(40), hz2mel(SR / 2), NMEL + 2))
    freqs = np.linspace(0, SR / 2, NFFT // 2 + 1)
    fb = np.zeros((NMEL, len(freqs)), np.float32)
    for m in range(NMEL):
        l, c, r = pts[m:m + 3]
        fb[m] = np.clip(np.minimum((freqs - l) / (c - l), (r - freqs) / (r - c)), 0, None)
    return torch.from_numpy(fb)


def simulate_room(rng, order=9, length=8000):
    """image source method for a shoebox room, one source one mic"""
    dims = rng.uniform([3, 3, 2.4], [9, 7, 3.5])
    src, mic = rng.uniform(0.2, 0.8, 3) * dims, rng.uniform(0.2, 0.8, 3) * dims
    refl = rng.uniform(0.6, 0.9)
    n = np.arange(-order, order + 1)
    ir = np.zeros(length)
    grid = np.stack(np.meshgrid(n, n, n, indexing='ij'), -1).reshape(-1, 3)
    for flip in np.ndindex(2, 2, 2):
        f = np.array(flip)
        img = (1 - 2 * f) * src + 2 * grid * dims
        dist = np.linalg.norm(img - mic, axis=1)
        gain = refl ** np.abs(2 * grid - f).sum(1) / np.maximum(dist, 0.1)
        t = (dist / 343.0 * SR).astype(int)
        ok = t < length
        np.add.at(ir, t[ok], gain[ok])
    return (ir / np.abs(ir).max()).astype(np.float32)


def make_clips():
    rng = np.random.default_rng(11)
    t = np.arange(SR) / SR
    y = rng.integers(0, N_WORDS, N_CLIPS)
    x = np.empty((N_CLIPS, SR), np.float32)
    for i, w in enumerate(y):
        f0 = 150 + 60 * w + rng.normal(0, 8)
        env = np.exp(-((t - rng.uniform(.3, .6)) / .15) ** 2)
        x[i] = env * (np.sin(2 * np.pi * f0 * t + (w % 3) * np.sin(20 * t)) + .3 * np.sin(4 * np.pi * f0 * t))
    return x, y


class Speech(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.fb = mel_bank()
        self.win = torch.hann_window(NFFT)
        self.rooms = None      # filled on first use, keeps the object small to pickle

    def __len__(self):
        return len(self.x)

    def reverb(self, wav):
        if self.rooms is None:
            rng = np.random.default_rng(5)
            self.rooms = [simulate_room(rng) for _ in range(N_ROOMS)]
        ir = self.rooms[torch.randint(N_ROOMS, ()).item()]
        n = 32768
        return np.fft.irfft(np.fft.rfft(wav, n) * np.fft.rfft(ir, n), n)[:SR].astype(np.float32)

    def __getitem__(self, i):
        wav = self.reverb(self.x[i])
        wav = torch.from_numpy(wav) + 0.01 * torch.randn(SR)
        wav = torch.roll(wav, torch.randint(-1600, 1600, ()).item())
        spec = torch.stft(wav, NFFT, HOP, window=self.win, return_complex=True).abs().square()
        return torch.log(self.fb @ spec + 1e-5), int(self.y[i])


def ds_block(c):
    return nn.Sequential(nn.Conv2d(c, c, 3, padding=1, groups=c), nn.BatchNorm2d(c), nn.ReLU(),
                         nn.Conv2d(c, c, 1), nn.BatchNorm2d(c), nn.ReLU())


def main():
    torch.manual_seed(42)
    torch.set_num_threads(1)
    x, y = make_clips()
    loader = DataLoader(Speech(x, y), batch_size=16, shuffle=True, num_workers=2, drop_last=True)
    net = nn.Sequential(nn.Conv2d(1, 24, (8, 4), stride=(4, 2), padding=(3, 1)), nn.BatchNorm2d(24), nn.ReLU(),
                        ds_block(24), ds_block(24),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, N_WORDS))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    crit = nn.CrossEntropyLoss()
    for ep in range(EPOCHS):
        t0, right, seen, tot = time.time(), 0, 0, 0.0
        for mel, lab in loader:
            out = net(mel[:, None])
            loss = crit(out, lab)
            opt.zero_grad(); loss.backward(); opt.step()
            right += (out.argmax(1) == lab).sum().item(); seen += len(lab); tot += loss.item() * len(lab)
        print('ep %d  loss %.3f  acc %.3f  (%.1fs)' % (ep, tot / seen, right / seen, time.time() - t0))


if __name__ == '__main__':
    main()
