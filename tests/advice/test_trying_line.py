"""What is said while a change is tried."""

import pytest

from pipebench.advise.command import _Progress
from pipebench.results.advice import Change


def test_it_says_what_is_tried_and_how_much_time_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    progress = _Progress(60.0)
    progress.trying(Change("num_workers", {"num_workers": 4}, "none"), 0)
    progress.left_s = lambda: 41.6
    progress.trying(Change("num_workers", {"num_workers": 8}, "none"), 1)
    progress.left_s = lambda: -3.0
    progress.trying(Change("num_workers", {"num_workers": 8}, "none"), 2)
    assert capsys.readouterr().err.splitlines() == [
        "pipebench: trying num_workers=4 (1), 60 s left",
        "pipebench: trying num_workers=8 (2), 42 s left",
        "pipebench: trying num_workers=8 (3), 0 s left",
    ]
