"""The storage of the data: what kind it is, and what of the data is in the page cache already."""

from __future__ import annotations

import itertools
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.doctor.memory import available
from pipebench.host import machine
from pipebench.host.machine import Mount
from pipebench.host.page_cache import may_know
from pipebench.results.examination import Finding
from pipebench.units import counted, percent, printable, size

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "afs", "9p",
            "virtiofs", "ocfs2", "gfs2")  # fmt: skip
_VIRTUAL = ("vd", "xvd", "nbd")  # disks of a hypervisor, which does not say what they are
_LOOKED_AT, _LISTED, _LISTING_S = 64, 20_000, 1.0
_CACHED, _SOME = 0.9, 0.5


@check
def storage(host: Host) -> Finding:
    where = machine.mount_of(host.data, host.text("proc/self/mountinfo"))
    if where is None:
        raise NotKnown("no mount holds it")
    said = f"{printable(host.data)} is on {printable(where.kind)} ({printable(where.source)})"
    kind = where.kind.removeprefix("fuse.")
    if where.kind.startswith("fuse") or kind in _NETWORK:
        matters = "Each small file costs a round trip, and what others do there changes your timings."
        return know(said, matters, "copy the data to a local disk, or pack it into tar files", _copied(host), kind=kind)
    if kind in ("tmpfs", "ramfs"):
        matters = "The data takes memory from the workers. Figures with it say nothing about a disk."
        return know(said, matters, "keep it there only if it is small", kind=kind)
    if kind == "overlay":
        matters = "It is a layer of the container. What lies under it is not visible from here."
        command = host.in_container("run -v /data:/data:ro IMAGE")
        return know(said, matters, "mount the data from the host", command, kind=kind)
    return _disk(host, where, said)


def _disk(host: Host, where: Mount, said: str) -> Finding:
    if not _rotates(host, where):
        return fine(f"{said}, which does not rotate", kind=where.kind)
    matters = "A disk that rotates reads about a hundred files a second in random order."
    remedy = "copy the data to a solid-state disk, or read it in order from tar files"
    said = f"{said}, which says that it rotates"
    if Path(where.source).name.startswith(_VIRTUAL):
        doubt = "It is a disk of a hypervisor, so this may be untrue."
        remedy = f"measure it; if it is slow, {remedy}"
        return know(said, f"{matters} {doubt}", remedy, _measured(host), kind=where.kind)
    if host.asked and (_cached(host) or 0.0) > _SOME:
        return know(f"{said}; most of it is in the page cache", matters, remedy, _copied(host), kind=where.kind)
    return hurts(said, matters, remedy, _copied(host), kind=where.kind)


def _copied(host: Host) -> str:
    return _with_data(host, "cp -r {} LOCAL_FOLDER")


def _measured(host: Host) -> str:
    return _with_data(host, "pipebench run --stage read --cache cold --data {}")


def _with_data(host: Host, command: str) -> str:
    """A command on the data; "" if the user did not name it, or if its path cannot be written as text."""
    path = printable(host.data)
    return command.format(shlex.quote(path)) if host.asked and path == str(host.data) else ""


def _rotates(host: Host, where: Mount) -> bool:
    """What the kernel says of the disk. A partition has no queue of its own; its disk's is one folder above."""
    for name in (f"sys/dev/block/{where.device}", f"sys/class/block/{Path(where.source).name}"):
        for queue in ("queue", "../queue"):
            try:
                return host.text(f"{name}/{queue}/rotational") == "1"
            except OSError:
                continue
    raise NotKnown(f"the system does not show the disk of {printable(where.source)}")


@check
def page_cache(host: Host) -> Finding:
    if not host.asked:
        raise NotKnown("name your data: --data PATH")
    if not os.access(host.data, os.R_OK):
        raise NotKnown(f"{printable(host.data)} may not be read by you")
    listed, whole = _listed(host.data)
    if not listed:
        raise NotKnown(f"{printable(host.data)} holds no files")
    cached = _cached(host)
    if cached is None:
        raise NotKnown(_why_unknown(_looked_at(listed)))
    total, (_, free) = sum(map(_size, listed)), available(host)
    facts: dict[str, float | str] = {"resident": cached, "bytes": total, "whole": str(whole)}
    some = f"{percent(cached)} of what was looked at ({counted(min(len(listed), _LOOKED_AT), 'file')}) is in it"
    if total > free:
        matters = "Each pass over the data reads the storage again."
        remedy = "use a machine with more memory, or smaller files"
        return know(f"{size(total)} of data do not fit in {size(free)} of free memory", matters, remedy, "", **facts)
    if cached < _CACHED:
        matters = "The first pass reads the storage and the next ones do not: compare only passes of one kind."
        return know(some, matters, "read the data once before you measure", _all_read(host), **facts)
    return fine(some, **facts)


def _all_read(host: Host) -> str:
    return _with_data(host, "find {} -type f -exec cat {{}} + > /dev/null")


def _cached(host: Host) -> float | None:
    """The part of some of the files that is in the page cache, spread over what was listed."""
    listed, _ = _listed(host.data)
    return host.residency(_looked_at(listed)) if listed else None


def _looked_at(listed: list[str]) -> list[str]:
    return listed[:: max(1, len(listed) // _LOOKED_AT)][:_LOOKED_AT]


def _why_unknown(looked_at: list[str]) -> str:
    if not all(map(may_know, looked_at)):
        return "the kernel tells it only to the owner of a file and to users who may write to it"
    if not any(map(_size, looked_at)):
        return "the files that were looked at state a size of 0 bytes"
    return "the kernel does not tell it of these files"


def _listed(data: Path) -> tuple[list[str], bool]:
    """The files of the data, and whether these are all. Listing ends after a second or 20,000 files."""
    if data.is_file():
        return [str(data)], True
    end = time.monotonic() + _LISTING_S
    found = list(itertools.takewhile(lambda _: time.monotonic() < end, itertools.islice(_files(data), _LISTED + 1)))
    return found[:_LISTED], len(found) <= _LISTED and time.monotonic() < end


def _files(data: Path) -> Iterator[str]:
    for folder, _, names in os.walk(data):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
