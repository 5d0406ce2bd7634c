"""Fewer threads of torch in the script's own process: when, what is written, and what a trial does."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import Any, cast

import pytest
from fakes import Loader, Script, World
from made_up_costs import made
from made_up_trials import host, seen, worker

from pipebench.advise import judging
from pipebench.advise.conductor import Conductor
from pipebench.remedies import loop_threads, num_workers
from pipebench.results.advice import Change, Finding, Outcome
from pipebench.stats import Speedup
from pipebench.watch.record.trial_lines import LoaderMade
from pipebench.watch.trial.arms import CannotTry
from pipebench.watch.trial.loop_threads import LoopThreads

TORCH = ("torch", 2, "torch.set_num_threads(1)")
BUSY = (replace(worker(), cores=0.6),)


def finding(change: Change, speedup: float, outcome: Outcome = "gain") -> Finding:
    return Finding(change, outcome, Speedup(speedup, 0.99 * speedup, 1.01 * speedup, 0.95))


class _Torch:
    """torch, as far as the number of threads goes."""

    def __init__(self) -> None:
        self.threads, self.set = 2, list[int]()

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads
        self.set.append(threads)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> _Torch:
    found = _Torch()
    for name in ("get_num_threads", "set_num_threads"):
        monkeypatch.setattr(sys.modules["torch"], name, getattr(found, name))
    return found


def _seen(script: float = 1.3, **more: Any) -> Any:
    found = seen(**{"used": host(TORCH), "workers": BUSY, **more})
    return replace(found, loader=replace(found.loader, script_cores=script))


def test_one_thread_is_left_beside_a_worker_on_two_cores() -> None:
    change = loop_threads.propose(_seen(cores=2.0), [])
    assert change is not None and (change.loop_threads, change.title) == (1, "torch.set_num_threads(1)")
    assert change.how == ("Before the training loop: torch.set_num_threads(1)",) and change.partly


@pytest.mark.parametrize(
    "found",
    [
        _seen(cores=4.0),  # there is room for all
        _seen(cores=2.0, used=host(("torch", 1, TORCH[2]))),
        _seen(cores=2.0, used=host()),
        replace(_seen(cores=2.0), device=True),
    ],
)
def test_no_trial_where_no_thread_lacks_a_core(found: Any) -> None:
    assert loop_threads.propose(found, []) is None


def test_half_as_many_are_tried_as_long_as_that_gains() -> None:
    many = _seen(script=7.5, cores=8.0, used=host(("torch", 8, TORCH[2])))
    first = loop_threads.propose(many, [])
    assert first is not None and first.loop_threads == 7
    second = loop_threads.propose(many, [finding(first, 1.3)])
    assert second is not None and second.loop_threads == 3
    assert loop_threads.propose(many, [finding(first, 1.3), finding(second, 1.0, "no-gain")]) is None


def test_first_workers_come_with_fewer_threads_and_then_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = _seen(script=1.9, cores=2.0, workers=(), num_workers=0)
    alone = replace(
        alone, watched=replace(alone.watched, costs=(made(cpu=0.05, step=0.05, step_cpu_s=0.1, workers=0),))
    )
    first = num_workers.propose(alone, [])
    assert first is not None and (first.settings["num_workers"], first.loop_threads) == (2, 1)
    tried = [finding(first, 0.8, "slower")]
    second = num_workers.propose(alone, tried)
    assert second is not None and (second.settings["num_workers"], second.loop_threads) == (1, 1)
    tried.append(finding(second, 0.9, "no-gain"))
    third = num_workers.propose(alone, tried)
    assert third is not None and (third.settings["num_workers"], third.loop_threads) == (2, 0)
    assert num_workers.propose(alone, [*tried, finding(third, 0.9, "no-gain")]) is None


@pytest.mark.parametrize(("line", "workers", "best"), [(1.73, None, None), (1.73, 1.2, 1), (1.3, 1.2, 0)])
def test_needless_work_of_workers_comes_before_fewer_threads(
    line: float, workers: float | None, best: int | None
) -> None:
    needless = Change("slow_lines", {}, title="a part cut out first", predicted=line, of_script=True, or_more=True)
    found = Conductor(cast(Any, None), [], 60.0)
    found.findings = [finding(Change("loop_threads", {}, loop_threads=1), 1.41)]
    found.findings += [finding(Change("num_workers", {"num_workers": 4}), workers)] if workers else []
    found.findings.append(Finding(needless, "not-tried", reason="of-script"))
    assert found.advice().best == best


def test_together_they_are_one_change_and_not_twice() -> None:
    few = loop_threads.propose(_seen(cores=2.0), [])
    assert few is not None
    both = judging.together([finding(few, 1.3), finding(Change("prefetch_factor", {"prefetch_factor": 4}), 1.2)])
    assert both is not None and (both.loop_threads, both.settings) == (1, {"prefetch_factor": 4})
    assert both.title == "torch.set_num_threads(1)"


def test_one_thread_that_trains_beside_idle_cores_gets_all() -> None:
    one = host(("torch", 1, TORCH[2]))
    alone = replace(
        _seen(script=1.0, cores=4.0, used=one, wait_share=0.1), loader=replace(_seen().loader, script_cores=1.0)
    )
    change = loop_threads.propose(alone, [])
    assert change is not None and (change.loop_threads, change.predicted) == (3, pytest.approx(1 / (1 - 0.9 * 2 / 3)))
    assert loop_threads.propose(alone, [finding(change, 1.5)]) is None
    assert loop_threads.propose(_seen(script=1.0, cores=4.0, used=one, wait_share=0.6), []) is None
    assert loop_threads.propose(_seen(script=1.0, cores=2.0, used=one, wait_share=0.1), []) is None


def test_the_number_in_the_scripts_own_call_is_written(tmp_path: Any) -> None:
    script = tmp_path / "train.py"
    text = "import torch\ntorch.set_num_threads(1)\nloader = torch.utils.data.DataLoader(data, 4)\n"
    script.write_text(text)
    call = "torch.utils.data.DataLoader(data, 4)"
    found = _seen(script=1.0, cores=4.0, used=host(("torch", 1, TORCH[2])), wait_share=0.1)
    change = loop_threads.propose(replace(found, made=LoaderMade(1, str(script), 3, 3, 9, 9 + len(call), "", 100)), [])
    assert change is not None
    (rewrite,) = change.rewrites
    assert text[: rewrite.begin] + rewrite.new + text[rewrite.end :] == text.replace("threads(1)", "threads(3)")


def test_it_is_written_before_the_statement_that_makes_the_loader(tmp_path: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n\ndef main():\n    loader = torch.utils.data.DataLoader(data, 4)\n")
    call = "torch.utils.data.DataLoader(data, 4)"
    made = LoaderMade(1, str(script), 4, 4, 13, 13 + len(call), "main", 100)
    found = replace(_seen(cores=2.0), made=made)
    change = loop_threads.propose(found, [])
    assert change is not None and change.how == () and not change.partly
    (rewrite,) = change.rewrites
    text = script.read_text()
    after = text[: rewrite.begin] + rewrite.new + text[rewrite.end :]
    assert after.splitlines()[3:] == ["    torch.set_num_threads(1)", f"    loader = {call}"]


@pytest.mark.parametrize("by", ["windows", "passes"])
def test_the_script_trains_with_fewer_threads_on_the_changed_loaders_batches_only(
    by: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, torch: _Torch
) -> None:
    world = World()
    script = Script(tmp_path, monkeypatch, Loader(world, [[one] for one in range(200)]))
    script.order(1, {"num_workers": 2}, by=by, window_s=5.0, loop_threads=1)
    used = set()
    for _ in range(2):
        threads, before = list[int](), len(world.made)
        script.one_pass(then=lambda number, threads=threads: threads.append(torch.threads))  # type: ignore[misc]
        used |= {(name, after) for (name, _), after in zip(world.made[before:], threads[1:], strict=True)}
    assert used == {("own", 2), ("changed", 1)}
    assert torch.threads == 2


@pytest.mark.parametrize("by", ["windows", "passes"])
def test_a_loop_that_is_left_early_has_the_scripts_own_number_behind_it(
    by: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, torch: _Torch
) -> None:
    world, seen_inside = World(), set[int]()
    script = Script(tmp_path, monkeypatch, Loader(world, [[one] for one in range(200)]))
    script.order(1, {"num_workers": 2}, by=by, window_s=5.0, loop_threads=1)
    for most in range(10, 120, 7):
        script.one_pass(most, then=lambda number: seen_inside.add(torch.threads))
        assert torch.threads == 2
    assert seen_inside == {1, 2}


def test_a_new_order_changes_nothing_of_the_batches_of_the_one_before(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, torch: _Torch
) -> None:
    world = World()
    script = Script(tmp_path, monkeypatch, Loader(world, [[one] for one in range(400)]))
    script.order(1, {"num_workers": 2}, window_s=5.0)
    orders = {100: lambda: script.order(2, {"num_workers": 2}, window_s=5.0, loop_threads=1)}
    monkeypatch.setattr(LoopThreads, "check", lambda self, threads: (_ for _ in ()).throw(CannotTry("compiled")))
    script.one_pass(then=lambda number: orders.get(number, list)())
    assert torch.set == [] and [one.problem for one in script.failures][-1:] == ["compiled"]


def test_the_number_that_the_script_sets_meanwhile_stays(torch: _Torch) -> None:
    found = LoopThreads()
    found.use(1)
    torch.threads = 4
    found.use(0)
    assert torch.threads == 4
    found.use(0)
    assert torch.set == [1, 4]


def test_another_thread_and_a_compiled_model_are_refused(monkeypatch: pytest.MonkeyPatch, torch: _Torch) -> None:
    found, told = LoopThreads(), list[str]()

    def check() -> None:
        try:
            found.check(1)
        except CannotTry as error:
            told.append(str(error))

    other = threading.Thread(target=check)
    other.start()
    other.join()
    monkeypatch.setattr("pipebench.watch.trial.loop_threads.compiled", lambda: True)
    check()
    found.check(0)
    assert told == ["other-thread", "compiled"]
