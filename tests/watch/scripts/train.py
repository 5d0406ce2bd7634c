"""Trains a little on an image folder, once for each start method named, and prints everything that must not change."""

import argparse
import hashlib
import multiprocessing
import random
import sys
import types
import warnings

import numpy as np
import torch
from PIL import Image
from torch.profiler import record_function
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.io import decode_image, read_file
from torchvision.transforms import v2

warnings.filterwarnings("ignore", message=".*torchcodec.*")


class Grain:
    """A transform of the script's own, with numpy's and Python's generators; it warns about its caller."""

    def __call__(self, image):
        warnings.warn("grain", stacklevel=2)
        pixels = np.asarray(image, dtype=np.int16) + np.random.randint(-3, 4, size=(1, 1, 3))
        return Image.fromarray(np.clip(pixels + random.randint(0, 2), 0, 255).astype(np.uint8))


def halve(tensor):
    return tensor / 2


class Tensors(Dataset):
    """Reads and decodes with torchvision, labels its own work, and keeps one plain function as its transform."""

    def __init__(self, folder):
        self.files = [path for path, _ in ImageFolder(folder).samples]
        self.transforms = v2.Compose(
            [v2.RandomCrop(32), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)]
        )
        self.transform = halve

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        data = decode_image(read_file(self.files[index]))
        with record_function("my label"):
            noise = torch.rand(())
        return self.transform(self.transforms(data)) + noise, index % 2


class Printed:
    """Gathers what must be the same in both runs."""

    def __init__(self):
        self.digest = hashlib.sha256()

    def add(self, *tensors):
        for tensor in tensors:
            self.digest.update(tensor.detach().numpy().tobytes())

    def say(self, *words):
        sys.stdout.write(" ".join(map(str, [*words, self.digest.hexdigest()])) + "\n")


def state():
    """The generators, as one number."""
    whole = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def train(args, method):
    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    printed = Printed()
    steps = transforms.Compose(
        [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), Grain(), transforms.ToTensor(), halve]
    )
    folder = ImageFolder(args.folder, steps, target_transform=int)
    dataset = ConcatDataset([Subset(folder, range(0, len(folder) - 4)), Subset(folder, range(4))])
    workers = 0 if method == "none" else 2
    how = {"num_workers": workers, "multiprocessing_context": None if method == "none" else method}
    loader = DataLoader(
        dataset, batch_size=4, shuffle=True, persistent_workers=bool(workers) and args.persistent, **how
    )
    check = DataLoader(Tensors(args.folder), batch_size=8, shuffle=True, **how)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.Flatten(), torch.nn.Linear(900, 2))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(args.epochs):
        for images, labels in loader:
            printed.add(images, labels)
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            for images, labels in check:
                printed.add(images, labels, model(images))
    printed.add(*model.parameters())
    printed.say(
        method, loader.worker_init_fn, check.worker_init_fn, type(dataset.datasets[0].dataset.transform).__name__
    )
    printed.say(state(), Tensors(args.folder).transform is halve, steps.transforms[-1] is halve)


def patched():
    """Every function of pipebench's that is left in a library or in this script, by whatever name; hooks; finders."""
    import gc

    found = [
        f"{name}.{key}"
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] != "pipebench"
        for key, value in _functions(module)
        if "pipebench/watch/" in str(value.__globals__.get("__file__")) or "<pipebench" in value.__code__.co_filename
    ]
    optimiser = sys.modules["torch.optim.optimizer"]
    hooks = [*optimiser._global_optimizer_pre_hooks, *optimiser._global_optimizer_post_hooks]
    finders = [finder for finder in sys.meta_path if "pipebench" in type(finder).__module__]
    return [*found, *hooks, *finders, *(one for one in gc.callbacks if "pipebench" in type(one).__module__)]


def _functions(module):
    """What a module holds, and what its classes do, each taken out of the static method or property that it is in."""
    for name, value in list(getattr(module, "__dict__", {}).items()):
        inner = vars(value).items() if isinstance(value, type) else ()
        for key, one in ((name, value), *((f"{name}.{key}", one) for key, one in list(inner))):
            if isinstance(one, (staticmethod, classmethod)):
                one = one.__func__
            one = one.fget if isinstance(one, property) else one
            if isinstance(one, types.FunctionType):
                yield key, one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--patched", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for method in args.methods:
        train(args, method)
    if args.patched:
        sys.stdout.write(f"{patched()}\n")


if __name__ == "__main__":
    main()
