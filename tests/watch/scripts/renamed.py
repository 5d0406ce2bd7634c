"""Trains, alone and watched, with a torch whose internals have other names: `renamed.py START_METHOD NAME...`

`+NAME` is a method that takes one argument more.
"""

import inspect
import json
import re
import sys

import torch
from torch.utils.data import dataloader
from torch.utils.data._utils import fetch, pin_memory, worker

import pipebench

METHOD, *NAMES = sys.argv[1:]
for module in (fetch, pin_memory, worker, dataloader):
    source = inspect.getsource(module)
    for name in NAMES:
        if name.startswith("+"):
            source = re.sub(rf"def {name[1:]}\(self", f"def {name[1:]}(self, later", source)
            source = re.sub(rf"self\.{name[1:]}\(", f"self.{name[1:]}(1, ", source)
            continue
        source = re.sub(rf"(?<!\w)(?<!_utils\.){name}\b", f"{name}_of_later", source)
        vars(module).pop(name, None)
    exec(compile(source, module.__file__, "exec"), vars(module))
for name in ("DataLoader", "_DatasetKind", "_DatasetKind_of_later", "get_worker_info"):
    setattr(torch.utils.data, name, getattr(dataloader, name, getattr(worker, name, None)))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((2,), float(index))


def trained(workers):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    more = {"persistent_workers": True, "multiprocessing_context": METHOD} if workers else {}
    loader = dataloader.DataLoader(Numbers(), 2, shuffle=True, num_workers=workers, **more)
    for _ in range(2):
        for batch in loader:
            optimiser.zero_grad()
            model(batch).mean().backward()
            optimiser.step()
    return model.weight.tolist()


if __name__ == "__main__":
    workers = (0, 1) if METHOD == "fork" else (1,)
    alone = [trained(one) for one in workers]
    finders = len(sys.meta_path)
    with pipebench.watching() as seen:
        inside = [trained(one) for one in workers]
    verdict = seen.result.verdict
    said = {"limit": verdict.limit, "lacks": verdict.lacks, "same": alone == inside}
    said |= {"iterations": [one.iterations for one in seen.result.loaders]}
    said["left"] = len(sys.meta_path) - finders
    said["faults"] = [one.values["fault"] for one in seen.result.notes if one.code == "fault"]
    print(json.dumps(said))
