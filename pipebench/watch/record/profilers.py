"""Whether Python's profile function is free, so that calls can be looked at for a moment. Standard library only."""

from __future__ import annotations

import sys

from pipebench.watch.record.from_handlers import forgiving

_IN_C = "yappi"  # sets a function that `sys.getprofile` does not show, in threads that it profiles


def is_free() -> bool:
    if sys.getprofile() is not None:
        return False
    if (other := sys.modules.get(_IN_C)) is None:
        return True
    with forgiving():
        return not other.is_running()
    return False
