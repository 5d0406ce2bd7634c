"""Line recogniser (CNN + GRU + CTC) for scanned meter readings.

The scanning service delivers each job as one zip of line crops together with
a manifest; we train straight from the delivery.
"""

import io
import json
import os
import random
import tempfile
import zipfile

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 3))
ALPHABET = "0123456789.-"
HEIGHT, WIDTH = 32, 160
N_TRAIN, N_VALID = 1100, 120

torch.set_num_threads(1)


def make_delivery(path, count, seed):
    rng = random.Random(seed)
    manifest = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for number in range(count):
            text = "".join(rng.choice(ALPHABET) for _ in range(rng.randint(5, 9)))
            page = Image.new("L", (WIDTH + rng.randint(-20, 20), HEIGHT), rng.randint(190, 255))
            ImageDraw.Draw(page).text((rng.randint(4, 20), rng.randint(6, 14)), text, fill=rng.randint(0, 80))
            buffer = io.BytesIO()
            page.save(buffer, "PNG")
            name = f"lines/{number:05d}.png"
            bundle.writestr(name, buffer.getvalue())
            manifest[name] = text
        bundle.writestr("manifest.json", json.dumps(manifest))


def read_member(archive, name):
    with zipfile.ZipFile(archive) as bundle:
        return bundle.read(name)


class LineDataset(Dataset):
    def __init__(self, archive, train):
        self.archive = archive
        self.train = train
        manifest = json.loads(read_member(archive, "manifest.json"))
        self.items = sorted(manifest.items())

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        name, text = self.items[index]
        line = Image.open(io.BytesIO(read_member(self.archive, name)))
        if self.train:
            line = line.rotate(random.uniform(-1.5, 1.5), Image.BILINEAR, fillcolor=220)
        line = line.resize((WIDTH, HEIGHT), Image.BILINEAR)
        pixels = np.asarray(line, dtype=np.float32) / 127.5 - 1.0
        if self.train:
            pixels = pixels * random.uniform(0.8, 1.1) + random.uniform(-0.1, 0.1)
        target = torch.tensor([ALPHABET.index(c) + 1 for c in text])
        return torch.from_numpy(pixels)[None], target


def collate(batch):
    images = torch.stack([image for image, _ in batch])
    lengths = torch.tensor([len(target) for _, target in batch])
    return images, torch.cat([target for _, target in batch]), lengths


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=(2, 2), padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 32, 3, stride=(2, 1), padding=1),
            nn.ReLU(),
        )
        self.rnn = nn.GRU(32 * 4, 48, bidirectional=True, batch_first=True)
        self.head = nn.Linear(96, len(ALPHABET) + 1)

    def forward(self, images):
        maps = self.features(images)
        columns = maps.flatten(1, 2).transpose(1, 2)
        return self.head(self.rnn(columns)[0]).log_softmax(-1).transpose(0, 1)


def ctc(criterion, model, images, targets, lengths):
    logits = model(images)
    steps = torch.full((images.shape[0],), logits.shape[0])
    return criterion(logits, targets, steps, lengths)


def main():
    random.seed(11)
    torch.manual_seed(11)
    with tempfile.TemporaryDirectory(prefix="ocr_") as folder:
        train_zip = os.path.join(folder, "job-0417.zip")
        valid_zip = os.path.join(folder, "job-0418.zip")
        make_delivery(train_zip, N_TRAIN, 1)
        make_delivery(valid_zip, N_VALID, 2)

        train_loader = DataLoader(
            LineDataset(train_zip, True),
            batch_size=32,
            shuffle=True,
            drop_last=True,
            num_workers=2,
            persistent_workers=True,
            collate_fn=collate,
        )
        valid_loader = DataLoader(
            LineDataset(valid_zip, False), batch_size=60, num_workers=1, persistent_workers=True, collate_fn=collate
        )
        model = Recogniser()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
        criterion = nn.CTCLoss(zero_infinity=True)

        for epoch in range(EPOCHS):
            model.train()
            total = 0.0
            for images, targets, lengths in train_loader:
                loss = ctc(criterion, model, images, targets, lengths)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                total += loss.item()
            schedule.step()
            model.eval()
            with torch.no_grad():
                valid = sum(ctc(criterion, model, *batch).item() for batch in valid_loader) / len(valid_loader)
            print(f"epoch {epoch}: ctc {total / len(train_loader):.3f}, valid {valid:.3f}", flush=True)


if __name__ == "__main__":
    main()
