"""Live windows beside their replays, against known answers on a fake clock; and what the report says of them."""

import time
from dataclasses import replace

import pytest
import torch
from fake import FakeClock
from fakeloop import FakeConsumer, FakeLive
from plantedworkers import Stack

from pipebench.host import machine
from pipebench.reference import live_vs_replay, worker_health
from pipebench.reference.dataloader import Live
from pipebench.reference.live_vs_replay import BoundPlan, Setting, alternate, result
from pipebench.reference.pipeline import Batch
from pipebench.reference.training_loop import Simulated, copied, train
from pipebench.render import feeding
from pipebench.results.loading import Loading


def planted(wait=0.030, slowed=1.25, rounds=6, noise=0.0, **options):
    clock = FakeClock(noise)
    consumer = FakeConsumer(clock, 0.001, 0.007, 0.010, 0.002)
    live = FakeLive(clock, consumer, wait, slowed)
    plan = BoundPlan(rounds=rounds, budget_s=1e9)
    *_, windows = alternate(live, consumer, plan, window=4, warm=2, copy=copied, now=lambda: clock.now, **options)
    return live, consumer, windows


def measured(windows, **changes):
    setting = Setting("fake", False, 10, 4, Loading(), 1.5)
    return replace(result(setting, windows), **changes)


def test_the_planted_wait_and_step_come_out():
    _, _, windows = planted()
    found = measured(windows)
    assert found.live.samples_per_s == pytest.approx(10 / 0.050)
    assert found.bound.samples_per_s == pytest.approx(10 / 0.020)
    assert found.bound_busy.samples_per_s == pytest.approx(10 / 0.025)
    assert found.wait_share == pytest.approx(0.6)
    assert found.bound_over_live.speedup == pytest.approx(2.5)
    assert found.busy_over_live.speedup == pytest.approx(2.0)
    assert (len(found.live.readings_s), found.live.samples) == (6, (40,) * 6)
    assert found.drain_s == 0.25 and found.startup_s == 1.5


def test_noise_stays_inside_the_interval():
    _, _, windows = planted(noise=0.05, rounds=12)
    found = measured(windows)
    assert found.bound_over_live.low <= 2.5 <= found.bound_over_live.high
    assert found.bound_over_live.told


def test_replays_use_copies_of_exactly_the_live_windows_batches():
    _, consumer, _ = planted(rounds=1)
    warm, live, first, second = (consumer.seen[begin:end] for begin, end in ((0, 2), (2, 6), (6, 10), (10, 14)))
    assert [float(one[0]) for one in warm + live] == [0, 1, 2, 3, 4, 5]
    for replay in (first, second):
        assert [float(one[0]) for one in replay] == [2, 3, 4, 5]
        assert not {one.data_ptr() for one in replay} & {one.data_ptr() for one in live}


def test_a_live_window_follows_a_drained_queue_and_idle_ones_wait_for_the_workers():
    live, _, _ = planted(rounds=2)
    told = [one for one in live.done if one != "next"]
    busy = ("drawing", 0.05)
    assert told == ["discard", busy, "settle", "discard", "settle", busy]


def test_where_there_is_a_device_a_third_replay_comes_from_its_memory():
    _, _, windows = planted(rounds=6, to_device=copied)
    assert measured(windows).bound_device.samples_per_s == pytest.approx(500)
    assert measured(windows).device_over_live.speedup == pytest.approx(2.5)


def test_rounds_end_with_the_budget_but_not_before_the_fewest():
    clock = FakeClock(0)
    consumer = FakeConsumer(clock, forward=1.0)
    rounds = alternate(
        FakeLive(clock, consumer, 1.0),
        consumer,
        BoundPlan(rounds=50, least_rounds=3, budget_s=5.0),
        window=2,
        warm=0,
        copy=list,
        now=lambda: clock.now,
    )
    assert len(list(rounds)) == 3


def test_the_verdict_says_whether_training_waits():
    _, _, windows = planted()
    assert feeding.waiting(measured(windows)) == (
        "Training waits for data: 60 % of an iteration (fake; 1 worker). 200 samples/s live, 500 with its batches "
        "ready. Removing all data work: at most 2.50× (2.50–2.50); overlapping it with training: 2.00×."
    )
    _, _, windows = planted(wait=0.0, slowed=1.0)
    assert feeding.waiting(measured(windows)) == (
        "Training does not wait for data: 0 % of an iteration (fake; 1 worker). 500 samples/s; speed-up from removing "
        "all data work: no measurable gain."
    )


def test_one_window_is_too_few_for_a_verdict():
    _, _, windows = planted(rounds=1)
    assert feeding.waiting(measured(windows)).startswith(
        "1 window is too few to say whether training waits for data. It waited 60 % of an iteration"
    )


def test_a_simulated_run_is_labelled_and_what_is_in_no_window_is_said():
    _, _, windows = planted()
    table = feeding.training(measured(windows, simulated=True, epoch_boundary_s=0.5, oversubscribed=True))
    notes = "\n".join(table.notes)
    assert "simulated: instead of training a model, the loop waits for the stated time" in notes
    assert "Not included above: start-up 1.50 s, draining the queue 250 ms, epoch boundary 500 ms" in notes
    assert "more than the usable cores" in notes
    assert [row[0] for row in table.rows] == [
        "live", "batches ready, workers busy", "batches ready, workers idle",
    ]  # fmt: skip


class PacedLive(FakeLive):
    """Workers in step: `workers` batches come at once, after `wait` for each."""

    def __init__(self, clock, consumer, wait, workers):
        super().__init__(clock, consumer, 0.0)
        self.loading, self.burst_s = Loading(workers=workers), wait * max(1, workers)

    def __iter__(self):
        return self

    def __next__(self):
        batch = super().__next__()
        if int(batch.images[0]) % max(1, self.loading.workers) == 0:
            self.clock.spend(self.burst_s)
        return batch

    def discard(self):
        for _ in range(self.loading.in_flight):
            next(self)
        return 0.0


@pytest.mark.parametrize(("workers", "window"), [(0, 10), (1, 10), (3, 12), (8, 16), (200, 400)])
def test_a_window_is_whole_turns_of_the_workers(monkeypatch, workers, window):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 0)
    clock = FakeClock(0)
    live = PacedLive(clock, None, 0.050, workers)
    monkeypatch.setattr(live_vs_replay, "train", lambda *given: train(*given, now=lambda: clock.now))
    first = Batch(torch.zeros(10, 1), torch.zeros(10))
    found = live_vs_replay._window(live, first, FakeConsumer(clock), BoundPlan(window_s=0.5))
    assert found == window


def test_batches_that_come_in_bursts_are_measured_at_their_true_rate(monkeypatch):
    clock = FakeClock(0)
    consumer = FakeConsumer(clock)
    live = PacedLive(clock, consumer, 0.050, 3)
    rounds = alternate(live, consumer, BoundPlan(rounds=6), window=6, warm=6, copy=copied, now=lambda: clock.now)
    *_, windows = rounds
    assert [one.elapsed_s for one in windows.live] == pytest.approx([0.3] * 6)


def test_a_window_that_was_asked_for_is_marked_where_it_flatters(monkeypatch):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 1000)
    assert list(live_vs_replay._of_window(12, 3, 200)) == []
    uneven, small = live_vs_replay._of_window(4, 3, 200)
    assert (uneven.code, uneven.remedy) == ("uneven-window", "use --window 6")
    assert uneven.problem == "4 batches a window, where batches come in bursts of 3, one from each worker"
    assert (small.code, small.remedy) == ("replayed-from-cache", "use --window 6")


class Slow(torch.utils.data.Dataset):
    """A sample that takes 10 ms and no CPU."""

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.010)
        return torch.zeros(3, 8, 8), 0


@pytest.mark.timing
def test_a_real_loader_of_40_ms_before_a_device_of_20_ms_waits_half_of_its_time():
    notebook = worker_health.Notebook(1)
    with Live(Slow(), Loading(workers=1), 4, Stack(notebook), notebook=notebook) as live:
        live.start()
        plan = BoundPlan(rounds=8, budget_s=60)
        *_, windows = alternate(live, Simulated(0.020), plan, window=8, warm=2, copy=copied)
    found = measured(windows)
    assert found.live.samples_per_s == pytest.approx(100, rel=0.1)
    assert found.bound.samples_per_s == pytest.approx(200, rel=0.1)
    assert found.wait_share == pytest.approx(0.5, abs=0.08)
    assert found.bound_over_live.speedup == pytest.approx(2.0, rel=0.12)
