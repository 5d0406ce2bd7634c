"""Species classifier for camera-trap pictures streamed out of tar shards."""
import glob
import io
import itertools
import os
import random
import tarfile
import tempfile
import time

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 5))
DATA = os.path.join(os.environ.get("DATA_DIR", tempfile.gettempdir()), "camera_trap_stream")
N_SHARDS = 12
PER_SHARD = 120
N_SPECIES = 10
BATCH = 16
STEPS_PER_EPOCH = 24
SHUFFLE_BUFFER = 500

cv2.setNumThreads(0)


def write_shards():
    if os.path.exists(os.path.join(DATA, "DONE")):
        return
    os.makedirs(DATA, exist_ok=True)
    rng = np.random.default_rng(8)
    for shard in range(N_SHARDS):
        with tarfile.open(os.path.join(DATA, f"traps-{shard:04d}.tar"), "w") as tar:
            for n in range(PER_SHARD):
                species = int(rng.integers(N_SPECIES))
                small = rng.integers(30, 200, (60, 80, 3), dtype=np.uint8)
                frame = cv2.resize(small, (960, 720), interpolation=cv2.INTER_LINEAR)
                cx, cy = rng.integers(150, 570, 2)
                cv2.circle(frame, (int(cx), int(cy)), 40 + 10 * species, (20 * species, 90, 160), -1)
                payload = cv2.imencode(".jpg", frame)[1].tobytes()
                info = tarfile.TarInfo(f"{shard:04d}_{n:05d}.{species}.jpg")
                info.size = len(payload)
                tar.addfile(info, io.BytesIO(payload))
    open(os.path.join(DATA, "DONE"), "w").close()


def read_members(shards):
    for shard in shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                yield member.name, tar.extractfile(member).read()


def decode(sample):
    name, payload = sample
    frame = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR)
    frame = cv2.resize(frame, (128, 96), interpolation=cv2.INTER_AREA)
    image = torch.from_numpy(frame).permute(2, 0, 1).float().div_(255.0)
    return image, int(name.split(".")[1])


def shuffled(stream, size, rng):
    pool = []
    for item in stream:
        if len(pool) < size:
            pool.append(item)
            continue
        k = rng.randrange(size)
        out, pool[k] = pool[k], item
        yield out
    rng.shuffle(pool)
    yield from pool


class TrapStream(IterableDataset):
    def __init__(self, pattern, samples_per_epoch):
        self.shards = sorted(glob.glob(pattern))
        self.samples_per_epoch = samples_per_epoch
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        rank, world = (info.id, info.num_workers) if info else (0, 1)
        shards = list(self.shards)
        random.Random(self.epoch).shuffle(shards)
        stream = read_members(shards[rank::world])
        stream = map(decode, stream)
        stream = shuffled(stream, SHUFFLE_BUFFER, random.Random(1000 * self.epoch + rank))
        return itertools.islice(stream, self.samples_per_epoch // world)


def make_model():
    layers, cin = [], 3
    for cout in (24, 48, 64):
        layers += [nn.Conv2d(cin, cout, 3, stride=2, padding=1), nn.BatchNorm2d(cout), nn.ReLU()]
        layers += [nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU()]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, N_SPECIES))


def main():
    torch.manual_seed(4)
    write_shards()
    dataset = TrapStream(os.path.join(DATA, "traps-*.tar"), STEPS_PER_EPOCH * BATCH)
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=2)
    model = make_model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        dataset.epoch = epoch
        tic, losses = time.time(), []
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} steps {len(losses)} loss {np.mean(losses):.4f} time {time.time() - tic:.1f}", flush=True)


if __name__ == "__main__":
    main()
