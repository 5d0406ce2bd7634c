"""What `tools/real_packages.py` counts as named, from a made-up result; and that its programs exist."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import StageResult

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def packages(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    for name in ("real_packages", "real_scripts", "real_sources"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import real_packages

    return real_packages


class Result:
    def __init__(self, stages, drilled=()):
        self.stages, self.drilled = stages, drilled


def stage(name, kind, seconds, loader=1):
    return StageResult(name, kind, loader, samples=10, exclusive_s_per_sample=seconds, worker_share=0.0)


STAGES = (
    stage("Own.__getitem__", "getitem", 0.02), stage("fetch", "getitem", 0.01), stage("shuffle", "getitem", 0.03),
    stage("Above.__getitem__", "function", 0.04),
)  # fmt: skip


def test_a_row_of_the_dataset_itself_has_no_name(packages):
    assert packages.named(Result(STAGES)) == pytest.approx((0.7, 0.7))
    assert packages.named(Result(())) == (0.0, 0.0)


def test_lines_of_a_large_row_count_beside_it(packages):
    line = DrilledLine("data.py", "__getitem__", 4, "", "", looks=30, share=0.75, low=0.6, high=0.9)
    ours = replace(line, file="", share=0.25)
    row = DrilledRow(1, "Own.__getitem__", "getitem", 0.2, looks=40, unread=0, lines=(line, ours))
    assert packages.named(Result(STAGES, (row,))) == pytest.approx((0.7, 0.85))
    assert packages.named(Result(STAGES, (replace(row, loader=2),))) == pytest.approx((0.7, 0.7))


def test_each_program_has_its_file(packages):
    for one in packages.PROGRAMS:
        assert one.folder or (packages.HERE / one.file).is_file(), one.name
        assert bool(one.dataset) == bool(one.loaders), one.name
