"""Word-level language model of short cooking instructions."""
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = int(os.environ.get("EPOCHS", 6))
LINES, CONTEXT = 9000, 48
VERBS = "chop slice fry boil simmer whisk fold bake grill season drain rinse knead roast".split()
FOODS = "onion carrot egg flour butter tomato rice bean garlic chicken lemon basil milk potato".split()
HOWS = "gently quickly until golden until soft with salt in oil for ten minutes over low heat".split()


def write_corpus(seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(LINES):
        verb, food, extra = rng.integers(0, 14, 3)
        hows = [HOWS[i] for i in rng.integers(0, len(HOWS), 4)]
        lines.append(["<s>", VERBS[verb], "the", FOODS[food], *hows, "then", VERBS[extra], "it", "."])
    return lines


class TokenBlocks(Dataset):
    """The corpus as one token tensor, cut into blocks of fixed length."""

    def __init__(self, lines, vocabulary, stride):
        ids = [vocabulary[word] for line in lines for word in line]
        self.tokens = torch.tensor(ids, dtype=torch.long)
        self.stride = stride

    def __len__(self):
        return (len(self.tokens) - CONTEXT - 1) // self.stride

    def __getitem__(self, index):
        block = self.tokens[index * self.stride:index * self.stride + CONTEXT + 1]
        return block[:-1], block[1:]


class RecipeLM(nn.Module):
    def __init__(self, words, dim=128, heads=4, depth=2):
        super().__init__()
        self.word = nn.Embedding(words, dim)
        nn.init.normal_(self.word.weight, std=0.02)
        self.place = nn.Parameter(torch.randn(CONTEXT, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, tokens):
        hidden = self.word(tokens) + self.place
        hidden = self.blocks(hidden, mask=self.mask, is_causal=True)
        return self.norm(hidden) @ self.word.weight.T


@torch.no_grad()
def perplexity(model, loader):
    model.eval()
    losses = [nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in loader]
    return torch.stack(losses).mean().exp().item()


def main():
    torch.manual_seed(4)
    lines = write_corpus()
    vocabulary = {word: i for i, word in enumerate(sorted({w for line in lines for w in line}))}
    held_out = len(lines) // 20
    train_set = TokenBlocks(lines[held_out:], vocabulary, stride=CONTEXT)
    valid_set = TokenBlocks(lines[:held_out], vocabulary, stride=CONTEXT)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, drop_last=True,
                              num_workers=1, persistent_workers=True)
    valid_loader = DataLoader(valid_set, batch_size=64)

    model = RecipeLM(len(vocabulary))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        total = torch.zeros(())
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch + 1}: loss {total.item() / len(train_loader):.3f} "
              f"valid perplexity {perplexity(model, valid_loader):.2f}", flush=True)


if __name__ == "__main__":
    main()
