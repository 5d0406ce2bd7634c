"""Accelerate: a loader of torch's that `prepare` makes anew, on one process or several.

https://huggingface.co/docs/accelerate/basic_tutorials/migration
With `dispatch`, the main process reads all batches and hands them to the others:
https://huggingface.co/docs/accelerate/package_reference/utilities#accelerate.utils.DataLoaderConfiguration
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from loops import longer, small
from PIL import Image
from torchvision.transforms import v2


class Images(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*/*.jpg"))
        self.classes = sorted({file.parent.name for file in self.files})
        self.transform = v2.Compose(
            [
                v2.ToImage(),
                v2.RandomResizedCrop(128),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
            ]
        )

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file = self.files[index]
        image = Image.open(file).convert("RGB")
        return self.transform(image), self.classes.index(file.parent.name)


if __name__ == "__main__":
    set_seed(7)
    settings = DataLoaderConfiguration(dispatch_batches=True if "dispatch" in sys.argv[2:] else None)
    accelerator = Accelerator(cpu=True, dataloader_config=settings)
    model = small(3)
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(Images(Path(sys.argv[1]) / "images" / "train"), 8, shuffle=True, num_workers=2)
    model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
    for epoch in range(longer(2)):
        for pixels, classes in loader:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(pixels), classes)
            accelerator.backward(loss)
            optimiser.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.6f}")
    accelerator.end_training()
