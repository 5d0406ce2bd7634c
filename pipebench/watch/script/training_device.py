"""The CUDA device that the script trains on. It need not be the current one: `model.to("cuda:1")` leaves that at 0.

Or that it trains on no device at all.
"""

from __future__ import annotations

import sys
from typing import Any

# Libraries with devices of their own. A script that has imported one may give such a device work.
_WITH_DEVICES = ("cupy", "jax", "tensorrt", "pycuda", "torch_xla", "torch_npu", "habana_frameworks")


class TrainingDevice:
    """The device of the last loss; before the first backward, one on which the script holds memory.

    `known` is the number that `index` gave last, or that of the last loss; None if nothing was found so far.
    No other device is touched: CUDA would make a context there, which takes memory.
    """

    def __init__(self) -> None:
        self.known: int | None = None
        self._asked = 0
        self._losses: set[str] = set()  # the kinds of device on which there were losses

    def backward_of(self, losses: Any) -> None:
        """Notes what `torch.autograd.backward` was called with."""
        torch: Any = sys.modules["torch"]
        for one in losses if isinstance(losses, (tuple, list)) else (losses,):
            if isinstance(one, torch.Tensor):
                with torch._C.DisableTorchFunction():  # no `__torch_function__` of the script hears of it
                    device = one.device
                if (kind := device.type) == "cuda":
                    self.known = device.index
                if kind not in self._losses:
                    self._losses.add(kind)

    def on_host(self) -> bool:
        """Whether the script has trained so far, and on no device: all losses were on the host, and none is in use."""
        return self._losses == {"cpu"} and not _devices_in_use()

    def index(self) -> int | None:
        """Its number; None if CUDA is not in use, or if the device is not known."""
        if self.known is None and (cuda := cuda_in_use()) is not None:
            self._asked += 1
            if self._asked & (self._asked - 1) == 0:  # to ask takes long, so it is asked at the 1st, 2nd, 4th … time
                self.known = _held(cuda)
        return self.known

    def synchronize(self) -> None:
        """Waits until the device has done all its work. Without a device, does nothing."""
        index = self.index()
        if index is not None:
            sys.modules["torch"].cuda.synchronize(index)


def cuda_in_use() -> Any:
    """`torch.cuda` if the script itself has initialised it, else None."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _devices_in_use() -> bool:
    """Whether the script may use any device: it has initialised one, or could use it without that."""
    if not sys.modules.keys().isdisjoint(_WITH_DEVICES) or cuda_in_use() is not None:
        return True
    torch: Any = sys.modules["torch"]
    xpu, mps = getattr(torch, "xpu", None), getattr(torch.backends, "mps", None)
    named = getattr(torch._C, "_get_privateuse1_backend_name", None)  # another one than torch's own: it has a device
    return (
        (xpu is not None and bool(xpu.is_initialized()))
        or (mps is not None and bool(mps.is_available()))
        or (named is not None and named() != "privateuseone")
    )


def _held(cuda: Any) -> int | None:
    """The current device if the script holds memory there, or else the only one where it does."""
    found = [index for index in range(cuda.device_count()) if _holds_memory(cuda, index)]
    if len(found) > 1:
        now: int = cuda.current_device()
        return now if now in found else None
    return found[0] if found else None


def _holds_memory(cuda: Any, index: int) -> bool:
    try:
        return bool(cuda.memory_reserved(index))
    except RuntimeError:  # an allocator of the script's own keeps no count
        return False
