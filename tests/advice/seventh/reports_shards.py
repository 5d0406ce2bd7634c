"""Topic classifier over incident reports kept as JSON-lines shards on the object store."""

import hashlib
import json
import os
import random
import re
import tempfile
import time
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = int(os.environ.get("EPOCHS", 3))
BUCKETS = 8192
MAX_TOKENS = 48
TOPICS = ["power", "water", "road", "rail", "telecom"]
# one shard a month
SHARD_SIZES = [90, 140, 60, 60, 1500, 100, 80, 60, 220, 90, 50, 60]
READ_LATENCY = 0.0035  # one ranged GET; where the lines begin is in the shard's index

torch.set_num_threads(1)
WORD = re.compile(r"[a-z]+")


def write_shards(root):
    rng = random.Random(6)
    vocabulary = {t: [f"{t}{chr(97 + i)}{chr(97 + j)}" for i in range(8) for j in range(8)] for t in TOPICS}
    common = [f"word{chr(97 + i)}{chr(97 + j)}" for i in range(26) for j in range(26)]
    for number, size in enumerate(SHARD_SIZES):
        with open(os.path.join(root, f"month-{number:02d}.jsonl"), "w") as out:
            for _ in range(size):
                topic = rng.choice(TOPICS)
                words = rng.choices(common, k=rng.randint(20, 70)) + rng.choices(vocabulary[topic], k=6)
                rng.shuffle(words)
                out.write(json.dumps({"topic": topic, "text": " ".join(words).capitalize() + "."}) + "\n")


def ranged_lines(path):
    with open(path) as f:
        for line in f:
            time.sleep(READ_LATENCY)
            yield line


def tokens(text):
    words = WORD.findall(text.lower())[:MAX_TOKENS]
    ids = [
        int.from_bytes(hashlib.blake2b(w.encode(), digest_size=4).digest(), "little") % (BUCKETS - 1) + 1 for w in words
    ]
    return ids + [0] * (MAX_TOKENS - len(ids))


class Reports(IterableDataset):
    def __init__(self, root, shuffle_window=128):
        self.shards = [os.path.join(root, name) for name in sorted(os.listdir(root))]
        self.window = shuffle_window

    def records(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for shard in self.shards[worker::workers]:
            yield from ranged_lines(shard)

    def shuffled(self, lines):
        held = list(islice(lines, self.window))
        for line in lines:
            spot = random.randrange(len(held))
            held[spot], line = line, held[spot]
            yield line
        random.shuffle(held)
        yield from held

    def __iter__(self):
        for line in self.shuffled(self.records()):
            report = json.loads(line)
            yield torch.tensor(tokens(report["text"])), TOPICS.index(report["topic"])


class Classifier(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.table = nn.Embedding(BUCKETS, width, padding_idx=0)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, len(TOPICS))

    def forward(self, ids):
        x = torch.relu(self.conv(self.table(ids).transpose(1, 2)))
        return self.out(x.amax(2))


def main():
    torch.manual_seed(3)
    random.seed(3)
    with tempfile.TemporaryDirectory(prefix="reports_") as root:
        write_shards(root)
        loader = DataLoader(Reports(root), batch_size=32, num_workers=4, persistent_workers=True)
        model = Classifier()
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        for epoch in range(EPOCHS):
            right = seen = 0
            total = 0.0
            for ids, topic in loader:
                logits = model(ids)
                loss = nn.functional.cross_entropy(logits, topic)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(topic)
                right += (logits.argmax(1) == topic).sum().item()
                seen += len(topic)
            print(f"epoch {epoch}: {seen} reports, loss {total / seen:.4f}, accuracy {right / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
