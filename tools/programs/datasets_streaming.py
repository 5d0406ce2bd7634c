"""datasets: a streamed dataset with map, filter and shuffle, as in https://huggingface.co/docs/datasets/stream."""

import sys
from pathlib import Path

import torch
from loops import train
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader

from datasets import load_dataset

FOLDER = Path(sys.argv[1]) / "sentences"
WORDS = ["[UNK]", *(FOLDER / "words.txt").read_text().split()]
TOKENISER = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
TOKENISER.pre_tokenizer = pre_tokenizers.Whitespace()
TOKENISER.enable_truncation(32)


def tokenise(one):
    return {"input_ids": TOKENISER.encode(one["text"]).ids, "label": one["label"]}


def long_enough(one):
    return len(one["input_ids"]) >= 32


if __name__ == "__main__":
    torch.manual_seed(7)
    files = [str(FOLDER / "lines.jsonl")] * 2  # one for each worker
    lines = load_dataset("json", data_files=files, split="train", streaming=True, cache_dir="cache")
    lines = lines.map(tokenise, remove_columns="text").filter(long_enough).shuffle(seed=7, buffer_size=64)
    loader = DataLoader(lines.with_format("torch"), batch_size=8, num_workers=2)
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(len(WORDS), 32), torch.nn.Linear(32, 2))
    train(loader, model, 2, lambda batch: (batch["input_ids"], batch["label"]))
