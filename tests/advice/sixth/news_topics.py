"""Topic classification of news items with a WordPiece-style tokenizer."""

import json
import os
import random
import tempfile

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

TOPICS = ["sport", "politics", "economy", "culture", "science"]
SYLLABLES = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]


def make_corpus(folder, articles=2000, vocabulary=150000):
    rnd = random.Random(7)
    words = ["".join(rnd.choices(SYLLABLES, k=rnd.randint(1, 5))) for _ in range(vocabulary)]
    pieces = sorted(set(words[: vocabulary * 3 // 4]) | set(SYLLABLES) | set("abcdefghijklmnopqrstuvwxyz"))
    with open(os.path.join(folder, "vocab.txt"), "w") as f:
        f.write("\n".join(pieces))
    with open(os.path.join(folder, "train.jsonl"), "w") as f:
        for _ in range(articles):
            topic = rnd.randrange(len(TOPICS))
            base = topic * 12000
            body = [words[min(int(rnd.expovariate(1 / 9000)) + base, vocabulary - 1)] for _ in range(100)]
            f.write(json.dumps({"text": " ".join(body), "topic": TOPICS[topic]}) + "\n")


class Tokenizer:
    """Greedy longest-match tokenizer on a character trie."""

    def __init__(self, vocab_file):
        self.trie = {}
        with open(vocab_file) as f:
            for number, piece in enumerate(f.read().split("\n"), start=2):
                node = self.trie
                for char in piece:
                    node = node.setdefault(char, {})
                node["#"] = number
        self.size = number + 1

    def encode(self, text, limit):
        ids = []
        for word in text.split():
            start = 0
            while start < len(word) and len(ids) < limit:
                node, best, end = self.trie, 1, start + 1
                for pos in range(start, len(word)):
                    node = node.get(word[pos])
                    if node is None:
                        break
                    if "#" in node:
                        best, end = node["#"], pos + 1
                ids.append(best)
                start = end
        return ids


class NewsDataset(Dataset):
    def __init__(self, folder, max_tokens=256):
        self.vocab_file = os.path.join(folder, "vocab.txt")
        self.max_tokens = max_tokens
        self.tokenizer = None
        with open(os.path.join(folder, "train.jsonl")) as f:
            self.items = [json.loads(line) for line in f]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        if self.tokenizer is None:
            self.tokenizer = Tokenizer(self.vocab_file)
        item = self.items[index]
        return {
            "input_ids": self.tokenizer.encode(item["text"].lower(), self.max_tokens),
            "label": TOPICS.index(item["topic"]),
        }


def collate_fn(features):
    ids = pad_sequence([torch.tensor(f["input_ids"]) for f in features], batch_first=True)
    return {"input_ids": ids, "labels": torch.tensor([f["label"] for f in features])}


class TopicModel(nn.Module):
    def __init__(self, size, dim=48):
        super().__init__()
        self.embed = nn.Embedding(size, dim, padding_idx=0, sparse=True)
        self.mix = nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, dim))
        self.out = nn.Linear(dim, len(TOPICS))

    def forward(self, input_ids):
        mask = (input_ids != 0).unsqueeze(-1)
        x = self.embed(input_ids).sum(1) / mask.sum(1)
        return self.out(x + self.mix(x))


def main(epochs):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(folder)
        train = NewsDataset(folder)
        loader = DataLoader(train, batch_size=64, shuffle=True, num_workers=2, collate_fn=collate_fn)
        with open(train.vocab_file) as f:
            model = TopicModel(sum(1 for _ in f) + 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        loss_fn = nn.CrossEntropyLoss()
        for epoch in range(epochs):
            total = right = 0
            for batch in loader:
                logits = model(batch["input_ids"])
                loss = loss_fn(logits, batch["labels"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += len(logits)
                right += int((logits.argmax(-1) == batch["labels"]).sum())
            print(f"epoch {epoch + 1}: train accuracy {right / total:.4f}", flush=True)


if __name__ == "__main__":
    main(int(os.environ.get("EPOCHS", "10")))
