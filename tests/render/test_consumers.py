"""What a reader is told of how much the pipeline feeds, and how many cores a training needs: to the letter."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipebench.host.machine import Machine
from pipebench.reference.published_rates import PUBLISHED
from pipebench.render import consumers, layout, tables
from pipebench.results.consumers import Consumer
from pipebench.results.loading import LoaderRow, Loading
from pipebench.results.measurement import Warning
from pipebench.results.report import Report
from pipebench.results.training import Training
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.options import WatchOptions

GOLDEN = Path(__file__).parent / "golden" / "consumers-80.txt"
MACHINE = Machine("host", "Linux 6", "3.11.7", "Some CPU", 2, 1 << 34, 1 << 25, "ext4", None, "fork", {})
BUSY = Warning("foreign-load", "other processes used 120 % of a core", "stop them", 1.2)


def row(workers, rate, kind="map", warnings=(), core=150.0):
    return LoaderRow(
        kind, "float32", workers, 16, "fork", images_per_s=rate, low=rate * 0.95, high=rate * 1.05, confidence=0.97,
        images_per_core_s=core, core_low=core * 0.9, core_high=core * 1.1, warnings=warnings,
    )  # fmt: skip


def report(*rows, found=PUBLISHED, **parts):
    made = rows or (row(0, 190.0), row(1, 180.0), row(2, 340.0), row(2, 1663.0, "ready"))
    return Report(2, machine=MACHINE, loader=made, consumers=found, **parts)


def mine(rate, kind="stated", **interval):
    return (Consumer("train:step", rate, kind, **interval),)


def test_the_text_to_the_letter():
    """To accept a change of wording: delete the golden file, run this, and read the new file."""
    shown = layout.text([consumers.headline(report()), consumers.table(report())], width=80)
    if not GOLDEN.exists():
        GOLDEN.write_text(shown)
        pytest.fail(f"{GOLDEN.name} did not exist: read what was written")
    assert shown == GOLDEN.read_text()
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown


FEEDS = "Loading feeds 180 (±5 %) images/s with 1 core and 340 (±5 %) with 2, all that this machine has."


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (mine(150.0), "A consumer of 150 images/s needs 1 core."),
        (mine(300.0), "A consumer of 300 images/s needs 2 cores."),
        (mine(185.0), "A consumer of 185 images/s needs 1 to 2 cores."),
        (
            mine(1200.0),
            "A consumer of 1,200 images/s needs 7.1 cores (6.7–7.4, predicted); this machine has 2.",
        ),
        (
            mine(345.0),
            "A consumer of 345 images/s needs 2.0 cores (1.9–2.1, predicted); this machine has 2.",
        ),
        (
            mine(412.0, "measured", low=400.0, high=420.0),
            "train:step takes 412 images/s when its batches are ready: it needs 2.4 cores "
            "(2.2–2.6, predicted); this machine has 2.",
        ),
    ],
)
def test_the_headline_says_what_is_fed_and_what_the_users_consumer_needs(found, said):
    assert consumers.headline(report(found=found)) == f"{FEEDS} {said}"


def test_of_the_published_rates_the_slowest_that_was_not_fed_is_the_example():
    rows = (row(1, 400.0), row(2, 800.0))
    fed = consumers.headline(report(*rows))
    assert "For comparison: ResNet-50 on 1 RTX 3090 takes 1,218 images/s and would need 3.0 cores" in fed
    assert [line[3] for line in consumers.table(report(*rows)).rows][:3] == ["measured", "beyond here", "beyond here"]
    every = consumers.headline(report(row(1, 40_000.0), row(2, 80_000.0)))
    assert every.endswith("ResNet-50 v1.5 on 8 H100 SXM takes 56,078 images/s and would need 2 cores.")


def test_cores_that_others_had_are_said():
    held_up = report(row(1, 60.0, warnings=(BUSY,)), row(2, 120.0, warnings=(BUSY,)), found=mine(300.0))
    assert consumers.headline(held_up) == (
        "Loading feeds 60 (±5 %) images/s with 1 core and 120 (±5 %) with 2, all that this machine has. These "
        "rates are by the clock, and others had part of the cores: of 2 cores the loader got 0.8. By CPU time, a core "
        "feeds 150 (±10 %). A consumer of 300 images/s needs 2.0 cores (1.8–2.2, predicted); "
        "this machine has 2."
    )


def test_a_loader_that_got_all_cores_had_none_taken_away():
    """The hypervisor took a little; rounded, the loader got 2.0 of 2 cores."""
    held_up = report(row(1, 150.0, warnings=(BUSY,)), row(2, 297.0, warnings=(BUSY,)), found=mine(300.0))
    assert "others had" not in consumers.headline(held_up)


def test_what_cannot_be_said_is_not_said():
    assert consumers.headline(Report(2)) is None and consumers.table(Report(2)) is None
    assert consumers.table(report(found=())) is None
    unknown = replace(report(found=mine(1200.0)), machine=None)
    assert "this machine" not in consumers.headline(unknown)
    down = report(row(1, 300.0), row(2, 200.0), found=mine(900.0))
    assert consumers.headline(down).endswith("needs more than any number of cores fed here.")
    assert consumers.table(down).rows == (("train:step", "900", "", "not reached"),)


def test_a_model_that_stands_for_the_users_is_no_headline():
    def lines(**changes):
        made = replace(
            Training("fake", False, 10, Loading(), summarise([], WatchOptions(bound=True), 0, 1.0)), **changes
        )
        return tables.verdict(report(training=made)).splitlines()

    assert [line.split()[0] for line in lines()] == ["Loading", "No"]
    for changes in ({"given": True}, {"simulated": True}):
        assert [line.split()[0] for line in lines(**changes)] == ["Loading", "Whether", "No"]
