"""Trains with Lightning, which seeds the workers; prints a digest of every batch, the weights and the generators."""

import argparse
import hashlib
import logging
import warnings

import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder
from train import Grain, Printed, state

warnings.filterwarnings("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 2))
        self.printed = Printed()

    def training_step(self, batch, number):
        images, labels = batch
        self.printed.add(images, labels)
        return torch.nn.functional.cross_entropy(self.model(images), labels)

    def validation_step(self, batch, number):
        self.printed.add(*batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("method")
    parser.add_argument("--persistent", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lightning.seed_everything(7, workers=True, verbose=False)
    steps = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), Grain(), transforms.ToTensor()]
    dataset = ImageFolder(args.folder, transforms.Compose(steps))
    workers = 0 if args.method == "none" else 2
    how = {
        "num_workers": workers,
        "multiprocessing_context": args.method if workers else None,
        "persistent_workers": bool(workers) and args.persistent,
    }
    train, check = DataLoader(dataset, 4, shuffle=True, **how), DataLoader(dataset, 8, **how)
    model = Model()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", num_sanity_val_steps=0, enable_model_summary=False, **quiet
    )
    trainer.fit(model, train, check)
    model.printed.add(*model.parameters())
    inits = [getattr(loader.worker_init_fn, "func", loader.worker_init_fn) for loader in (train, check)]
    model.printed.say([getattr(init, "__name__", init) for init in inits])
    model.printed.say(state())


if __name__ == "__main__":
    main()
