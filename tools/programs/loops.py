"""The training loop of the programs here whose package has none of its own, and how long all of them train."""

import os

import torch


def longer(epochs):
    """So many epochs, times `TIMES_AS_LONG` of the environment (1 without it)."""
    return epochs * int(os.environ.get("TIMES_AS_LONG", "1"))


def small(channels):
    return torch.nn.Sequential(torch.nn.Conv2d(channels, 16, 3, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


def train(loader, model, epochs, parts=lambda batch: batch):
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(longer(epochs)):
        for batch in loader:
            inputs, classes = parts(batch)
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), classes)
            loss.backward()
            optimiser.step()
        print(f"epoch {epoch}: loss {loss.item():.6f}")
