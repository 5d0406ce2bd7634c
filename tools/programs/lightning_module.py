"""Lightning: a LightningDataModule whose loaders are made anew for each epoch, and `fast_dev_run`.

https://lightning.ai/docs/pytorch/stable/data/datamodule.html
"""

import logging
import sys
from pathlib import Path

import lightning
import torch
from loops import longer
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

STEPS = transforms.Compose([transforms.RandomResizedCrop(96), transforms.RandomHorizontalFlip(), transforms.ToTensor()])


class Images(lightning.LightningDataModule):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def setup(self, stage):
        self.train = ImageFolder(str(self.folder / "train"), STEPS)
        self.val = ImageFolder(str(self.folder / "val"), STEPS)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=8, shuffle=True, num_workers=2)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=8, num_workers=2)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 4)
        )

    def training_step(self, batch, _):
        images, classes = batch
        return torch.nn.functional.cross_entropy(self.net(images), classes)

    def validation_step(self, batch, number):
        self.log("val_loss", self.training_step(batch, number))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(7, workers=True, verbose=False)
    trainer = lightning.Trainer(
        max_epochs=longer(3), accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, reload_dataloaders_every_n_epochs=1, fast_dev_run="fast" in sys.argv,
    )  # fmt: skip
    trainer.fit(Classifier(), datamodule=Images(Path(sys.argv[1]) / "images"))
    print(trainer.callback_metrics)
