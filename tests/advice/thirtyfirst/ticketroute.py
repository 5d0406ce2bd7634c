"""Route support tickets to queues: bag of normalised words, a module with hooks and a small Trainer."""
import argparse
import json
import os
import random
import re

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

QUEUES = ["billing", "delivery", "returns", "technical", "account"]
TICKETS = 4000
LEXICON = 150_000
BUCKETS = 8192
TOKEN = re.compile(r"[a-z]+")
LETTERS = "etaoinshrdlucmfwyp"


def make_word(rng):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(4, 10)))


def make_data(root):
    if os.path.exists(os.path.join(root, "tickets.jsonl")):
        return
    os.makedirs(root, exist_ok=True)
    rng = random.Random(13)
    words = [make_word(rng) for _ in range(LEXICON)]
    with open(os.path.join(root, "lexicon.jsonl"), "w") as out:
        for i, word in enumerate(words):
            typos = [word[:k] + word[k + 1:] for k in sorted(rng.sample(range(len(word)), 2))]
            out.write(json.dumps({"lemma": word, "forms": [word + "s", word + "ed"], "typos": typos}) + "\n")
    topics = [rng.sample(words, 200) for _ in QUEUES]
    common = rng.sample(words, 3000)
    with open(os.path.join(root, "tickets.jsonl.part"), "w") as out:
        for _ in range(TICKETS):
            queue = rng.randrange(len(QUEUES))
            text = []
            for _ in range(rng.randint(30, 60)):
                word = rng.choice(topics[queue] if rng.random() < 0.12 else common)
                draw = rng.random()
                text.append(word + "s" if draw < 0.2 else word[1:] if draw < 0.3 else word)
            out.write(json.dumps({"queue": QUEUES[queue], "text": " ".join(text)}) + "\n")
    os.rename(os.path.join(root, "tickets.jsonl.part"), os.path.join(root, "tickets.jsonl"))


class Lexicon:
    """Maps inflected and misspelt forms to their lemma."""

    def __init__(self, path):
        self.lemma_of = {}
        with open(path) as lines:
            for line in lines:
                entry = json.loads(line)
                for form in entry["forms"] + entry["typos"]:
                    self.lemma_of.setdefault(form, entry["lemma"])
                self.lemma_of[entry["lemma"]] = entry["lemma"]

    def normalise(self, text):
        return [self.lemma_of.get(word, word) for word in TOKEN.findall(text.lower())]


def bucket(word):
    value = 2166136261
    for char in word.encode():
        value = ((value ^ char) * 16777619) & 0xFFFFFFFF
    return value % BUCKETS


class TicketDataset(Dataset):
    def __init__(self, root):
        self.lexicon_path = os.path.join(root, "lexicon.jsonl")
        with open(os.path.join(root, "tickets.jsonl")) as lines:
            self.tickets = [json.loads(line) for line in lines]
        self.lexicon = None

    def prepare(self):
        if self.lexicon is None:
            self.lexicon = Lexicon(self.lexicon_path)

    def __len__(self):
        return len(self.tickets)

    def __getitem__(self, index):
        ticket = self.tickets[index]
        words = self.lexicon.normalise(ticket["text"])
        kept = [word for word in words if random.random() > 0.05] or words
        return [bucket(word) for word in kept], QUEUES.index(ticket["queue"])


def prepare_worker(worker_id):
    get_worker_info().dataset.prepare()


def collate(items):
    ids, offsets = [], []
    for words, _ in items:
        offsets.append(len(ids))
        ids.extend(words)
    return torch.tensor(ids), torch.tensor(offsets), torch.tensor([queue for _, queue in items])


class TicketModule(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.words = nn.EmbeddingBag(BUCKETS, 64, mode="mean")
        self.classify = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, len(QUEUES)))
        self.reset()

    def reset(self):
        self.loss_sum, self.right, self.seen = 0.0, 0, 0

    def train_dataloader(self):
        return DataLoader(
            TicketDataset(self.options.data), batch_size=64, shuffle=True, collate_fn=collate,
            num_workers=self.options.workers, worker_init_fn=prepare_worker,
        )

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.options.lr)

    def training_step(self, batch):
        ids, offsets, queue = batch
        logits = self.classify(self.words(ids, offsets))
        loss = F.cross_entropy(logits, queue)
        with torch.no_grad():
            self.right += (logits.argmax(1) == queue).sum().item()
            self.loss_sum += loss.item() * len(queue)
            self.seen += len(queue)
        return loss

    def on_train_epoch_end(self, epoch):
        print(f"epoch {epoch:2d}  loss {self.loss_sum / self.seen:.4f}  accuracy before the update "
              f"{self.right / self.seen:.4f}", flush=True)
        self.reset()


class Trainer:
    def __init__(self, max_epochs, checkpoint):
        self.max_epochs = max_epochs
        self.checkpoint = checkpoint

    def fit(self, module):
        loader = module.train_dataloader()
        optimizer = module.configure_optimizers()
        module.train()
        for epoch in range(1, self.max_epochs + 1):
            for batch in loader:
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            module.on_train_epoch_end(epoch)
        torch.save(module.state_dict(), self.checkpoint)


def cli():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/ticketroute")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    options = cli()
    make_data(options.data)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    Trainer(options.epochs, os.path.join(options.data, "ticketroute.ckpt")).fit(TicketModule(options))
