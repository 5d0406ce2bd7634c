"""Takes secrets, and what a terminal would act on, out of reports before they are shown or saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from pipebench.host import redaction
from pipebench.units import all_printable

Part = TypeVar("Part")


def without_secrets(found: Part, more: Iterable[str] = ()) -> Part:
    """A report, or a part of one, with inert texts that hold no secrets: those that `redaction` knows, and `more`."""
    plain = msgspec.to_builtins(found)
    clean = redaction.redacted_in(all_printable(plain), more)
    return found if clean == plain else msgspec.convert(clean, type=type(found))
