"""Where a JPEG of several pictures (MPO, as phones and stereo cameras write it) says that the others lie.

The first picture has an index in an APP2 segment: for each picture its size and its place, counted in bytes from the
index's own header (CIPA DC-007, 5.2.3). When the first picture becomes shorter or longer, both have to be changed.
"""

from __future__ import annotations

import contextlib
import struct

_ENTRIES = 0xB002  # the tag of the list of pictures
_ENTRY_BYTES = 16  # attributes, size, place, and two numbers of other pictures


def moved(before: bytes, after: bytes) -> bytes:
    """`after` with the places of its pictures. It is `before` with another first picture; what follows is the same.

    A place that does not lie behind the first picture, and an index that makes no sense, stay as they are.
    """
    bases = _index(before), _index(after)
    result = bytearray(after)
    if None not in bases and len(before) != len(after):
        with contextlib.suppress(struct.error):  # it ends too early
            _move(before, result, *(base or 0 for base in bases))
    return bytes(result)


def _move(before: bytes, after: bytearray, old: int, new: int) -> None:
    order = {b"II": "<", b"MM": ">"}.get(bytes(after[new : new + 2]))
    if order is None:
        return
    (at,) = struct.unpack_from(order + "I", after, new + 4)
    (tags,) = struct.unpack_from(order + "H", after, new + at)
    for tag in range(new + at + 2, new + at + 2 + 12 * tags, 12):
        name, _, size, place = struct.unpack_from(order + "HHII", after, tag)
        if name == _ENTRIES:
            for entry in range(new + place, new + place + size, _ENTRY_BYTES):
                _move_entry(before, after, old, new, struct.Struct(order + "II"), entry + 4)


def _move_entry(before: bytes, after: bytearray, old: int, new: int, pair: struct.Struct, at: int) -> None:
    size, place = pair.unpack_from(after, at)
    grown = len(after) - len(before)
    if place == 0:
        pair.pack_into(after, at, size + grown, place)
    elif before[old + place :] == after[old + place + grown :]:
        pair.pack_into(after, at, size, place + old + grown - new)


def _index(data: bytes) -> int | None:
    """Where the header of the index begins; None if there is none."""
    at = 2
    while data[at : at + 1] == b"\xff" and data[at + 1 : at + 2] != b"\xda":
        if data[at + 1 : at + 2] == b"\xe2" and data[at + 4 : at + 8] == b"MPF\0":
            return at + 8
        filled = data[at + 1 : at + 2] == b"\xff"  # a marker may have more of them before it
        at += 1 if filled else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
