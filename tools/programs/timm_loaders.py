"""timm: its datasets, transforms and loaders for training and validation.

https://huggingface.co/docs/timm/reference/data
"""

import sys
from pathlib import Path

import torch
from loops import longer
from timm import create_model
from timm.data import create_dataset, create_loader
from timm.optim import create_optimizer_v2
from timm.utils import random_seed

if __name__ == "__main__":
    random_seed(7)
    folder = str(Path(sys.argv[1]) / "images")
    size = {"input_size": (3, 64, 64), "batch_size": 8, "num_workers": 2, "device": torch.device("cpu")}
    training = create_loader(
        create_dataset("", folder, split="train"), is_training=True, auto_augment="rand-m9-mstd0.5", **size
    )
    validation = create_loader(create_dataset("", folder, split="val"), is_training=False, **size)
    model = create_model("test_vit", num_classes=4, img_size=64)
    optimiser = create_optimizer_v2(model, "adamw", lr=1e-3)
    for epoch in range(longer(2)):
        model.train()
        for images, classes in training:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), classes)
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(images).argmax(1) == classes).sum().item() for images, classes in validation)
        print(f"epoch {epoch}: loss {loss.item():.6f}, right {right}")
