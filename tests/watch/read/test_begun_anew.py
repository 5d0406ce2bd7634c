"""What each pass does anew, whether its workers are new or live on: a stream begins, and a sampler makes its list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.next_move import NextMove
from pipebench.watch.read.drawn_lines import line_of_sampler
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import CodePlace, HandedOver, LoaderFound, LoopLooks
from pipebench.watch.record.sample_calls import LineRun, LineRuns
from pipebench.watch.record.trial_lines import LineLooks


def _stream(*, start_up: int, **how: Any) -> Planted:
    """Nine passes over a stream. To begin it takes 900 ms, and a batch 40 ms."""
    run = Planted()
    run.loader(passes=9, start_up=start_up, forward=1000, iterable=True, **how)
    first = HandedOver(0, 0, 0, 0, 860 * MS, 0, 860 * MS, 1, 0, 0, 0, 0, 0, created_ns=80 * MS)
    later = first._replace(task=1, nth=1, done=40 * MS, sent=40 * MS, created_ns=0)
    run.worker(handed=[one._replace(number_of_pass=number) for one in (first, later) for number in range(9)])
    return run


BEGUN = (
    "Each pass begins the stream anew, also in workers that live on: its first batch took 940 ms, and a usual one "
    "40.0 ms, 7.20 s more in all."
)
HELPS = (
    " What can help: one iterator for all passes, over a stream that does not end, a smaller shuffle buffer, or "
    "decoding after that buffer."
)


def test_a_stream_that_begins_anew_in_each_pass() -> None:
    """Only the start of the processes is promised: 60 ms in each later pass. What else would save, nobody knows."""
    account = _stream(start_up=1000).account()
    cause = account.causes[0]
    assert (cause.code, cause.s, cause.recoverable_s) == ("start-up", pytest.approx(9), None)
    (row,) = [one for one in account.rows if one.code == "start-up"]
    assert row.recoverable_s == pytest.approx(8 * 0.06)
    assert (
        f"9 passes over loader 1. {BEGUN} persistent_workers=True could save about 480 ms (predicted, not tried), and "
        f"more only where the dataset keeps what it made, such as an open archive.{HELPS}" in said(account)
    )


@pytest.mark.parametrize(("sampler_ms", "first"), [(200, "sampler"), (120, "start-up")])
def test_a_cause_with_a_larger_known_saving_comes_first(sampler_ms: int, first: str) -> None:
    """Workers that live on save 1.28 s of 9.9. Of the sampler, 1.8 or 1.08 s could be saved. Both are said."""
    account = _stream(start_up=1100, sampler=sampler_ms).account()
    causes = {one.code: one for one in account.causes if one.code in ("start-up", "sampler")}
    assert next(iter(causes)) == first and causes["start-up"].recoverable_s is None
    assert causes["start-up"].values["kept_s"] == pytest.approx(1.28)
    assert causes["sampler"].recoverable_s == pytest.approx(9 * sampler_ms / 1000)
    text = said(account)
    assert "The sampler of loader 1 took" in text and "7.20 s more in all." in text


def test_a_stream_that_begins_anew_in_workers_that_live_on() -> None:
    account = _stream(start_up=940, persistent=True).account()
    assert account.causes[0].code == "start-up"
    assert f"9 passes over loader 1. {BEGUN}{HELPS}" in said(account)


def test_processes_that_take_longer_to_start_than_a_stream() -> None:
    account = _stream(start_up=2940).account()
    assert account.causes[0].recoverable_s == pytest.approx(8 * 2)
    assert f"persistent_workers=True could save about 16.0 s (predicted, not tried). {BEGUN}{HELPS}" in said(account)


@pytest.mark.parametrize(
    ("looks", "told"),
    [((12, 4), "Balanced.of_class, balanced.py:54"), ((9, 0), ""), ((12, 13), "Balanced.__iter__, balanced.py:51")],
)
def test_the_line_of_a_sampler_is_told_where_half_of_many_looks_found_it(looks: tuple[int, int], told: str) -> None:
    lines = [LineLooks("/a/balanced.py", name, line, "", seen) for (name, line), seen in
             zip((("Balanced.of_class", 54), ("Balanced.__iter__", 51)), looks, strict=True)]  # fmt: skip
    run = Planted()
    run.loader(**TRAINS, sampler=2000)
    run.lines.append(LoopLooks(1, "train.py", 50, [], drawn=lines))
    run.lines = [
        replace(one, sampler="Balanced.__iter__", sampler_at=CodePlace("/a/balanced.py", 49))
        if isinstance(one, LoaderFound) else one for one in run.lines
    ]  # fmt: skip
    assert f"The sampler of loader 1 ({told or 'Balanced.__iter__, balanced.py:49'}) took" in said(run.account())


SAMPLER = """\
class Balanced(Sampler):
    def __iter__(self):
        for _ in range(self.n):
            want = random.randrange(9)
            yield random.choice(self.places(want))

    def places(self, want):
        found = []
        for at in range(len(self.labels)):
            if self.labels[at] == want:
                found.append(at)
        return found

    def weighted(self):
        return np.random.choice(len(self.p), p=self.p)
""".splitlines(keepends=True)


@pytest.mark.parametrize(
    ("line", "runs", "told"),
    [
        (10, 5000, "change balanced.py:10 (Balanced.places, 80 % of the sampler, runs 5,000 times an iteration) to "
                   "places of each label collected once. It compares many items for each index. When the sampler"),
        (10, 90, "make the sampler faster (Balanced.places, balanced.py:10)"),
        (15, 0, "change balanced.py:15 (Balanced.places, 80 % of the sampler) to weights summed up once. NumPy's"),
    ],
)  # fmt: skip
def test_what_is_written_in_place_of_the_line_of_a_sampler(
    line: int, runs: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        line_of_sampler, "__defaults__", (lambda _, at: SAMPLER[at - 1] if 0 < at <= len(SAMPLER) else "",)
    )
    looks = [LineLooks("/a/balanced.py", "Balanced.places", at, "", seen) for at, seen in ((line, 16), (4, 4))]
    run = Planted()
    run.loader(**TRAINS, sampler=2000)
    run.lines.append(LoopLooks(1, "train.py", 50, [], drawn=looks))
    run.lines += [LineRuns(1, "iteration", "wait", True, 20 * MS, [LineRun("/a/balanced.py", line, runs)])] * bool(runs)
    run.lines = [
        replace(one, sampler="Balanced.__iter__", sampler_at=CodePlace("/a/balanced.py", 2))
        if isinstance(one, LoaderFound) else one for one in run.lines
    ]  # fmt: skip
    move = NextMove("shorten-wait-part", 2.0, loader=1, wait_part="sampler", wait_part_s=0.02)
    said_first = next_move(move_of_run(move, run.account().causes, 2.0)) or ""
    assert said_first.startswith(f"Next: {told}")


def test_a_sampler_that_begins_twice_where_workers_are_new() -> None:
    """Workers that live on would save one of its two calls in each later pass, and nothing of the first pass."""
    run = Planted()
    run.loader(**TRAINS, sampler=2000, start_up=10, passes=6, twice=990)
    account = run.account()
    assert account.causes[0].code == "sampler" and account.causes[0].s == account.causes[0].recoverable_s
    assert said(account).startswith(
        "The sampler of loader 1 took 12.0 s of the run's 18.2 s (66 %), 20.0 ms a batch, in the script's own process. "
        "A sampler that takes hardly any time could save about 12.0 s (predicted, not tried). torch calls its __iter__ "
        "twice where workers are new. persistent_workers=True would save the second call: about 4.95 s."
    )


def test_a_device_is_idle_while_the_sampler_begins() -> None:
    """Of 400 ms of the sampler, the loop waited for 100. There, the device was idle for a quarter of the waits."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=900, sampler=400, asked=100, idle=325)
    (row,) = [one for one in run.account().rows if one.code == "sampler"]
    assert row.recoverable_s == pytest.approx(0.3 + 0.25 * 0.1)
