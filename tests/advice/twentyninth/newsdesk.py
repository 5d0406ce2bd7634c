#!/usr/bin/env python
"""Topic classifier for wire stories (JSON lines), small transformer encoder."""
import argparse
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CORPUS = Path(__file__).parent / "data" / "newsdesk"
WORD = re.compile(r"[a-z0-9']+")


@dataclass
class Arguments:
    epochs: int
    batch_size: int = 32
    max_length: int = 48
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    learning_rate: float = 1e-3
    warmup_steps: int = 50
    logging_steps: int = 50
    seed: int = 13
    topics: list = field(default_factory=lambda: ["world", "markets", "sport", "science", "culture"])


def write_corpus(folder, topics, n=4200, vocabulary=15000, seed=21):
    if (folder / "stories.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "ai", "or", "en")]
    words = np.array(sorted({"".join(rng.choice(syllables, rng.integers(2, 5))) for _ in range(2 * vocabulary)}))
    words = rng.permutation(words)[:vocabulary]
    common = 1.0 / (np.arange(len(words)) + 20.0)
    tilt = [common * np.exp(rng.normal(0, 0.5, len(words))) for _ in topics]
    tilt = [t / t.sum() for t in tilt]
    with open(folder / "stories.tmp", "w") as fh:
        for k in range(n):
            y = int(rng.integers(len(topics)))
            body = words[rng.choice(len(words), int(rng.integers(30, 70)), p=tilt[y])]
            title = " ".join(body[:6]).title()
            text = " ".join(body[6:]) + "."
            fh.write(json.dumps({"id": k, "topic": topics[y], "title": title, "body": text}) + "\n")
    (folder / "stories.tmp").rename(folder / "stories.jsonl")


def tokenize(story):
    return WORD.findall((story["title"] + " " + story["body"]).lower())


def build_vocab(documents):
    vocab = ["<pad>", "<unk>", "<cls>"]
    for tokens in documents:
        for token in tokens:
            if token not in vocab:
                vocab.append(token)
    return {token: i for i, token in enumerate(vocab)}


class Stories(Dataset):
    def __init__(self, documents, topics, vocab, max_length):
        self.ids = [[2] + [vocab.get(t, 1) for t in tokens][:max_length - 1] for tokens in documents]
        self.topics = topics

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i], self.topics[i]


def pad_batch(batch):
    ids, topics = zip(*batch)
    tensors = [torch.tensor(x) for x in ids]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True), torch.tensor(topics)


class TopicModel(nn.Module):
    def __init__(self, n_tokens, args):
        super().__init__()
        self.token = nn.Embedding(n_tokens, args.d_model, padding_idx=0)
        self.place = nn.Embedding(args.max_length, args.d_model)
        layer = nn.TransformerEncoderLayer(args.d_model, args.n_heads, 2 * args.d_model, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, args.n_layers, enable_nested_tensor=False)
        self.head = nn.Linear(args.d_model, len(args.topics))

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        x = self.encoder(x, src_key_padding_mask=ids == 0)
        return self.head(x[:, 0])


def load_stories(path, topics):
    stories = [json.loads(line) for line in open(path)]
    return [tokenize(s) for s in stories], [topics.index(s["topic"]) for s in stories]


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        documents, topics = load_stories(CORPUS / "stories.jsonl", args.topics)
        cut = int(0.9 * len(documents))
        vocab = build_vocab(documents[:cut])
        self.train_data = Stories(documents[:cut], topics[:cut], vocab, args.max_length)
        self.test_data = Stories(documents[cut:], topics[cut:], vocab, args.max_length)
        self.model = TopicModel(len(vocab), args)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / args.warmup_steps))
        print(f"{len(self.train_data)} stories, {len(vocab)} tokens")

    def train(self):
        loader = DataLoader(self.train_data, self.args.batch_size, shuffle=True, collate_fn=pad_batch)
        step = 0
        for epoch in range(self.args.epochs):
            self.model.train()
            running = 0.0
            for ids, topics in loader:
                loss = nn.functional.cross_entropy(self.model(ids), topics)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.scheduler.step()
                running += loss.item()
                step += 1
                if step % self.args.logging_steps == 0:
                    print(json.dumps({"step": step, "loss": round(loss.item(), 4)}))
            print(json.dumps({"epoch": epoch, "train_loss": round(running / len(loader), 5), **self.evaluate()}))

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        right = 0
        for ids, topics in DataLoader(self.test_data, 128, collate_fn=pad_batch):
            right += (self.model(ids).argmax(1) == topics).sum().item()
        return {"test_accuracy": round(right / len(self.test_data), 4)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    cli = parser.parse_args()
    args = Arguments(epochs=cli.epochs)
    write_corpus(CORPUS, args.topics)
    Trainer(args).train()


if __name__ == "__main__":
    main()
