"""Needs torch's compiler for the first time inside a loop, for a subclass of Tensor, as if CUDA were initialised."""

import sys

import torch
from torch.utils.data import DataLoader

TABLE = {torch.Tensor.to: 1}


class Added(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found + 1 if func in TABLE else found


def backend(graph, inputs):
    print([str(node.target) for node in graph.graph.nodes])
    return graph.forward


torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
for turn, _ in enumerate(DataLoader(range(3))):
    if turn == 1:
        print("torch._dynamo" in sys.modules)
        for compiled in (lambda one, other: one.to(other), lambda one, other: other.to(one)):
            run = torch.compile(compiled, backend=backend, fullgraph=True)
            for _ in range(2):
                print(run(torch.ones(2, dtype=torch.float64), torch.ones(2).as_subclass(Added)).tolist())
