# Topic classifier on the documents of a company archive, which other departments use as well.
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser("topics")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--bs", type=int, default=8, help="documents in a batch")
parser.add_argument("--num_workers", type=int, default=3)
parser.add_argument("--prefetch_factor", type=int, default=2)
parser.add_argument("--out_of_order", action="store_true", help="take batches as they come")
parser.add_argument("--max_tokens", type=int, default=128)
parser.add_argument("--seed", type=int, default=11)

VOCAB, TOPICS = 2000, 8
READ_SECONDS = 0.0045
CYCLE, AWAY = 1.9, 0.9  # seconds; the archive's server serves others for AWAY of each CYCLE


class Archive(Dataset):
    """The archive answers a request in a few milliseconds, when it answers."""

    def __init__(self, n_docs, max_tokens):
        self.n_docs = n_docs
        self.max_tokens = max_tokens

    def __len__(self):
        return self.n_docs

    def __getitem__(self, k):
        phase = time.time() % CYCLE
        if phase < AWAY:
            time.sleep(AWAY - phase)
        time.sleep(READ_SECONDS)
        g = torch.Generator().manual_seed(k)
        topic = k % TOPICS
        length = 20 + k % 100
        tokens = torch.randint(topic * 50, VOCAB, (length,), generator=g)
        return tokens[: self.max_tokens], topic


def pad(batch):
    tokens, topics = zip(*batch)
    return nn.utils.rnn.pad_sequence(tokens, batch_first=True), torch.tensor(topics)


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(VOCAB, 16)
        self.out = nn.Linear(16, TOPICS)

    def forward(self, tokens):
        return self.out(self.emb(tokens))


def main(args):
    torch.manual_seed(args.seed)
    kwargs = {}
    if args.num_workers > 0:
        kwargs.update(prefetch_factor=args.prefetch_factor, persistent_workers=True)
        if args.out_of_order:
            kwargs.update(in_order=False)
    loader = DataLoader(
        Archive(85 * args.bs, args.max_tokens),
        batch_size=args.bs,
        shuffle=True,
        collate_fn=pad,
        num_workers=args.num_workers,
        **kwargs,
    )
    model = BagOfWords()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2)
    began = time.time()
    step = 0
    for epoch in range(args.epochs):
        for tokens, topics in loader:
            loss = F.cross_entropy(model(tokens), topics)
            optim.zero_grad()
            loss.backward()
            optim.step()
            time.sleep(0.048)  # large model on the accelerator
            step += 1
            if step % 20 == 0:
                print("epoch", epoch, "step", step, "loss", round(loss.item(), 3), flush=True)
    print("trained for %.2f s" % (time.time() - began))


if __name__ == "__main__":
    main(parser.parse_args())
