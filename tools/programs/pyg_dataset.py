"""PyTorch Geometric: a larger dataset of one's own, with one file a graph.

https://pytorch-geometric.readthedocs.io/en/latest/tutorial/create_dataset.html
"""

import os
import os.path as osp
import sys
from pathlib import Path

import torch
import torch_geometric.transforms as T
from loops import train
from torch_geometric.data import Data, Dataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool

GRAPHS = 160 * int(os.environ.get("TIMES_AS_MANY", "1"))


class Molecules(Dataset):
    @property
    def raw_file_names(self):
        return []

    @property
    def processed_file_names(self):
        return [f"data_{number}.pt" for number in range(GRAPHS)]

    def process(self):
        for number in range(GRAPHS):
            nodes = 200 + number % 100
            graph = Data(
                x=torch.rand(nodes, 16), edge_index=torch.randint(0, nodes, (2, 4 * nodes)), pos=torch.rand(nodes, 3),
                y=torch.tensor([number % 2]),
            )  # fmt: skip
            torch.save(graph, osp.join(self.processed_dir, f"data_{number}.pt"))

    def len(self):
        return len(self.processed_file_names)

    def get(self, idx):
        return torch.load(osp.join(self.processed_dir, f"data_{idx}.pt"), weights_only=False)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(16, 32), torch.nn.Linear(32, 2)

    def forward(self, data):
        return self.head(global_mean_pool(self.conv(data.x, data.edge_index).relu(), data.batch))


if __name__ == "__main__":
    torch.manual_seed(7)
    steps = T.Compose([T.NormalizeFeatures(), T.AddSelfLoops(), T.Distance()])
    loader = DataLoader(
        Molecules(str(Path(sys.argv[1]) / "graphs"), transform=steps), batch_size=8, shuffle=True, num_workers=2
    )
    train(loader, Net(), 2, lambda data: (data, data.y))
