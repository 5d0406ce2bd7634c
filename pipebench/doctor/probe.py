"""Run as a program: imports each library that it is asked for and says what it is, one line of JSON for each.

It is a process of its own, because a library that does not fit the others may end it. What was said before that, or
before its deadline, stays known. Standard library only, besides what it asks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

MARK = "pipebench-probe "  # before each line of ours, because a library may print when it is imported


def _pillow() -> dict[str, Any]:
    import PIL
    from PIL import features

    turbo = features.check_feature("libjpeg_turbo")
    jpeg = features.version_feature("libjpeg_turbo") if turbo else features.version_codec("jpg")
    return {"version": PIL.__version__, "turbo": bool(turbo), "jpeg": str(jpeg)}


def _torch() -> dict[str, Any]:
    import torch
    from torch import multiprocessing

    sharing = multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    return {"version": torch.__version__, "cuda": torch.version.cuda or "", "hip": torch.version.hip or "",
            "threads": torch.get_num_threads(), "sharing": sharing}  # fmt: skip


def _torchvision() -> dict[str, Any]:
    import torch
    import torchvision

    torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)  # where a pair that does not match fails at the latest
    return {"version": torchvision.__version__}


def _device() -> dict[str, Any]:
    import torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    return {"available": available, "devices": torch.cuda.device_count(), "said": str(said[0].message) if said else ""}


def _opencv() -> dict[str, Any]:
    import cv2

    jpeg = [line for line in cv2.getBuildInformation().splitlines() if line.strip().startswith("JPEG:")]
    return {"version": cv2.__version__, "threads": cv2.getNumThreads(), "jpeg": " ".join("".join(jpeg[:1]).split())}


def _simplejpeg() -> dict[str, Any]:
    import simplejpeg

    return {"version": str(getattr(simplejpeg, "__version__", ""))}


def _torchcodec() -> dict[str, Any]:
    import torchcodec.decoders

    return {"version": str(getattr(torchcodec, "__version__", ""))}


ASKED: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "pillow": ("PIL", _pillow),
    "opencv": ("cv2", _opencv),
    "simplejpeg": ("simplejpeg", _simplejpeg),
    "torch": ("torch", _torch),
    "torchvision": ("torchvision", _torchvision),
    "device": ("torch", _device),
    "torchcodec": ("torchcodec", _torchcodec),
}
# Each part is a process, side by side with the other. The quick ones first: what is said before the deadline is known.
PARTS = (("pillow", "opencv", "simplejpeg"), ("torch", "torchvision", "device", "torchcodec"))


def main(names: Iterable[str]) -> None:
    for name in names:
        module, ask = ASKED[name]
        try:
            found = ask() if importlib.util.find_spec(module) is not None else {"missing": True}
        except BaseException as error:  # a library may even leave by SystemExit
            found = {"error": f"{type(error).__name__}: {error}"[:400]}
        sys.stdout.write(f"\n{MARK}{json.dumps([name, found])}\n")
        sys.stdout.flush()


def answers(text: str) -> dict[str, dict[str, Any]]:
    """What a probe said of each library that it reached."""
    found = {}
    for line in text.splitlines():
        if line.startswith(MARK):
            with contextlib.suppress(ValueError):  # the last line is cut if the process was killed
                name, said = json.loads(line[len(MARK) :])
                found[name] = said
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
