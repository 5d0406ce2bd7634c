#!/usr/bin/env python
"""Speaker identification on short podcast clips kept in an object store.

The bucket is served by a stand-in on localhost, so that the script runs anywhere.
"""
import argparse
import http.server
import multiprocessing as mp
import time
import urllib.request
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
BUCKET = HERE / "data" / "podcasts"
RATE = 8000
SPEAKERS = 8
CLIPS = 320
ROUND_TRIP = 0.040  # seconds to the region of the bucket


def synthesise(folder):
    if (folder / "labels.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    t = np.arange(RATE) / RATE
    labels = rng.integers(0, SPEAKERS, CLIPS)
    clips = np.empty((CLIPS, RATE), np.int16)
    for i, who in enumerate(labels):
        pitch = 90 + 22 * who + rng.normal(0, 4)
        wave = sum(np.sin(2 * np.pi * k * pitch * t + rng.uniform(0, 6)) / (1 + abs(k - 2 - who % 4)) for k in range(1, 9))
        wave = wave * (0.6 + 0.4 * np.sin(2 * np.pi * rng.uniform(2, 5) * t)) + rng.normal(0, 0.6, RATE)
        clips[i] = wave / np.abs(wave).max() * 30000
    np.save(folder / "clips.npy", clips)
    np.save(folder / "labels.npy", labels)


def serve(folder, pipe):
    clips = np.load(folder / "clips.npy")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(ROUND_TRIP)
            body = clips[int(self.path.rsplit("/", 1)[1])].tobytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


class BucketClips(Dataset):
    def __init__(self, url, labels):
        self.url = url
        self.labels = torch.from_numpy(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        with urllib.request.urlopen(f"{self.url}/clips/{i}") as reply:
            raw = bytearray(reply.read())
        wave = torch.frombuffer(raw, dtype=torch.int16).float() / 32768
        return wave, self.labels[i]


class SpeakerNet(nn.Module):
    def __init__(self, n_fft=256, width=48):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.body = nn.Sequential(
            nn.Conv1d(n_fft // 2 + 1, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, SPEAKERS)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, 128, window=self.window, return_complex=True).abs()
        return self.head(self.body(torch.log1p(10 * spec)).mean(-1))


def train(args, url):
    torch.manual_seed(args.seed)
    dataset = BucketClips(url, np.load(BUCKET / "labels.npy"))
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=2)
    net = SpeakerNet()
    optim = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        tic = time.time()
        running, right = torch.zeros(()), torch.zeros(())
        for wave, who in loader:
            out = net(wave)
            loss = loss_fn(out, who)
            optim.zero_grad()
            loss.backward()
            optim.step()
            running += loss.detach()
            right += (out.argmax(1) == who).sum()
        print(f"[{epoch + 1}/{args.epochs}] loss={running.item() / len(loader):.4f} "
              f"acc={right.item() / len(dataset):.3f} ({time.time() - tic:.2f} s)", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    opts = parser.parse_args()
    synthesise(BUCKET)
    here, there = mp.Pipe()
    bucket = mp.Process(target=serve, args=(BUCKET, there), daemon=True)
    bucket.start()
    try:
        train(opts, f"http://127.0.0.1:{here.recv()}")
    finally:
        bucket.terminate()
