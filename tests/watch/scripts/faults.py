"""Loads samples in two workers and comes to grief in the way its first argument names."""

import inspect
import multiprocessing
import os
import resource
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision.transforms import Compose


class Failing:
    def __call__(self, index):
        if index == 9:
            try:
                raise KeyError(index)
            except KeyError as error:
                raise ValueError("no such sample") from error
        return torch.full((4,), float(index))


class Samples(Dataset):
    def __init__(self, how):
        self.how = how
        self.transform = Compose([Failing()])

    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index == 9 and self.how in ("killed", "crashed"):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.SIGKILL if self.how == "killed" else signal.SIGSEGV)
        if index == 9 and self.how == "left":
            os._exit(0)
        if index == 9 and self.how == "hung":
            time.sleep(600)
        return self.transform(index) if self.how == "raises" else torch.full((4,), float(index))


class Batched(Samples):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(IterableDataset):
    """Has no length, and no end if so asked."""

    def __init__(self, most):
        self.most = most

    def __iter__(self):
        index = 0
        while self.most is None or index < self.most:
            yield torch.full((4,), float(index))
            index += 1


class Mine(DataLoader):
    """A loader that does something of its own around torch's."""

    def __iter__(self):
        for batch in super().__iter__():
            yield batch + 1


def loop(loader, most=1000):
    model = torch.nn.Linear(4, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)

    def closure():
        optimiser.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        return loss

    done = 0
    for batch in loader:
        optimiser.step(closure)
        done += 1
        if done == most:
            break
    sys.stdout.write(f"{done} {batch.sum():.4f} {model.weight.sum():.6f}\n")
    sys.stdout.flush()


def gone(how):
    """A worker that raises, is killed, leaves or hangs."""
    loop(DataLoader(Samples(how), batch_size=4, num_workers=2, timeout=20 if how == "hung" else 0))


def no_space():
    """Files may not grow beyond 12 kB from here on: what is recorded does not fit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
    loop(DataLoader(Samples(""), batch_size=1))


def from_nowhere():
    """Not one file can be written from the start."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    loop(DataLoader(Samples(""), batch_size=4))


def ends():
    """Comes to an end in the middle of a pass, of the kind that its second argument names, with two workers at work."""
    how = sys.argv[2]
    for chance in range(2 if how == "twice" else 1):
        try:
            endless(how)
        except KeyboardInterrupt:
            if how != "twice" or chance:
                raise


def endless(how):
    for number, _ in enumerate(DataLoader(Stream(None), batch_size=4, num_workers=2)):
        if number == 20:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            if how == "raise":
                raise RuntimeError("enough")
            if how.startswith("exit"):
                sys.exit({"exit-text": "enough", "exit-code": 5, "exit-none": None}[how])
        if number >= 20:
            time.sleep(0.01)


def child():
    torch.manual_seed(1)
    loop(DataLoader(Samples(""), batch_size=4), most=4)
    loop(DataLoader(Samples(""), batch_size=4, num_workers=1), most=5)


def nested():
    """Processes of the script's own train too, before, while and after it does."""
    loop(DataLoader(Samples(""), batch_size=4, num_workers=1))
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=child)
        process.start()
        process.join()
        sys.stdout.write(f"{method} {process.exitcode}\n")
    loop(DataLoader(Samples(""), batch_size=4))


def shapes():
    """Every kind of loader, one after the other."""
    loop(DataLoader(Samples(""), batch_size=None))
    loop(DataLoader(Batched(""), batch_size=4, num_workers=1))
    loop(DataLoader(Stream(10), batch_size=4))
    loop(DataLoader(Stream(10), batch_size=4, num_workers=2))
    loop(DataLoader(Stream(1), batch_size=4))
    loop(DataLoader(Stream(None), batch_size=4, num_workers=1), most=7)
    loop(Mine(Samples(""), batch_size=4, num_workers=1))
    new = {"in_order": False} if "in_order" in inspect.signature(DataLoader).parameters else {}  # torch 2.6
    loop(DataLoader(Samples(""), batch_size=4, num_workers=1, persistent_workers=True, **new), most=3)
    pairs = zip(DataLoader(Samples(""), batch_size=4), DataLoader(Samples(""), batch_size=4), strict=True)
    loop(first + second for first, second in pairs)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ways = {"no-space": no_space, "from-nowhere": from_nowhere, "shapes": shapes, "ends": ends, "nested": nested}
    ways.get(sys.argv[1], lambda: gone(sys.argv[1]))()
