"""Large rows of a real script are divided into lines, wherever the batches are made.

These experiments need a second or two of looks; what they find is planted, and far from any noise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import script, watched

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("real_starts")]


@pytest.mark.parametrize("loader", [["0"], ["2", "fork"], ["2", "forkserver"], ["2", "spawn"]], ids="-".join)
def test_the_line_that_takes_the_time_is_named(loader: list[str], tmp_path: Path) -> None:
    outcome = watched([script("drilled"), *loader], tmp_path)
    assert outcome.status == 0, outcome.err
    rows = {one["stage"]: one for one in outcome.watch["drilled"]}
    for row, function, text in (
        ("Sounds.__getitem__" if loader == ["0"] else "load_sound", "load_sound", "time.sleep(0.008)"),
        ("joined", "joined", "time.sleep(0.032)"),
    ):
        assert row in rows, outcome.err
        largest = rows[row]["lines"][0]
        assert (largest["function"], largest["text"]) == (function, text)
        assert largest["share"] > 0.8 and largest["file"] == script("drilled")
