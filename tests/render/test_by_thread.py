"""A loader without workers that a thread beside the loop iterates is not said to load inside the loop."""

from pipebench.render.watch_verdict import verdict
from pipebench.results.watched import Verdict


def test_the_verdict_says_where_a_loader_without_workers_loads() -> None:
    found = {"limit": "data", "stage": "Crop", "stage_kind": "transform", "stage_share": 0.5, "loader": 1}
    assert "loading runs inside the loop" in verdict(Verdict(**found))  # type: ignore[arg-type]
    beside = verdict(Verdict(**found, by_thread=True))  # type: ignore[arg-type]
    assert "loading runs in a thread beside the loop" in beside
