"""Albumentations: images read by OpenCV, as in the example of cats and dogs, with two loaders.

https://albumentations.ai/docs/examples/pytorch-classification/
"""

import sys
from pathlib import Path

import albumentations as A
import cv2
import torch
from albumentations.pytorch import ToTensorV2
from loops import longer
from torch.utils.data import DataLoader, Dataset


class CatsVsDogsDataset(Dataset):
    def __init__(self, images_filepaths, transform=None):
        self.images_filepaths = images_filepaths
        self.transform = transform

    def __len__(self):
        return len(self.images_filepaths)

    def __getitem__(self, idx):
        image_filepath = self.images_filepaths[idx]
        image = cv2.imread(image_filepath)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        label = 1.0 if Path(image_filepath).parent.name in "ab" else 0.0
        if self.transform is not None:
            image = self.transform(image=image)["image"]
        return image, label


def train(loader, model, optimizer):
    for images, target in loader:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(images), target.float().view(-1, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def validate(loader, model):
    with torch.no_grad():
        return sum(((model(images) > 0).view(-1) == target).sum().item() for images, target in loader)


if __name__ == "__main__":
    torch.manual_seed(7)
    cv2.setNumThreads(0)
    folder = Path(sys.argv[1]) / "images"
    files = {split: sorted(map(str, (folder / split).rglob("*.jpg"))) for split in ("train", "val")}
    steps = A.Compose(
        [
            A.SmallestMaxSize(max_size=160),
            A.Affine(translate_percent=0.05, scale=(0.95, 1.05), rotate=(-15, 15), p=0.5),
            A.RandomCrop(height=128, width=128), A.RGBShift(p=0.5), A.RandomBrightnessContrast(p=0.5), A.Normalize(),
            ToTensorV2(),
        ],
        seed=7,
    )  # fmt: skip
    final = A.Compose([A.SmallestMaxSize(max_size=160), A.CenterCrop(128, 128), A.Normalize(), ToTensorV2()])
    train_loader = DataLoader(CatsVsDogsDataset(files["train"], steps), batch_size=8, shuffle=True, num_workers=2)
    val_loader = DataLoader(CatsVsDogsDataset(files["val"], final), batch_size=8, num_workers=2)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(longer(3)):
        print(f"epoch {epoch}: loss {train(train_loader, model, optimizer):.6f}, right {validate(val_loader, model)}")
