"""Reads shards through WebDataset and WebLoader with the start method named, and prints what came."""

import sys
import warnings

import torch
import webdataset as wds


def upper(text):
    return text.upper()


if __name__ == "__main__":
    method, *shards = sys.argv[1:]
    torch.manual_seed(0)
    dataset = wds.WebDataset(shards, shardshuffle=2, seed=1).shuffle(4, seed=2).decode().to_tuple("txt", "cls")
    loader = wds.WebLoader(
        dataset.map_tuple(upper, abs).batched(3), batch_size=None, num_workers=2, multiprocessing_context=method
    )
    for texts, numbers in loader:
        print(texts, numbers.tolist())
    print(loader.pipeline[0].worker_init_fn)
