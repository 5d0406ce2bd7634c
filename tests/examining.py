"""What the tests of sync points share: tensors to ask about, and fixtures to be imported."""

import pytest
import torch

from pipebench.syncpoints import examine

DEVICE = torch.device("cpu")  # what a script's variable holds on a machine without a device

x = torch.randn(8, 8)
mask = x > 0


def total(function, **options):
    return examine.examine(function, **options).per_step


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    """Whatever an examination patches is as before, and no mode is left on."""
    from torch.utils.data import dataloader

    before = (torch.cuda.synchronize, torch.autograd._engine_run_backward, dataloader._BaseDataLoaderIter.__next__)
    yield
    after = (torch.cuda.synchronize, torch.autograd._engine_run_backward, dataloader._BaseDataLoaderIter.__next__)
    assert after == before
    assert torch._C._len_torch_function_stack() == 0
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


@pytest.fixture(autouse=True)
def no_device(request, monkeypatch):
    """Tests that are not of a device find none, on a machine that has one too."""
    if request.node.get_closest_marker("cuda") is None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
