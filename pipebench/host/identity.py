"""Which machine this is, without its name: digests of numbers that a machine keeps when it is renamed.

The numbers themselves are never kept. Each is the key of an HMAC-SHA256, as machine-id(5) asks for.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Mapping
from pathlib import Path

_BOOT, _INSTALLATION = "boot", "installation"
_SOURCES = {
    _BOOT: "proc/sys/kernel/random/boot_id",  # of the running kernel: a container has that of its host
    "product": "sys/class/dmi/id/product_uuid",  # of the board or the virtual machine; only root can read it
    _INSTALLATION: "etc/machine-id",  # of the installed system
}
_OF_IMAGE = (".dockerenv", "run/.containerenv")  # such a container has the machine-id of its image, or none
_LENGTH, _FEWEST = 32, 4  # hexadecimal digits; different ones, which boards without a number of their own lack


def digests(root: Path = Path("/"), root_storage: str = "") -> dict[str, str]:
    """The digest of each number that can be read here, by what it belongs to. Empty: none can.

    `root_storage` is what holds the root folder, as `machine.storage` says it.
    """
    made = {}
    of_image = "overlay" in root_storage or any((root / one).exists() for one in _OF_IMAGE)
    for name, place in _SOURCES.items():
        with contextlib.suppress(OSError):
            number = (root / place).read_bytes().strip().lower().replace(b"-", b"")
            if len(number) == _LENGTH and len(set(number)) >= _FEWEST and not (of_image and name == _INSTALLATION):
                made[name] = hmac.digest(number, f"pipebench {name}".encode(), "sha256").hex()[:16]
    return made


def telling(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, str] | None:
    """The two digests that say whether this is one machine: equal ones say so. None: nothing tells.

    One start of a kernel is one machine, and a clone of it that was made while it ran. Another start says nothing; then
    the board tells, else the installation.
    """
    both = {name: (ours[name], theirs[name]) for name in _SOURCES if ours.get(name) and theirs.get(name)}
    if _BOOT in both and both[_BOOT][0] != both[_BOOT][1]:
        del both[_BOOT]
    return next(iter(both.values()), None)
