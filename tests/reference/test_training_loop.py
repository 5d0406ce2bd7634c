"""The training loop: its phases and callbacks, live batches under every start method, and the end of `run`."""

import importlib.util
from dataclasses import replace

import pytest
import torch
from fake import FakeClock
from fakeloop import FakeConsumer, FakeLive
from PIL import Image

from pipebench.errors import BadSample, PipebenchError
from pipebench.host import machine
from pipebench.lab import whole_run
from pipebench.lab.passes import Passes
from pipebench.reference import pipeline, worker_health
from pipebench.reference.dataloader import reference
from pipebench.reference.loader_table import LoaderPlan
from pipebench.reference.pipeline import LoadedBatch
from pipebench.reference.published_rates import PUBLISHED
from pipebench.reference.training_loop import Cached, Given, Model, Simulated, one_thread, train
from pipebench.render import feeding
from pipebench.results.consumers import Consumer
from pipebench.results.loading import Loading
from pipebench.task import Workload

WORKLOAD = Workload(data="tiny", batch_size=4)
METHODS = [
    "fork",
    pytest.param("spawn", marks=pytest.mark.long),
    pytest.param("forkserver", marks=pytest.mark.long),
]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_the_loop_times_every_phase_and_tells_every_callback_every_event():
    clock, told = FakeClock(0), []
    consumer = FakeConsumer(clock, 0.001, 0.002, 0.003, 0.004)
    live = FakeLive(clock, 0.010)

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


def test_a_batch_without_a_good_sample_is_counted_and_not_trained_on():
    clock = FakeClock(0)
    consumer = FakeConsumer(clock, forward=1.0)
    window = train(iter([LoadedBatch(torch.empty(0), torch.empty(0))]), consumer, 1, now=lambda: clock.now)
    assert (window.samples, window.elapsed_s, window.iterations) == (0, 0.0, 1)


def test_a_simulated_device_takes_its_time_and_says_what_it_is():
    slept = []
    device = Simulated(0.025, slept.append)
    train(Cached([LoadedBatch(torch.zeros(2, 1), torch.zeros(2))]), device, 3)
    assert slept == [0.025] * 3
    assert device.label == "simulated device, 25.0 ms a batch"


def test_a_step_of_the_users_gets_images_and_labels():
    got = []
    train(Cached([LoadedBatch(torch.zeros(2, 1), torch.ones(2), ("bad",))]), Given("mine:step", got.append), 2)
    assert [type(one) for one in got] == [tuple, tuple]
    assert torch.equal(got[0][0], torch.zeros(2, 1)) and torch.equal(got[1][1], torch.ones(2))


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
    with reference(WORKLOAD, Loading(), pipeline.BYTES) as live, one_thread():
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


def test_settled_workers_have_made_all_that_they_may():
    with reference(WORKLOAD, Loading(workers=1)) as live:
        live.start()
        live.settle()
        assert live.notebook.batches(0) == 3
        next(live)
        live.settle()
        assert live.notebook.batches(0) == 4


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


def test_bad_samples_are_records_of_the_worker_and_the_rest_is_trained_on(tmp_path):
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


def _lab(tmp_path, kept, workload=WORKLOAD, **feeding_changes):
    plans = whole_run.Feeding(
        Loading(timeout_s=20),
        1,
        LoaderPlan(visits=1, readings=2, reading_s=0.0, workers=(0, 1)),
        steps=30,
    )
    return whole_run.run(
        whole_run.Selection(()),
        workload,
        Passes.quick(),
        feeding=replace(plans, **feeding_changes),
        progress=lambda done, total, what: None,
        keep=kept.append,
    )


@pytest.mark.slow
def test_the_lab_ends_with_loader_and_training_and_saves_them_as_they_come(tmp_path):
    kept = []
    found = _lab(tmp_path, kept)
    assert not found.partial and kept[-1] == found
    bound, watched = found.training.bound, found.training.watched
    assert bound.complete and bound.live.low <= bound.live.samples_per_s <= bound.live.high
    assert len(bound.bound.readings_s) == len(bound.bound_busy.readings_s) == bound.rounds >= 1
    assert 0 <= watched.wait_share <= 1 and watched.startup_s > 0 and found.training.epoch_boundary_s > 0
    assert watched.start_method == machine.describe().start_method and bound.bound_device is None
    assert found.training.consumer == "step/small on images of 32×32, one CPU thread"
    assert {one.dataset for one in found.loader} == {"map", "webdataset", "ready", "packed"}
    assert any(one.partial and one.loader and one.training is None for one in kept)


@pytest.mark.long
def test_the_users_step_trains_and_its_own_rate_is_the_consumers(tmp_path, monkeypatch):
    """It works without a model and without an optimiser. What it prints goes to standard error."""
    (tmp_path / "mine.py").write_text("def step(batch):\n    images, labels = batch\n    print(images.sum())\n")
    monkeypatch.chdir(tmp_path)
    found = _lab(tmp_path, [], step="mine:step")
    ready = found.training.bound.bound
    assert found.training.given and found.training.consumer == "mine:step" and found.training.batch_size == 4
    assert found.consumers == (Consumer("mine:step", ready.samples_per_s, "measured", ready.low, ready.high),)


@pytest.mark.parametrize(
    ("asked", "consumers", "batch_s"),
    [
        ({}, PUBLISHED, None),
        ({"consumer": 640.0}, (Consumer("your consumer", 640.0, "stated"),), 0.1),
        ({"simulated_s": 0.05}, (Consumer("simulated device", 1280.0, "stated"),), 0.05),
        ({"consumer": "mine:step"}, (), None),
    ],
)
def test_the_consumer_is_the_users_or_else_published_ones(asked, consumers, batch_s):
    made = whole_run.feeding(Loading(), **asked)
    assert made.consumers(64) == consumers and made.batch_s(64) == batch_s


@pytest.mark.slow
def test_a_failure_is_in_the_partial_report(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise worker_health.WorkerFailure("worker 0 was killed by SIGKILL at sample x", "see dmesg", "x")

    kept = []
    monkeypatch.setattr(whole_run, "measure_training", killed)
    with pytest.raises(worker_health.WorkerFailure):
        _lab(tmp_path, kept)
    assert kept[-1].partial and kept[-1].failure == "worker 0 was killed by SIGKILL at sample x"
    assert kept[-1].loader


@pytest.mark.long
def test_training_over_shards_is_said(tmp_path):
    training = _lab(tmp_path, [], loading=Loading(timeout_s=20, stream=True)).training
    assert training.loading.stream and training.bound.live.samples_per_s > 0
    assert any(", over the shards by webdataset;" in note for note in feeding.training(training).notes)


def test_training_over_shards_without_any_is_refused_at_once(tmp_path, monkeypatch):
    stream = Loading(timeout_s=20, stream=True)
    Image.effect_noise((300, 280), 60).convert("RGB").save(tmp_path / "one.jpg")
    loose, kept = Workload(data=str(tmp_path), batch_size=4), []
    with pytest.raises(PipebenchError, match="is loose files, and no shards are made of them"):
        _lab(tmp_path, kept, loose, loading=stream)
    assert kept[-1].loader is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PipebenchError, match="webdataset, which streams the shards, is missing"):
        reference(WORKLOAD, stream)
