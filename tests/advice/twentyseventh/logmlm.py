"""Masked-token pre-training of a small encoder on service logs (JSON lines)."""
import argparse
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).parent / "data" / "logmlm"
PAD, CLS, MASK, UNK = 0, 1, 2, 3


def make_data(root, n_train=960, n_valid=96):
    rng = random.Random(11)
    root.mkdir(parents=True, exist_ok=True)
    services = [f"svc-{i}" for i in range(40)]
    verbs = [f"op{i}" for i in range(160)]
    idents = [f"id{i:05d}" for i in range(3400)]
    templates = []
    for _ in range(120):
        templates.append([rng.choice(("S", "V", "V", "I", "W")) for _ in range(rng.randint(26, 38))])
    words = [f"w{i}" for i in range(400)]

    def line():
        t = rng.randrange(len(templates))
        svc = services[t % 40]
        base = rng.randrange(3300)
        out = []
        for k, kind in enumerate(templates[t]):
            if kind == "S":
                out.append(svc)
            elif kind == "V":
                out.append(verbs[(t * 7 + k) % 160])
            elif kind == "W":
                out.append(words[(t * 13 + k * 3) % 400])
            else:
                out.append(idents[base + rng.randrange(100)])
        return {"service": svc, "message": " ".join(out)}

    for split, n in (("train", n_train), ("valid", n_valid)):
        with open(root / f"{split}.jsonl", "w") as f:
            for _ in range(n):
                f.write(json.dumps(line()) + "\n")
    vocab = ["[PAD]", "[CLS]", "[MASK]", "[UNK]"] + services + verbs + words + idents
    (root / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(vocab)}))


class LogLines(Dataset):
    def __init__(self, path, vocab, max_length=64):
        self.rows = []
        with open(path) as f:
            for raw in f:
                words = json.loads(raw)["message"].split()
                ids = [CLS] + [vocab.get(w, UNK) for w in words]
                self.rows.append(torch.tensor(ids[:max_length]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@dataclass
class MaskingCollator:
    vocab_size: int
    prob: float = 0.15

    def __call__(self, rows):
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        labels = ids.clone()
        prob = torch.full(ids.shape, self.prob)
        prob[(ids == PAD) | (ids == CLS)] = 0.0
        chosen = torch.bernoulli(prob).bool()
        labels[~chosen] = -100
        dice = torch.rand(ids.shape)
        ids[chosen & (dice < 0.8)] = MASK
        swap = chosen & (dice >= 0.9)
        ids[swap] = torch.randint(4, self.vocab_size, ids.shape)[swap]
        return {"input_ids": ids, "attention_mask": ids != PAD, "labels": labels}


@dataclass
class EncoderConfig:
    vocab_size: int
    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 4
    max_positions: int = 64
    dropout: float = 0.1


class EncoderModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=PAD)
        self.position = nn.Embedding(config.max_positions, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.drop = nn.Dropout(config.dropout)
        layer = nn.TransformerEncoderLayer(
            config.hidden_size, config.num_heads, 4 * config.hidden_size,
            config.dropout, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, config.num_layers, enable_nested_tensor=False)

    def forward(self, input_ids, attention_mask):
        place = torch.arange(input_ids.shape[1])
        h = self.drop(self.norm(self.word(input_ids) + self.position(place)))
        return self.layers(h, src_key_padding_mask=~attention_mask)


class PredictionHead(nn.Module):
    def __init__(self, config, embedding):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.decoder.weight = embedding.weight

    def forward(self, h):
        return self.decoder(self.norm(F.gelu(self.dense(h))))


class EncoderForMaskedLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.encoder = EncoderModel(config)
        self.head = PredictionHead(config, self.encoder.word)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, input_ids, attention_mask, labels):
        hidden = self.encoder(input_ids, attention_mask)
        logits = self.head(hidden)
        loss = F.cross_entropy(logits.view(-1, self.config.vocab_size), labels.view(-1), ignore_index=-100)
        return loss


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, collator):
        self.model, self.args = model, args
        self.train_loader = DataLoader(train_dataset, args.batch_size, shuffle=True,
                                       collate_fn=collator, drop_last=True)
        self.eval_loader = DataLoader(eval_dataset, 16, collate_fn=collator)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
        total = args.epochs * len(self.train_loader)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, args.lr, total_steps=total)

    def training_step(self, batch):
        self.model.train()
        loss = self.model(**batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        losses = [self.model(**batch).item() for batch in self.eval_loader]
        return sum(losses) / len(losses)

    def train(self):
        for epoch in range(self.args.epochs):
            running = torch.zeros(())
            for batch in self.train_loader:
                running += self.training_step(batch)
            val = self.evaluate()
            print(f"epoch {epoch} loss {running.item() / len(self.train_loader):.4f} "
                  f"eval_loss {val:.4f} ppl {math.exp(val):.1f}", flush=True)
            torch.save(self.model.state_dict(), self.args.output / "model.pt")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--output", type=Path, default=ROOT / "out")
    args = p.parse_args()
    if not (ROOT / "vocab.json").exists():
        make_data(ROOT)
    args.output.mkdir(exist_ok=True)
    torch.manual_seed(0)
    vocab = json.loads((ROOT / "vocab.json").read_text())
    model = EncoderForMaskedLM(EncoderConfig(len(vocab)))
    Trainer(model, args, LogLines(ROOT / "train.jsonl", vocab), LogLines(ROOT / "valid.jsonl", vocab),
            MaskingCollator(len(vocab))).train()


if __name__ == "__main__":
    main()
