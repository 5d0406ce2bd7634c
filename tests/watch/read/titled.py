"""What is known of a line of `__getitem__`, by its title."""

from __future__ import annotations

from typing import Any

from pipebench.watch.read.known_lines import Line, known

OF_DATASET: dict[str, Any] = {"function": "Clips.__getitem__", "stage": "Clips.__getitem__"}


def title_of(text: str, calls: str = "", above: str = "", indent: int = 8, **more: Any) -> str | None:
    lines = ["    def __getitem__(self, i):", *(f"        {one}" for one in above.splitlines())]
    found = known(Line(text, calls, **{**OF_DATASET, "above": lines, "indent": indent, **more}))
    return found and found.title
