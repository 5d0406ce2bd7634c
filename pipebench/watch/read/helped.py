"""What threads of the script's own do while the loop waits for them, in a loader without workers. Pure."""

from __future__ import annotations

from collections import Counter

from pipebench.watch.read.gather import Run

_FEWEST = 20  # looks


def helpers(run: Run, loader: int) -> dict[str, str | int | float]:
    """The function in which such threads were in half of the looks or more, as values of a cause; none without one.

    Of all looks at the making of batches, half found such a wait.
    """
    lines = run.looks(loader)
    looks, making = sum(one.for_threads for one in lines), sum(one.making for one in lines)
    found = Counter[tuple[str, str]]()
    at = Counter[tuple[str, str, int]]()
    for one in (each for line in lines for each in line.helpers):
        found[one.file, one.function] += one.looks
        at[one.file, one.function, one.line] += one.looks
    most, count = max(found.items(), key=lambda one: one[1], default=(("", ""), 0))
    if looks < _FEWEST or 2 * looks < making or 2 * count < looks:
        return {}
    _, _, line = max((one for one in at if one[:2] == most), key=lambda one: at[one])
    return {"helper_file": most[0], "helper_line": line, "helper": most[1], "helper_share": count / looks}
