"""The training loop against known answers: planted steps and waits and workers that are killed, hang."""

import itertools
import os
import re
import signal
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from fake import FakeClock

from pipebench import bound, feed, guard, lab, machine, workers
from pipebench.bound import BoundPlan, Setting, alternate, result
from pipebench.errors import BadSample, PipebenchError
from pipebench.feed import Batch
from pipebench.live import Live, Loading, reference
from pipebench.loader import LoaderPlan
from pipebench.measure import Plan
from pipebench.render import feeding
from pipebench.stage import Workload
from pipebench.training import Cached, Model, Simulated, copied, one_thread, train

WORKLOAD = Workload(data="tiny", batch_size=4)
METHODS = [
    "fork",
    pytest.param("spawn", marks=pytest.mark.slow),
    pytest.param("forkserver", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


class FakeConsumer:
    """A consumer whose phases take what they are told to on a fake clock; `slow` multiplies them."""

    label = "fake"

    def __init__(self, clock, transfer=0.0, forward=0.0, backward=0.0, optimise=0.0):
        self.clock, self.slow, self.seen = clock, 1.0, []
        self._costs = {"transfer": transfer, "forward": forward, "backward": backward, "optimise": optimise}

    def _spend(self, name):
        self.clock.spend(self._costs[name] * self.slow)

    def transfer(self, batch):
        self._spend("transfer")
        self.seen.append(batch.images)
        return batch

    def forward(self, batch):
        self._spend("forward")
        return "loss"

    def backward(self, loss):
        self._spend("backward")

    def optimise(self):
        self._spend("optimise")

    def finish(self): ...


class FakeLive:
    """Batches of 10 samples that take `wait` to come; while they are drawn by a thread, the consumer is slower."""

    def __init__(self, clock, consumer, wait, slowed=1.0):
        self.clock, self.consumer, self.wait, self.slowed = clock, consumer, wait, slowed
        self.done, self.number = [], itertools.count()

    def __next__(self):
        self.clock.spend(self.wait)
        self.done.append("next")
        return Batch(torch.full((10, 1), float(next(self.number))), torch.zeros(10))

    def discard(self):
        self.done.append("discard")
        return 0.25

    def settle(self):
        self.done.append("settle")

    @contextmanager
    def drawing(self, interval_s):
        self.done.append(("drawing", round(interval_s, 6)))
        self.consumer.slow = self.slowed
        yield
        self.consumer.slow = 1.0


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


def test_the_loop_times_every_phase_and_tells_every_callback_every_event():
    clock, told = FakeClock(0), []
    consumer = FakeConsumer(clock, 0.001, 0.002, 0.003, 0.004)
    live = FakeLive(clock, consumer, 0.010)

    def slow(event, state):
        clock.spend(0.005 if event == "stepped" else 0)
        told.append((event, state.iteration, state.batch is not None, state.loss))

    window = train(iter(live.__next__, None), consumer, 2, callbacks={"slow": slow}, now=lambda: clock.now)
    assert [event for event, *_ in told[:6]] == ["asked", "got", "transferred", "forward", "backward", "stepped"]
    assert told[0][2:] == (False, None) and told[1][2:] == (True, None) and told[3][2:] == (True, "loss")
    phases = {"wait": 0.02, "transfer": 0.002, "forward": 0.004, "backward": 0.006, "optimiser": 0.008}
    assert dict(window.phases) == pytest.approx({**phases, "callbacks": 0.01})
    assert window.callbacks["slow", "stepped"] == pytest.approx(0.01)
    assert (window.samples, window.iterations) == (20, 2)
    assert window.elapsed_s == pytest.approx(0.05)
    assert window.share("wait") == pytest.approx(0.4)


def test_a_batch_without_a_good_sample_is_counted_and_not_trained_on():
    clock = FakeClock(0)
    consumer = FakeConsumer(clock, forward=1.0)
    window = train(iter([Batch(None, None)]), consumer, 1, now=lambda: clock.now)
    assert (window.samples, window.elapsed_s, window.iterations) == (0, 0.0, 1)


def test_a_simulated_device_takes_its_time_and_says_what_it_is():
    slept = []
    device = Simulated(0.025, slept.append)
    train(Cached([Batch(torch.zeros(2, 1), torch.zeros(2))]), device, 3)
    assert slept == [0.025] * 3
    assert device.label == "simulated device, 25.0 ms a batch"


def test_the_planted_wait_and_step_come_out():
    _, _, windows = planted()
    found = measured(windows)
    assert found.live.samples_per_s == pytest.approx(10 / 0.050)
    assert found.bound.samples_per_s == pytest.approx(10 / 0.020)
    assert found.bound_busy.samples_per_s == pytest.approx(10 / 0.025)
    assert found.wait_share == pytest.approx(0.6)
    assert found.bound_to_live.ratio == pytest.approx(0.4)
    assert found.busy_to_live.ratio == pytest.approx(0.5)
    assert (len(found.live.readings_s), found.live.samples) == (6, (40,) * 6)
    assert found.drain_s == 0.25 and found.startup_s == 1.5


def test_noise_stays_inside_the_interval():
    _, _, windows = planted(noise=0.05, rounds=12)
    found = measured(windows)
    assert found.bound_to_live.low <= 0.4 <= found.bound_to_live.high
    assert found.bound_to_live.told


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
    assert measured(windows).device_to_live.ratio == pytest.approx(0.4)


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
        "ready: removing all data work could buy at most 2.50× (2.50–2.50); hiding it, 2.00×."
    )
    _, _, windows = planted(wait=0.0, slowed=1.0)
    assert feeding.waiting(measured(windows)).startswith(
        "Training does not wait for data: 0 % of an iteration (fake; 1 worker). 500 samples/s; "
    )


def test_one_window_is_too_few_for_a_verdict():
    _, _, windows = planted(rounds=1)
    assert feeding.waiting(measured(windows)).startswith(
        "Whether training waits for data cannot be told from 1 windows"
    )


def test_a_simulated_run_is_labelled_and_what_is_in_no_window_is_said():
    _, _, windows = planted()
    table = feeding.training(measured(windows, simulated=True, epoch_boundary_s=0.5, oversubscribed=True))
    notes = "\n".join(table.notes)
    assert "simulated: the consumer waits for the stated time" in notes
    assert "in no window: start-up 1.50 s, draining the queue 250 ms, epoch boundary 500 ms" in notes
    assert "more than the usable cores" in notes
    assert [row[0] for row in table.rows] == [
        "live", "batches ready, workers as busy as live", "batches ready, workers idle",
    ]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_workers_build_the_same_batches_under_every_start_method(method, stream):
    def batches(loading):
        with reference(WORKLOAD, loading) as live:
            return [live.start(), next(live), next(live)]

    ours = batches(Loading(workers=1, start_method=method, stream=stream))
    theirs = batches(Loading(workers=0, stream=stream))
    for one, other in zip(ours, theirs, strict=True):
        assert one.images.shape == (4, 3, 224, 224) and one.images.dtype == torch.float32
        assert torch.equal(one.images, other.images) and torch.equal(one.labels, other.labels)


def test_bytes_cross_as_bytes_and_a_model_trains_on_them():
    with reference(WORKLOAD, Loading(), feed.BYTES) as live, one_thread():
        batch = live.start()
        assert batch.images.dtype == torch.uint8
        model = Model(WORKLOAD, side=32)
        before = [one.detach().clone() for one in model.network.parameters()]
        train(Cached([batch]), model, 2)
        assert any(not torch.equal(one, other) for one, other in zip(model.network.parameters(), before, strict=True))


def test_more_workers_than_shards_all_get_samples():
    with reference(WORKLOAD, Loading(workers=3, stream=True)) as live:
        live.start()
        assert all(next(live).samples == 4 for _ in range(6))


def test_settled_workers_have_made_all_that_they_may_and_a_thread_keeps_them_busy():
    with reference(WORKLOAD, Loading(workers=1)) as live:
        live.start()
        live.settle()
        assert live.notebook.batches_made == 3
        with live.drawing(0.0):
            deadline = time.monotonic() + 20
            while live.notebook.batches_made < 10 and time.monotonic() < deadline:
                time.sleep(0.01)
        live.settle()
        assert live.notebook.batches_made == live._drawn + 2 >= 10


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("stream", [False, True])
def test_a_boundary_between_epochs_is_met_where_it_is_asked_for(persistent, stream):
    with reference(WORKLOAD, Loading(workers=1, persistent_workers=persistent, stream=stream)) as live:
        live.start()
        for _ in range(6):  # more than an epoch of 16 samples
            next(live)
        assert live.boundary() > 0
        assert next(live).samples == 4
        live.settle()


class Planted(torch.utils.data.Dataset):
    """Samples that are there at once, but for the one at which something happens in the worker."""

    def __init__(self, notebook, at, action):
        self.notebook, self.at, self.action = notebook, at, action

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.notebook.begin(f"sample-{index}")
        if self.at is not None and index >= self.at:
            self.action()
        return torch.zeros(3, 8, 8), 0


def sleeping_in_c():
    time.sleep(60)


class Stack:
    def __init__(self, notebook):
        self.notebook = notebook

    def __call__(self, items):
        batch = Batch(torch.stack([image for image, _ in items]), torch.tensor([label for _, label in items]))
        self.notebook.made()
        return batch


def opened(action, at=0, timeout_s=20.0):
    notebook = workers.Notebook(1)
    loading = Loading(workers=1, timeout_s=timeout_s, start_method="fork")
    return Live(Planted(notebook, at, action), loading, 4, Stack(notebook), notebook=notebook)


def test_a_killed_worker_is_named_with_its_signal_and_its_last_sample():
    with pytest.raises(workers.WorkerFailure) as raised, opened(lambda: os.kill(os.getpid(), signal.SIGKILL)) as live:
        live.start()
    assert re.fullmatch(r"worker 0 was killed by SIGKILL at sample sample-\d+", raised.value.problem)
    assert "memory" in raised.value.remedy


def test_a_worker_killed_while_nothing_is_asked_of_it_ends_the_run_too():
    with pytest.raises(workers.WorkerFailure, match="was killed by SIGKILL"), opened(None, at=None) as live:
        live.start()
        live.settle()
        os.kill(live.pids[0], signal.SIGKILL)
        time.sleep(10)


def test_a_worker_that_leaves_quietly_is_noticed():
    with (
        pytest.raises(workers.WorkerFailure, match="worker 0 left with exit status 0 at sample"),
        opened(lambda: os._exit(0), timeout_s=1.0) as live,
    ):
        live.start()


def test_a_hanging_worker_is_shown_with_its_stack():
    with pytest.raises(workers.WorkerFailure) as raised, opened(sleeping_in_c, timeout_s=1.0) as live:
        live.start()
    assert re.match(r"worker 0 has made no batch for 1.00 s; it is at sample sample-\d+", raised.value.problem)
    assert "sleeping_in_c" in raised.value.stack
    assert raised.value.stack in raised.value.remedy


def test_a_stopped_worker_is_called_stopped():
    with pytest.raises(workers.WorkerFailure) as raised, opened(None, at=None, timeout_s=1.0) as live:
        live.start()
        os.kill(live.pids[0], signal.SIGSTOP)
        for _ in range(10):
            next(live)
    assert "it did not answer (it is stopped)" in raised.value.remedy


class Holding:
    """A dataset with an attribute that does not travel, below one that does."""

    def __init__(self):
        self.fine = 1
        self.transform = {"steps": [str, lambda image: image]}


def test_what_does_not_pickle_is_named_and_only_where_it_must_travel():
    guard.check_picklable(Holding(), "fork")
    with pytest.raises(PipebenchError) as raised:
        guard.check_picklable(Holding(), "spawn")
    assert "under spawn, Holding.transform['steps'][1] cannot be sent to a worker" in raised.value.problem
    guard.check_picklable(feed.Photographs(WORKLOAD, feed.FLOATS), "spawn")


def test_a_cache_larger_than_memory_is_refused_with_what_fits():
    guard.check_cache(9, 100, 1000)
    with pytest.raises(PipebenchError) as raised:
        guard.check_cache(20, 100, 1000)
    assert raised.value.problem == "a cache of 20 batches needs 2.00 kB; 1.00 kB of memory are free"
    assert raised.value.remedy == "9 batches (900 B) fit: use --window 9"


def test_too_little_shared_memory_or_too_few_descriptors_are_predicted(tmp_path, monkeypatch):
    guard.check_resources(2, 2, 4, 1 << 20)
    monkeypatch.setattr(guard, "free_bytes", lambda folder: 64 << 20)
    with pytest.raises(PipebenchError, match=r"6 batches of 38\.\d MB on their way need 231 MB of .*, which has 67"):
        guard.check_resources(2, 2, 0, 38_500_000)
    with pytest.raises(PipebenchError) as raised:
        guard.check_resources(1, 2, 100, 10_000_000)
    assert raised.value.remedy.endswith("use a --window of at most 3")
    monkeypatch.setattr(guard, "descriptors", lambda: 40)
    with pytest.raises(PipebenchError, match="need about 52 file descriptors; 40 are left"):
        guard.check_resources(2, 2, 0, 1000)
    guard.check_resources(0, 2, 100, 1 << 40)  # nothing is shared without workers


def test_bad_samples_are_records_of_the_worker_and_the_rest_is_trained_on(tmp_path):
    from PIL import Image

    for number in range(7):
        Image.effect_noise((300, 280), 60).convert("RGB").save(tmp_path / f"{number}.jpg")
    (tmp_path / "bad\x1b[31m.jpg").write_bytes((tmp_path / "0.jpg").read_bytes()[:900])
    with reference(Workload(data=str(tmp_path), batch_size=8), Loading(workers=1)) as live:
        assert live.start().samples == 7
        (bad,) = live.bad.values()
    assert isinstance(bad, BadSample) and (bad.stage, bad.worker) == ("loader", 0)
    assert bad.sample == "bad\\x1b[31m.jpg"


def test_data_without_one_good_sample_ends_in_words(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(b"nothing")
    with (
        pytest.raises(PipebenchError, match="8 batches in a row had no good sample"),
        reference(Workload(data=str(tmp_path), batch_size=2), Loading(workers=0)) as live,
    ):
        live.start()
        for _ in range(20):
            next(live)


def _lab(tmp_path, kept, **feeding_changes):
    feeding = lab.Feeding(
        Loading(timeout_s=20),
        1,
        LoaderPlan(visits=1, readings=2, reading_s=0.0, workers=(0, 1)),
        BoundPlan(rounds=2, least_rounds=2, window_s=0.0, window=2),
    )
    return lab.run(
        lab.Selection(()),
        WORKLOAD,
        Plan.quick(),
        feeding=replace(feeding, **feeding_changes),
        progress=lambda done, total, what: None,
        keep=kept.append,
    )


def test_the_lab_ends_with_loader_and_training_and_saves_them_as_they_come(tmp_path):
    kept = []
    found = _lab(tmp_path, kept)
    assert not found.partial and kept[-1] == found
    training = found.training
    assert training.live.samples_per_s > 0 and training.live.low <= training.live.samples_per_s <= training.live.high
    assert len(training.bound.readings_s) == len(training.bound_busy.readings_s) == 2
    assert 0 <= training.wait_share <= 1 and training.startup_s > 0 and training.epoch_boundary_s > 0
    assert training.start_method == machine.describe().start_method and training.bound_device is None
    assert {one.dataset for one in found.loader} == {"map", "webdataset", "ready"}
    assert any(one.partial and one.loader and one.training is None for one in kept)


def test_a_failure_is_in_the_partial_report(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise workers.WorkerFailure("worker 0 was killed by SIGKILL at sample x", "see dmesg", "x")

    kept = []
    monkeypatch.setattr(lab, "measure_training", killed)
    with pytest.raises(workers.WorkerFailure):
        _lab(tmp_path, kept)
    assert kept[-1].partial and kept[-1].failure == "worker 0 was killed by SIGKILL at sample x"
    assert kept[-1].loader


def test_a_window_larger_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bound, "free_memory", lambda: 50_000_000)
    with pytest.raises(PipebenchError, match=r"a cache of 200 batches needs .* free"):
        _lab(tmp_path, [], bound=BoundPlan(window=200))


class Slow(torch.utils.data.Dataset):
    """A sample that takes 10 ms and no CPU."""

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.010)
        return torch.zeros(3, 8, 8), 0


@pytest.mark.timing
def test_a_real_loader_of_40_ms_before_a_device_of_20_ms_waits_half_of_its_time():
    notebook = workers.Notebook(1)
    with Live(Slow(), Loading(workers=1), 4, Stack(notebook), notebook=notebook) as live:
        live.start()
        plan = BoundPlan(rounds=8, budget_s=60)
        *_, windows = alternate(live, Simulated(0.020), plan, window=8, warm=2, copy=copied)
    found = measured(windows)
    assert found.live.samples_per_s == pytest.approx(100, rel=0.1)
    assert found.bound.samples_per_s == pytest.approx(200, rel=0.1)
    assert found.wait_share == pytest.approx(0.5, abs=0.08)
    assert 1 / found.bound_to_live.ratio == pytest.approx(2.0, rel=0.12)
