"""What a change is called in sentences and tables: as the user writes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipebench.results.advice import Change
from pipebench.units import printable


def sentence_case(text: str) -> str:
    return text if re.search(r"[=.]", text.split(" ")[0]) else text[:1].upper() + text[1:]


def named(change: Change) -> str:
    """A change as the user writes it."""
    if change.knock_out:
        return f"{printable(change.title)} from a memo"
    # Without workers, torch asks for more changes: the snippet has them.
    words = [*keywords({"num_workers": 0} if change.no_workers else change.settings)]
    thread = ["one thread in workers"] if change.one_thread else []
    return ", ".join([*words, *thread, *([printable(change.title)] if change.title else [])])


def keywords(settings: Mapping[str, object]) -> Iterator[str]:
    return (f"{name}={value!r}" for name, value in settings.items())
