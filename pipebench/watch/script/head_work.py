"""How much of a training is the last layer before a cross entropy, which may compute positions that do not count.

Only sizes are read from the graph of a backward: no tensor that it has saved is unpacked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pipebench.watch.record.program_lines import LastLayerWork

_LOSSES = ("NllLossBackward0", "NllLoss2DBackward0")
_PRODUCTS = {  # of matrices: the names of the sizes that they save
    "AddmmBackward0": ("_saved_mat1_sym_sizes", "_saved_mat2_sym_sizes"),
    "MmBackward0": ("_saved_self_sym_sizes", "_saved_mat2_sym_sizes"),
}
_CONVOLUTIONS = "ConvolutionBackward0"
_FAR = 8  # nodes from the loss to its last layer: softmax, views, casts


def last_layer(nodes: Sequence[Any]) -> LastLayerWork | None:
    """The last layer before the cross entropy in a graph; None if there is none, or if its share is not known."""
    names = [type(one).__name__ for one in nodes]
    losses = [one for one, name in zip(nodes, names, strict=True) if name in _LOSSES]
    if len(losses) != 1 or _CONVOLUTIONS in names:
        return None
    sizes = [_size(one) for one, name in zip(nodes, names, strict=True) if name in _PRODUCTS]
    found = _size(_layer_of(losses[0]))
    if not found or not all(sizes):
        return None
    rows, _, outputs = found
    return LastLayerWork(rows, outputs, math.prod(found) / sum(math.prod(one) for one in sizes))


def _layer_of(loss: Any) -> Any:
    """The product of matrices that gives what a loss takes; None if something else stands between."""
    node = loss
    for _ in range(_FAR):
        inputs = [one for one, _ in node.next_functions if one is not None]
        node = inputs[0] if len(inputs) == 1 else None
        if node is None or type(node).__name__ in _PRODUCTS:
            return node
    return None


def _size(node: Any) -> tuple[int, ...]:
    """Rows, columns and outputs of a product of matrices; empty if it does not tell."""
    left, right = (getattr(node, name, ()) for name in _PRODUCTS.get(type(node).__name__, ("", "")))
    sizes = (*left, *right)
    return (sizes[0], sizes[1], sizes[3]) if len(sizes) == 4 and all(type(one) is int for one in sizes) else ()
