"""Folders that can be trusted: code is loaded from the cache, so nobody but its user may change what lies there."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from pipebench.errors import PipebenchError
from pipebench.units import printable

_ROOT, _UNMAPPED = 0, 65534  # in a container of a user without rights, the host's root has the second number
_MOST_LINKS = 40  # as many as Linux follows (path_resolution(7))
_OTHERS, _GROUP = stat.S_IWOTH, stat.S_IWGRP


def trusted(folder: Path) -> Path:
    """`folder`, if only this user can change what lies in it. What does not exist yet is not looked at.

    It belongs to this user, and nobody else may write in it. Nobody else may put another folder in its place either:
    each folder on the way belongs to this user or to the system, and where others may write, the sticky bit keeps them
    from renaming (unlink(2)). OpenSSH holds its own files to this rule (`StrictModes` in sshd_config(5)).
    Raises PipebenchError that names the folder to mend.
    """
    place = Path(os.path.realpath(folder))
    for one in _way(folder):
        _refuse(one, folder, {os.geteuid(), _ROOT, _UNMAPPED}, sticky=stat.S_ISVTX)
    _refuse(place, folder, {os.geteuid()}, sticky=0)
    return folder


def _way(folder: Path) -> Iterator[Path]:
    """Each folder and each link through which the system goes to a folder, the links of links too."""
    at, links = Path("/"), 0
    left = [*reversed((Path.cwd() / folder).parts[1:])]
    yield at
    while left:
        part = left.pop()
        if part == "..":
            at = at.parent
            continue
        yield at / part
        if not (at / part).is_symlink():
            at /= part
        elif (links := links + 1) <= _MOST_LINKS:
            target = Path(os.readlink(at / part))
            at = Path("/") if target.is_absolute() else at
            left += reversed([one for one in target.parts if one != target.anchor])


def owned(descriptor: int) -> bool:
    """Whether an open file is a regular one of this user, in which nobody else may write."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not _writers(found)


def _refuse(one: Path, folder: Path, owners: set[int], sticky: int) -> None:
    try:
        found = os.lstat(one)
    except OSError:
        return
    is_link = stat.S_ISLNK(found.st_mode)  # its owner can turn it to another folder; its rights say nothing
    if not stat.S_ISDIR(found.st_mode) and not is_link:  # whoever uses it says what is wrong
        return
    if found.st_uid not in owners:
        why, mend = f"belongs to {_user(found.st_uid)}", "give it to your user (chown)"
    elif not is_link and not found.st_mode & sticky and (who := _writers(found)):
        why, mend = f"can be changed by {who}", "take their rights (chmod go-w)"
    else:
        return
    raise PipebenchError(
        f"the cache {printable(folder)} is not used: {printable(one)} {why}, and code is loaded from there",
        f"set PIPEBENCH_CACHE to a folder of your own, or remove the cache and {mend}",
    )


def _writers(found: os.stat_result) -> str:
    """Who else may write there; empty if nobody may. A group that has only this user is the user."""
    if found.st_mode & _OTHERS:
        return "everybody"
    return "its group" if found.st_mode & _GROUP and not _alone_in(found.st_gid) else ""


def _alone_in(group: int) -> bool:
    """Whether a group is this user's own: it has the user's name, and no other member."""
    with contextlib.suppress(KeyError):
        name, known = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
        return known.gr_name == name and set(known.gr_mem) <= {name}
    return False


def _user(number: int) -> str:
    with contextlib.suppress(KeyError):
        return f"the user {printable(pwd.getpwuid(number).pw_name)}"
    return f"user {number}"
