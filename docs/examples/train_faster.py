"""`train.py` with two changes: only the crop of each JPEG is decoded, and it becomes float after it is small."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from pipebench import RandomResizedCropFromBytes

TRANSFORM = v2.Compose(
    [
        RandomResizedCropFromBytes(112),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ]
)


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def dataset(folder: str) -> ImageFolder:
    return ImageFolder(folder, transform=TRANSFORM, loader=read_bytes)


def small_cnn(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in [(3, 16), (16, 32), (32, 64), (64, 64)]:
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core is the worker's
    images = dataset(chosen.folder)
    loader = DataLoader(images, chosen.batch_size, shuffle=True, num_workers=chosen.workers)
    model = small_cnn(len(images.classes))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(chosen.epochs):
        begin, total, right = time.perf_counter(), 0.0, 0
        for pixels, labels in loader:
            optimiser.zero_grad()
            outputs = model(pixels)
            loss = criterion(outputs, labels)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(labels)
            right += int((outputs.argmax(1) == labels).sum())
        seconds = time.perf_counter() - begin
        print(
            f"epoch {epoch}: loss {total / len(images):.3f}, accuracy {right / len(images):.1%}, "
            f"{seconds:.1f} s, {len(images) / seconds:.0f} images/s"
        )


if __name__ == "__main__":
    main()
