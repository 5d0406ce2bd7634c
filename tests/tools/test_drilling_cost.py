"""What looks cost is computed from pairs of windows as it should be, and the page shows the report of its file."""

import json
import random
from pathlib import Path

import pytest

DOCS = Path(__file__).absolute().parents[2] / "docs"


def planted(tool, loss, scatter):
    """Pairs of windows whose throughput is lower by `loss` with looks, and scatters by pair."""
    chance, pairs = random.Random(1), []
    for _ in range(2000):
        rate = 100_000 * (1 + scatter * chance.random())
        off = tool.Window(0.1, 0.08, 0.0, round(0.1 * rate), 0)
        on = tool.Window(0.1, 0.08, 0.0005, round(0.1 * rate * (1 - loss)), 2)
        pairs.append((off, on))
    return pairs


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_a_planted_loss_is_found(tool, loss):
    for clock in ("wall_s", "cpu_s"):
        middle, low, high = tool.interval(tool.speedups(planted(tool, loss, 0.5), clock))
        assert middle == pytest.approx(1 - loss, abs=1e-3) and low <= middle <= high


def test_a_window_that_stood_still_does_not_count_alone(tool):
    pairs = planted(tool, 0.0, 0.0)
    pairs[7] = (pairs[7][0], pairs[7][1]._replace(pieces=0))
    middle, _, _ = tool.interval(tool.speedups(pairs, "wall_s"))
    assert middle == pytest.approx(1)


def test_the_page_shows_the_report_of_its_file(tool):
    lines = [json.loads(line) for line in (DOCS / "results" / "drilling_cost.jsonl").read_text().splitlines()]
    assert "\n".join(tool.report(lines)) in (DOCS / "figures" / "drilling.md").read_text()
