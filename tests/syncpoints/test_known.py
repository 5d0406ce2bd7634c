"""Sync points: what is listed, what is not, and the known misses and false alarms of docs/figures/sync-points.md."""

import io
import re
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from examining import DEVICE, mask, no_device, nothing_stays_patched, total, x  # noqa: F401
from torchvision.transforms import v2

import pipebench
from pipebench.syncpoints import examine

DOCS = Path(pipebench.__file__).parents[1] / "docs" / "figures" / "sync-points.md"

index = torch.arange(3)
number = torch.zeros(())


def assigned(target, where, value):
    target = target.clone()
    target[where] = value


def padded():
    return torch.nn.utils.rnn.pad_sequence([torch.tensor([1.0]), torch.tensor([1.0, 2.0])])


WAITS = {
    "item": lambda: x.sum().item(),
    "float": lambda: float(x.sum()),
    "bool": lambda: bool(mask.any()),
    "int": lambda: int(index[0]),
    "range": lambda: range(index[1]),
    "in": lambda: 1.0 in x,
    "cpu": lambda: x.cpu(),
    "to-cpu": lambda: x.to("cpu"),
    "to-cpu-keyword": lambda: x.to(device="cpu", dtype=torch.float64),
    "to-host-tensor": lambda: x.to(torch.tensor([1.0])),
    "tolist": lambda: x.tolist(),
    "numpy": lambda: x.numpy(),
    "asarray": lambda: np.asarray(x),
    "repr": lambda: repr(x),
    "format": lambda: f"{x.sum():.2f}",
    "mask": lambda: x[mask],
    "mask-tuple": lambda: x[:, mask[0]],
    "mask-assigned": lambda: assigned(x, mask, torch.ones(8, 8)[0, 0]),
    "mask-assigned-number": lambda: assigned(x, mask, 0.0),
    "list-index": lambda: x[[0, 1]],
    "host-index": lambda: x[torch.tensor([0, 1])],
    "list-assigned": lambda: assigned(x, [0, 1], 1.0),
    "host-index-assigned": lambda: assigned(x, torch.tensor([0, 1]), 1.0),
    "numpy-index-assigned": lambda: assigned(x, np.array([0, 1]), 1.0),
    "scalar-index": lambda: x[index[1]],
    "nonzero": lambda: torch.nonzero(x),
    "where-alone": lambda: torch.where(mask),
    "unique": lambda: torch.unique(index),
    "unique-consecutive": lambda: torch.unique_consecutive(index),
    "masked-select": lambda: x.masked_select(mask),
    "equal": lambda: torch.equal(x, x),
    "allclose": lambda: torch.allclose(x, x),
    "bincount": lambda: torch.bincount(index),
    "repeat-interleave": lambda: torch.repeat_interleave(index, index),
    "one-hot": lambda: torch.nn.functional.one_hot(index),
    "histc": lambda: torch.histc(x),
    "normal": lambda: torch.normal(x, x.abs()),
    "inverse": lambda: torch.linalg.inv(torch.eye(3)),
    "masked-fill-tensor": lambda: x.masked_fill(mask, number),
    "tensor-to-device": lambda: torch.tensor(2.0).to(DEVICE),
    "tensor-to-cuda": lambda: torch.tensor(2.0).to("cuda"),
    "tensor-cuda": lambda: torch.tensor(2.0).cuda(),
    "tensor-on-device": lambda: torch.tensor(2.0, device=DEVICE),
    "tensor-on-that-device": lambda: torch.tensor(2.0, device=x.device),
    "new-tensor": lambda: x.new_tensor([1.0, 2.0]),
    "numpy-to-device": lambda: torch.from_numpy(np.ones(3)).to(DEVICE),
    "type-as-device": lambda: torch.tensor([1]).type_as(x),
    "zeros-like-on-device": lambda: torch.zeros_like(torch.tensor([1.0]), device="cuda").tolist(),
    "padded-to-device": lambda: padded().to("cuda"),
    "as-tensor-on-device": lambda: torch.as_tensor(np.ones(3), device=DEVICE),
    "copy-from-host": lambda: torch.empty(3).copy_(torch.tensor([1.0, 2.0, 3.0])),
    "copy-to-host": lambda: torch.empty(3, device="cpu").copy_(torch.empty(3), non_blocking=True),
    "assigned-host": lambda: assigned(x, 0, torch.tensor([1.0] * 8)),
    "synchronize": lambda: torch.cuda.synchronize(),
}

PASSES = {
    "factories": lambda: torch.full((3,), 2.0) + torch.zeros(3) + torch.arange(3),
    "where": lambda: torch.where(mask, x, 0.0),
    "masked-fill": lambda: x.masked_fill(mask, 0.0),
    "integer-index": lambda: x[index],
    "integer-assigned": lambda: assigned(x, index, 1.0),
    "slice-assigned": lambda: assigned(x, slice(2), 1.0),
    "to-dtype": lambda: x.to(torch.float64),
    "to-device": lambda: x.to(DEVICE),
    "to-cuda": lambda: x.to("cuda"),
    "to-tensor": lambda: x.to(index),
    "host-tensor": lambda: torch.tensor([1.0, 2.0]).sum().item(),
    "host-numpy": lambda: torch.from_numpy(np.ones(3)).tolist(),
    "host-buffer": lambda: torch.frombuffer(bytearray(4), dtype=torch.uint8).tolist(),
    "host-constructor": lambda: torch.Tensor([1.0, 2.0]).tolist(),
    "host-stack": lambda: torch.stack([torch.tensor(1.0), torch.tensor(2.0)]).sum().item(),
    "host-collate": lambda: torch.utils.data.default_collate([np.ones(3), np.ones(3)]).tolist(),
    "host-padded": lambda: padded().tolist(),
    "host-one-hot": lambda: torch.nn.functional.one_hot(torch.tensor([1, 2])).tolist(),
    "host-combinations": lambda: torch.combinations(torch.tensor([1.0, 2.0])).tolist(),
    "host-type-as": lambda: torch.tensor([1]).type_as(torch.tensor([1.0])).tolist(),
    "lazy-layer": lambda: torch.nn.LazyLinear(2)(x).sum().backward(),
    "host-scalar-beside": lambda: x * torch.tensor(2.0),
    "host-stays": lambda: torch.tensor([1.0]).to("cpu"),
    "host-mask": lambda: x[torch.tensor([True, False] * 4)],
    "host-factory": lambda: torch.zeros(3, device="cpu").tolist(),
    "host-device-read": lambda: torch.tensor([1.0], device=torch.tensor(1.0).device),
    "pinned-copy": lambda: torch.tensor([1.0]).pin_memory().to(DEVICE, non_blocking=True),
    "non-blocking-to-cpu": lambda: x.to("cpu", non_blocking=True),
    "on-cuda": lambda: torch.randn(3, device="cuda").add(1),
    "output-size": lambda: torch.repeat_interleave(index, index, output_size=3),
    "one-hot": lambda: torch.nn.functional.one_hot(index, 3),
    "histc-range": lambda: torch.histc(x, min=0, max=1),
    "inverse-ex": lambda: torch.linalg.inv_ex(torch.eye(3)),
    "assert-async": lambda: torch._assert_async(mask.any() | True),
    "nonzero-static": lambda: torch.nonzero_static(x, size=3),
    "multinomial": lambda: torch.multinomial(x.abs(), 1),
    "shape": lambda: (x.shape[0], len(x), x.numel(), x.device, x.is_cuda),
    "copied-tensor": lambda: x.detach().clone(),
}

_HOST = "cpu"
_rate = torch.tensor(0.1)


with mock.patch.object(torch.cuda, "synchronize", lambda: None):
    from torch.cuda import synchronize


def wrapped(tensor):
    """A Python function that torch treats as one of its own, like those of torch.nn.functional."""
    if torch.overrides.has_torch_function_unary(tensor):
        return torch.overrides.handle_torch_function(wrapped, (tensor,), tensor)
    return tensor.cpu()


def threaded():
    thread = threading.Thread(target=lambda: x.sum().item())
    thread.start()
    thread.join()


def loaded():
    file = io.BytesIO()
    torch.save(torch.ones(3), file)
    file.seek(0)
    return torch.load(file)


DOCUMENTED = {
    "miss-pageable-non-blocking": (0, lambda: torch.tensor([1.0]).to(DEVICE, non_blocking=True)),
    "miss-cpu-in-a-variable": (0, lambda: x.to(_HOST)),
    "miss-host-beside-device": (0, lambda: x[0] * torch.tensor([1.0] * 8)),
    "miss-unpickled": (0, lambda: loaded().to(DEVICE)),
    "miss-saved": (0, lambda: torch.save(x, io.BytesIO())),
    "miss-imported-synchronize": (0, lambda: synchronize()),
    "miss-inside-torch-function": (0, lambda: wrapped(x)),
    "miss-own-thread": (0, threaded),
    "miss-is-available": (0, lambda: x.sum().item() if torch.cuda.is_available() else None),
    "alarm-masked-number": (1, lambda: assigned(x, mask, 0.0)),
    "alarm-zero-dimensional-index": (1, lambda: assigned(x, index[1], 1.0)),
    "alarm-host-tensor-from-before": (1, lambda: _rate.item()),
    "alarm-library-draw": (1, lambda: v2.RandomHorizontalFlip()(x)),
    "alarm-numpy-work": (1, lambda: torch.zeros(3).numpy()),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_is_listed_once(name):
    assert total(WAITS[name]) == 1


@pytest.mark.parametrize("name", PASSES)
def test_what_does_not_wait_is_not_listed(name):
    assert examine.examine(PASSES[name]).points == ()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_miss_or_false_alarm(name):
    expected, function = DOCUMENTED[name]
    assert total(function) == expected


def test_every_row_of_the_docs_is_a_test():
    assert set(re.findall(r"^\| `((?:miss|alarm)-[a-z-]+)` \|", DOCS.read_text(), re.M)) == set(DOCUMENTED)
