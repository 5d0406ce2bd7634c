"""The reference pipeline: a Dataset, its DataLoader and a training loop made of the lab's own variants."""
