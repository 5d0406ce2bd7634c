"""What a batch needs on its way from a worker: shared memory, descriptors, and sockets in the temporary folder."""

from __future__ import annotations

import os

from pipebench.doctor.checking import NotKnown, check, fine, hurts, know
from pipebench.doctor.host import BATCH_BYTES, PREFETCH, Host
from pipebench.host.limits import LONGEST_TEMPORARY, batches_under_way, descriptors_needed
from pipebench.results.examination import Finding
from pipebench.units import printable, size

_AMPLE_LIMIT = 65536  # descriptors
_USUAL_LIMIT = 1024  # descriptors: the soft limit of most systems
_LITTLE = 1 << 30  # bytes


@check
def shared_memory(host: Host) -> Finding:
    free = host.space(host.root / "dev/shm")
    if free is None:
        raise NotKnown("there is no /dev/shm")
    batches = batches_under_way(host.workers, PREFETCH)
    needed = batches * BATCH_BYTES
    loader = f"{host.workers} workers with {batches} batches of 64 float32 images need {size(needed)}"
    if free >= needed:
        return fine(f"/dev/shm has {size(free)} free; {loader}", free=free, needed=needed)
    most = -(-2 * needed >> 30)
    return hurts(
        f"/dev/shm has {size(free)} free; {loader}",
        "Every batch of a worker lies there. A worker that finds no room dies of a bus error.",
        "enlarge it, or use fewer workers, a smaller batch or uint8 images",
        host.in_container(f"run --shm-size={most}g IMAGE")
        if host.container
        else f"sudo mount -o remount,size={most}G /dev/shm",
        free=free,
        needed=needed,
    )


@check
def descriptors(host: Host) -> Finding:
    limit, needed = host.descriptors, descriptors_needed(host.workers, PREFETCH)
    sharing = host.answers.get("torch", {}).get("sharing", "")
    how = f"; torch shares tensors by {sharing}" if sharing else ""
    if limit is None:
        return fine(f"no limit{how}", needed=needed)
    facts = {"limit": limit, "needed": needed, "sharing": sharing}
    said = f"a process may have {limit} descriptors{how}"
    ample = max(_AMPLE_LIMIT, needed)
    most = min(ample, host.most_descriptors or ample)
    raised, command = "raise the limit", f"ulimit -n {most}"
    if most <= limit or most < needed:
        allowed = f": you may set {most} at most" if most > limit else ""
        raised, command = f"let an administrator raise the limit (limits.conf, docker run --ulimit){allowed}", ""
    if sharing == "file_system":
        matters = "A worker that is killed leaves its tensors in /dev/shm for ever."
        remedy = "call torch.multiprocessing.set_sharing_strategy('file_descriptor')"
        return know(said, matters, f"{remedy}, and {raised}", command, **facts)
    if limit < needed:
        matters = f"A loader with {host.workers} workers needs about {needed}; it fails with 'Too many open files'."
        return hurts(said, matters, raised, command, **facts)
    if limit <= _USUAL_LIMIT:
        matters = "Each tensor on its way takes one. Batches that are lists of tensors, as for detection, need more."
        return know(said, matters, raised, command, **facts)
    return fine(said, **facts)


@check
def temporary_folder(host: Host) -> Finding:
    name = printable(host.temporary)
    length = len(os.fsencode(host.temporary))
    facts = {"bytes": length, "longest": LONGEST_TEMPORARY}
    if length > LONGEST_TEMPORARY and not host.short_sockets:
        return hurts(
            f"the path of the folder for temporary files has {length} bytes; {LONGEST_TEMPORARY} are allowed",
            "Workers pass batches through sockets in it. They fail with 'AF_UNIX path too long'.",
            "choose a shorter path",
            "export TMPDIR=/tmp",
            **facts,
        )
    asked = host.environ.get("TMPDIR", "")
    if asked and os.path.abspath(asked) != os.path.abspath(host.temporary):
        matters = f"Python does not find it or may not write there, so temporary files go to {name}."
        return know(f"TMPDIR is {printable(asked)}", matters, "name a folder that you may write", "export TMPDIR=/tmp")
    free = host.space(host.temporary)
    if free is not None and free < _LITTLE:
        matters = "Reports, shards that are downloaded and compiled code are written there first."
        return know(
            f"{name} has {size(free)} free",
            matters,
            "free some space, or choose a folder with more",
            "export TMPDIR=FOLDER",
            free=free,
        )
    return fine(name, **facts)
