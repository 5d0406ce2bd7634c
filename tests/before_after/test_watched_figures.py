"""What is known of the error of a watched run: its instrument, its iterations, and what others took of the cores."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from saved_pairs import ranks, root, row, watched

from pipebench.before_after.watched import of_command, slack
from pipebench.before_after.whole import compared
from pipebench.errors import UsageError
from pipebench.render import text
from pipebench.render.before_after import verdict
from pipebench.results.account import Account, AccountRow

FILES = Path("a.json"), Path("b.json")
UNTOLD = "no difference detected"


def _run(faster=1.0, foreign=0.0, iterations=625, stolen=0.0):
    """A watched run on 2 cores that is so many times as fast, while others used so many cores."""
    found = watched().watched
    host = replace(found.host, foreign_cores=foreign, stolen_cores=stolen, machine_cores=2)
    loader = replace(found.loaders[0], s_per_iteration=0.1 / faster)
    return root(watched=replace(found, loaders=(loader, *found.loaders[1:]), host=host, iterations=iterations))


def _rate(base, head):
    return row(compared(base, head, FILES), "loader 1")


def test_work_before_the_model_is_compared_as_the_clock_tells_it():
    found = watched().watched
    rows = (AccountRow("prepare", 1.0, 0), AccountRow("before-backward", 2.0, 0), AccountRow("prepare", 3.0, 1))
    run = root(watched=replace(found, account=Account(6.0, rows)))
    told = {one.name: one.value for one in of_command(run) if one.group == "account"}
    assert told == {"before-backward": 3.0, "forward": 3.0}


def test_what_others_took_of_the_cores_is_in_the_interval():
    """1.5 times is told on a machine of one's own. It is not, if others had 0.6 of the 2 cores in the base alone."""
    assert _rate(_run(), _run(1.5)).verdict == "faster"
    found = _rate(_run(foreign=0.4, stolen=0.2), _run(1.5))
    assert found.verdict == "no difference detected"
    assert found.judgement.head_over_base.speedup == pytest.approx(1.5)
    assert _rate(_run(foreign=0.6), _run(4.0)).verdict == "faster"


def test_others_in_the_head_allow_that_it_could_be_faster_and_not_that_it_could_be_slower():
    quiet, busy = (_rate(_run(), _run(1.5, foreign)).judgement.head_over_base for foreign in (0.0, 1.0))
    assert busy.low == pytest.approx(quiet.low) and busy.high == pytest.approx(2 * quiet.high)
    assert slack(_run(foreign=1.0).watched) == pytest.approx(math.log(2))
    assert slack(_run(foreign=5.0).watched) == pytest.approx(math.log(20))
    assert slack(replace(watched().watched, host=None)) == 0.0
    assert slack(_run(foreign=None).watched) is None


def test_where_nobody_saw_what_others_took_only_cpu_time_is_judged():
    """Found with two reports of `advise` on a busy machine: 11 stages of equal code were "slower for certain"."""
    base, head = _run(foreign=None), _run(0.2, foreign=None)
    for sides in ((base, head), (_run(), head), (base, _run(0.2))):
        found = compared(*sides, FILES, fail_above=0.05)
        assert [one.name for one in found.rows if one.judgement is not None] == ["CPU time"]
        assert (found.gate, found.beside, found.wait_told) == ("no result", (), False)
    said = " ".join(text.table(root(before_after=found), width=80).split())
    assert "what others took of the cores is not known of both, so wall times are not judged" in said


def test_equal_code_beside_others_is_never_called_slower():
    """What others took slows a run by at most N / (N - F): then no pair of runs of equal code shows a difference."""
    rng = random.Random(0)
    for _ in range(50):
        sides = []
        for _ in range(2):
            foreign = rng.uniform(0, 1.9)
            least = (2 - foreign) / 2
            sides.append(_run(rng.uniform(least, 1.0), foreign))
        assert _rate(*sides).verdict == "no difference detected"


def test_few_iterations_say_less_than_many():
    few, many = (_rate(_run(iterations=count), _run(1.5, iterations=count)) for count in (6, 6000))
    assert few.verdict == "no difference detected" and many.verdict == "faster"


def test_the_report_says_that_others_were_there():
    found = compared(_run(foreign=1.2), _run(foreign=1.0), FILES)
    assert ("cores used by others", "1.2", "1.0") in [(one.name, one.base, one.head) for one in found.differing]
    assert found.floor.others == pytest.approx(2.5)
    assert compared(_run(), _run(), FILES).floor.others == 1.0


def test_cpu_time_is_told_where_others_had_the_cores():
    """Found on 2 cores of which others had 1.4: the same script took 11.7 to 12.2 ms of CPU time, and 15 to 43 ms."""
    base, head = (_run(faster, foreign=1.4) for faster in (1.0, 1.6))
    less = replace(head.watched.loaders[0], sample_cpu_s=base.watched.loaders[0].sample_cpu_s / 3)
    head = replace(head, watched=replace(head.watched, loaders=(less, *head.watched.loaders[1:])))
    found = compared(base, head, FILES)
    assert row(found, "loader 1").verdict == "no difference detected"
    assert row(found, "CPU time").verdict == "faster"
    assert "loading by CPU time 3.00× (" in verdict(found)


def test_a_gate_that_would_not_see_twice_the_time_is_not_passed():
    """Found: a gate of 5 % was passed between 97 and 57 samples/s, because only 1463 % would have failed it."""
    found = compared(_run(foreign=1.4), _run(0.6, foreign=1.4), FILES, fail_above=0.05)
    assert found.gate == "no result" and found.sees > 1
    assert "in so much noise it would only see a row that is" in " ".join(text.table(root(before_after=found)).split())
    assert compared(_run(), _run(), FILES, fail_above=0.05).gate == "passed"
    assert compared(_run(foreign=1.4), _run(20.0, foreign=1.4), FILES, fail_above=0.05).gate == "passed"


@pytest.mark.parametrize(("foreign", "verdict"), [(0.0, "slower"), (1.1, UNTOLD), (None, UNTOLD)])
def test_cpu_time_holds_what_others_do_on_the_same_core(foreign, verdict):
    """Found: one script with one worker took 4.2 to 6.3 ms a sample on 2 threads of one core, beside others."""
    base, head = _run(foreign=foreign), _run(foreign=foreign)
    more = replace(head.watched.loaders[0], sample_cpu_s=1.48 * base.watched.loaders[0].sample_cpu_s)
    head = replace(head, watched=replace(head.watched, loaders=(more, *head.watched.loaders[1:])))
    assert row(compared(base, head, FILES), "CPU time").verdict == verdict


@pytest.mark.parametrize(("workers", "gate"), [(2, "failed"), (4, "no result")])
def test_cpu_time_fails_the_gate_where_as_many_workers_made_the_samples(workers, gate):
    """More workers raise it: two of them share the caches and the clock of a chip."""
    base = _run()
    first = base.watched.loaders[0]
    more = replace(first, sample_cpu_s=30 * first.sample_cpu_s, workers=workers)
    base = replace(base, watched=replace(base.watched, loaders=(replace(first, workers=2), *base.watched.loaders[1:])))
    head = replace(base, watched=replace(base.watched, loaders=(more, *base.watched.loaders[1:])))
    found = compared(base, head, FILES, fail_above=0.05)
    assert found.gate == gate
    assert found.verdict == ("slower" if gate == "failed" else "no difference detected")


def test_another_dataset_is_other_data_and_the_same_use_of_cores_is_no_difference():
    base = _run(foreign=1.2)
    other = replace(base.watched.loaders[0], dataset="Other")
    head = replace(base, watched=replace(base.watched, loaders=(other, *base.watched.loaders[1:])))
    with pytest.raises(UsageError, match="Other"):
        compared(base, head, FILES)
    assert compared(base, base, FILES).differing == ()
    assert "Machine and versions are the same." in text.table(root(before_after=compared(base, base, FILES)))


def test_a_loop_whose_batches_come_in_bursts_is_judged_and_a_large_loss_is_told():
    """Three of four iterations wait for no batch: then the median says nothing of their mean."""

    def bursts(faster):
        found = _run(faster).watched
        length_s = sum(one.s_per_iteration for one in found.loop)
        return root(watched=replace(found, iteration_p50_s=length_s / 50, iteration_p95_s=3.9 * length_s,
                                    iteration_p99_s=4 * length_s, iterations=48 * 8))  # fmt: skip

    found = compared(bursts(1.0), bursts(0.2), FILES, fail_above=0.05)
    assert row(found, "loader 1").verdict == "slower" and found.gate == "failed"
    assert row(compared(bursts(1.0), bursts(0.9), FILES), "loader 1").verdict == "no difference detected"


def test_iterations_of_other_batches_are_not_judged():
    base, head = _run(), _run()
    loaders = tuple(replace(one, batch_size=64, content=None) for one in head.watched.loaders)
    loop = tuple(replace(one, s_per_iteration=2 * one.s_per_iteration) for one in head.watched.loop)
    costs = tuple(replace(one, samples=64.0) for one in head.watched.costs)
    head = root(watched=replace(head.watched, loaders=loaders, loop=loop, costs=costs))
    found = compared(base, head, FILES)
    assert not [one for one in found.beside if one.group == "iteration"]
    assert [one for one in found.rows if one.group == "iteration"]


@pytest.mark.parametrize(("after", "told"), [(0.0, True), (0.02, True), (0.7, False)])
def test_a_wait_is_told_by_its_share(after, told):
    base, head = _run(iterations=6000), _run(iterations=6000)
    base, head = (root(watched=replace(one.watched, wait_share=share)) for one, share in ((base, 0.73), (head, after)))
    found = compared(base, head, FILES)
    assert found.wait == (0.73, after) and found.wait_told is told
    assert ("Wait ~" in verdict(found)) is not told


def test_what_ranks_cost_each_other_is_no_figure_where_the_length_of_a_step_is_not_known():
    for step_s, told in ((0.1, True), (0.0, False)):
        report = ranks(0.01)
        together = replace(report.command.ranks, step_s=step_s)
        found = {one.name for one in of_command(replace(report, command=replace(report.command, ranks=together)))}
        assert ("a step waits for the last rank" in found) == told and "rank 1, wait" in found
