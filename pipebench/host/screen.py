"""What the terminal is like: its width, its characters, and whether it shows colours."""

from __future__ import annotations

import contextlib
import os
from typing import Any

LEAST = 80  # columns: the smallest width for which text is laid out, and that of a file or a pipe


def columns(stream: Any) -> int:
    """The columns of `stream`: the value of COLUMNS, else the width of its terminal, but at least 80; else 80."""
    with contextlib.suppress(KeyError, ValueError):
        return max(LEAST, int(os.environ["COLUMNS"]))
    if stream is not None and stream.isatty():
        with contextlib.suppress(OSError, ValueError):
            return max(LEAST, os.get_terminal_size(stream.fileno()).columns)
    return LEAST


def colours(stream: Any) -> bool:
    """Whether `stream` is a terminal and the user has not set NO_COLOR."""
    return stream is not None and bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def encoding(stream: Any) -> str:
    """The encoding of what `stream` shows. If the user chose the C locale, it is ASCII, whatever Python writes."""
    chosen = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    if chosen in ("C", "POSIX"):
        return "ascii"
    return str(getattr(stream, "encoding", None) or "utf-8")
