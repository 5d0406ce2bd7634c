"""Trains with a torch whose loader has another name inside, from its import on."""

import re
import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Later(SourceFileLoader):
    def get_code(self, fullname):
        return compile(re.sub(r"\b_reset\b", "_begin_again", self.get_source(fullname)), self.path, "exec")


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torch.utils.data.dataloader":
            return None
        spec = PathFinder.find_spec(name, path, target)
        spec.loader = Later(name, spec.origin)
        return spec


sys.meta_path.insert(-1, Finder())  # before the finder of files

import torch  # noqa: E402  # only now may it be imported

if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for (batch,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 1)), 2, num_workers=1):
        optimiser.zero_grad()
        model(batch).mean().backward()
        optimiser.step()
    print("trained")
