"""Where one machine ends, in words: the command stands only where it would help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_plan import CHECKS, ELSEWHERE, HERE

from pipebench.render import layout, text
from pipebench.render.one_machine import ends
from pipebench.render.plan import parts
from pipebench.results import report
from pipebench.results.plan import Figure, Need, OneMachine

ENCODED = Need("storage", Figure(2e9, 1.7e9, 2.4e9), None, validated=False)
DECODED = Need("network", Figure(1.2e10, 1e10, 1.4e10), None, validated=False)
ENDS = OneMachine(
    2500.0, 8, Need("cores", Figure(200, 170, 235), 64.0), Figure(25, 21.3, 29.4), Figure(2.6, 2.2, 3.0),
    Figure(20, 17, 24), Figure(136, 106, 171), ENCODED, DECODED,
)  # fmt: skip


def _said(one: OneMachine | None, own: bool = False) -> str:
    return " ".join(ends(replace(HERE if own else ELSEWHERE, one_machine=one)))


def test_where_cores_are_lacking_it_names_the_command_and_what_must_cross() -> None:
    assert _said(ENDS) == (
        "One machine ends: a device takes 2,500 samples/s and needs 21.3–29.4 cores. The 64 here feed 2.2–3.0 devices "
        "(if a core is as fast as here). "
        "CPU-only nodes with 106–171 cores would read 1.7–2.4 GB/s (encoded) and send 10–14 GB/s (finished, 600 kB a "
        "sample). Never checked: network, storage, an engine's own cost. "
        "Then: `pipebench run --engine ray --ray-address HOST:6379` (docs/commands/run.md)."
    )


@pytest.mark.parametrize(("cores", "said"), [(400.0, "of one machine suffice: "), (200.0, "cannot be told: ")])
def test_where_cores_suffice_or_may_suffice_it_names_no_command(cores: float, said: str) -> None:
    shown = _said(replace(ENDS, cores=Need("cores", ENDS.cores.needed, cores)))
    assert said in shown and "--engine" not in shown and "CPU-only" not in shown


def test_one_machine_suffices_only_where_the_answer_is_not_that_it_would_not_feed_its_devices() -> None:
    one = replace(ENDS, cores=Need("cores", ENDS.cores.needed, 400.0))
    for fed in (True, None):
        assert " ".join(ends(replace(ELSEWHERE, one_machine=one, fed=fed))).startswith("One machine suffices: ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decoded": replace(DECODED, available=1e9)}, "would not help: the network named here is too slow."),
        ({"encoded": replace(ENCODED, available=1e9)}, "would not help: the storage named here is too slow."),
        ({"stays": Figure(90, 80, 100)}, "would not help: the loops' own work needs 80–100 cores here."),
        ({"stays": Figure(60, 50, 70)}, "Whether other machines help cannot be told"),
    ],
)
def test_where_another_resource_ends_too_it_says_which(change: dict[str, object], said: str) -> None:
    shown = _said(replace(ENDS, **change))  # type: ignore[arg-type]
    assert said in shown and "--engine" not in shown


def test_the_scripts_own_loop_is_called_so() -> None:
    one = replace(ENDS, devices=1, cores=Need("cores", Figure(25, 21, 29), 2.0), encoded=None, decoded=None)
    shown = _said(one, own=True)
    assert "the loop, if it never waited, takes 2,500" in shown and "such loops" in shown
    assert "the size of a sample is not known." in shown


def test_the_ranks_of_the_job_are_counted() -> None:
    ranks = replace(ELSEWHERE, one_machine=ENDS, part=8.0, asked=replace(ELSEWHERE.asked, devices=None))
    said = " ".join(ends(ranks))
    assert "The 64 here feed 2.2–3.0 devices, and 8 ranks share them (if a core is as fast as here)." in said


def test_an_older_plan_says_nothing() -> None:
    assert _said(None) == ""


def test_the_report_fits_a_screen() -> None:
    for found in (replace(ELSEWHERE, one_machine=ENDS), replace(HERE, one_machine=ENDS, checks=CHECKS)):
        shown = text.table(report.new(plan=found), width=80)
        assert len(shown.splitlines()) <= 30 and "One machine ends" in shown
        assert "docs/figures/prediction.md" in layout.text(parts(ELSEWHERE), width=80)
