"""The NVIDIA driver and its devices, and whether torch can use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipebench.doctor.asking import Answer
from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.results.examination import Finding
from pipebench.units import counted, percent, printable, size

_BUSY = 0.1  # of the time of a device
_USED = 0.1  # of the memory of a device
_NO_SMI = "there is no nvidia-smi"
_NONE = f"no GPU: {_NO_SMI}"
_HIDDEN = ("", "-1")
_COLUMNS = 5  # that were asked for; a name may hold a comma
_MIB = 1 << 20


@dataclass(frozen=True)
class _Device:
    name: str
    driver: str
    used: float  # bytes
    memory: float  # bytes
    busy: float  # share of the time


@check
def devices(host: Host) -> Finding:
    if host.smi is None:
        seen = _seen(host)
        return fine(f"{_by_torch(host)}; {_NO_SMI} to say what uses it", devices=seen) if seen else fine(_NONE)
    if host.smi.status:
        said = printable(next(iter(host.smi.text.splitlines()), "nothing"))[:200]
        return hurts(f"nvidia-smi fails: {said}", "Then torch sees no device either.",
                     "load the driver again (after an update: restart the machine)")  # fmt: skip
    found = list(_devices(host.smi))
    first = found[0]
    said = f"{counted(len(found), 'device')}, {printable(first.name)}, driver {printable(first.driver)}"
    facts: dict[str, float | str] = {"devices": len(found), "driver": first.driver}
    used = max(found, key=lambda one: (one.busy, one.used / one.memory))
    if used.busy > _BUSY or used.used > _USED * used.memory:
        return know(
            f"{said}; {percent(used.busy)} of its time and {size(used.used)} of its memory are in use",
            "Training and measurements share the device with the programs that use it.",
            "list them; end them, or choose another device",
            "nvidia-smi",
            **facts,
        )
    return fine(said, **facts)


@check
def torch_and_the_device(host: Host) -> Finding:
    if _seen(host):
        return fine(_by_torch(host))
    if host.smi is None:
        return fine(_NONE)
    torch = host.answer("torch")
    cuda = torch.get("cuda")
    if cuda is None:
        raise NotKnown("torch cannot be imported" if torch else "torch is not installed")
    matters = "Training runs on the CPU, ten to a hundred times as slow."
    if not cuda:
        return hurts("this torch is built without CUDA", matters, "install a build for CUDA",
                     "pip install --force-reinstall torch torchvision")  # fmt: skip
    device = host.answer("device")
    if host.environ.get("CUDA_VISIBLE_DEVICES", "0") in _HIDDEN:
        return know("CUDA_VISIBLE_DEVICES hides every device", matters, "unset it", "unset CUDA_VISIBLE_DEVICES")
    why = printable(str(device.get("said") or device.get("error") or "it does not say why"))
    return hurts(
        f"torch for CUDA {printable(str(cuda))} sees no device: {why[:200]}",
        matters,
        "update the driver, or install a torch for the CUDA of this driver (first line of nvidia-smi)",
    )


def _seen(host: Host) -> int:
    """The devices that torch sees. Raises LookupError if torch gave no answer."""
    device = host.answer("device")
    return int(device["devices"]) if device.get("available") else 0


def _by_torch(host: Host) -> str:
    torch = host.answer("torch")
    built = next(
        (f"{name} {torch[one]}" for name, one in (("CUDA", "cuda"), ("ROCm", "hip")) if torch.get(one)), "a GPU"
    )
    return f"torch for {printable(built)} sees {counted(_seen(host), 'device')}"


def _devices(smi: Answer) -> Iterator[_Device]:
    """What nvidia-smi tells of each device. Raises NotKnown if it tells nothing."""
    if smi.status is None:
        raise NotKnown("nvidia-smi did not end in time")
    lines = [line.split(", ") for line in smi.text.splitlines() if line.count(", ") >= _COLUMNS - 1]
    if not lines:
        raise NotKnown("nvidia-smi names no device")
    for *name, driver, used, memory, busy in lines:
        yield _Device(", ".join(name), driver, _number(used) * _MIB, _number(memory) * _MIB or 1.0, _number(busy) / 100)


def _number(word: str) -> float:
    """A figure of nvidia-smi; 0 where the device does not have it ("[N/A]")."""
    try:
        return float(word)
    except ValueError:
        return 0.0
