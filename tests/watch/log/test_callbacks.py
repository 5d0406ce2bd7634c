"""The callbacks for Lightning and Transformers, with the libraries themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import pipebench
from pipebench.errors import PipebenchError
from pipebench.watch.launch.watched_script import is_watched

BATCHES = 12


def loader(**how: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(2.0 * BATCHES).reshape(-1, 1)), batch_size=2, **how)


def test_a_block_gives_its_figures_while_it_runs() -> None:
    found = []
    with pipebench.watching() as watched:
        assert watched.latest() == {}
        for number, _ in enumerate(loader(num_workers=1)):
            if number % 4 == 3:
                found.append(watched.latest())
    assert [one["pipebench/wait_share"] for one in found] and all("pipebench/iteration_ms" in one for one in found)
    assert watched.latest() == {}
    assert watched.result.iterations == BATCHES


def test_figures_of_loaders_in_step_are_of_both() -> None:
    weight = torch.ones(1, requires_grad=True)
    with pipebench.watching() as watched:
        for (first,), (second,) in zip(loader(), loader(), strict=True):
            (weight * (first.mean() + second.mean())).backward()
        found = watched.latest()
    assert found["pipebench/samples_per_s"] == pytest.approx(4 * found["pipebench/iterations_per_s"])


def test_a_fault_of_ours_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(self: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr("pipebench.watch.log.live.Live.latest", fails)
    with pipebench.watching() as watched:
        assert [watched.latest(), watched.latest()] == [{}, {}]
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "because of a fault of pipebench (ValueError: planted" in said


@pytest.fixture
def imported_anew() -> Iterator[None]:
    """The modules of the callbacks see the libraries as they are now, and no later test sees these modules."""
    names = [f"pipebench.watch.{name}" for name in ("in_lightning", "in_transformers")]
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


@pytest.fixture
def lightning() -> Any:
    return pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")


def trainer_of(lightning: Any, logger: Any, callback: Any) -> Any:
    return lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=logger, callbacks=[callback], log_every_n_steps=4,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip


def model_of(lightning: Any, fails_at: int | None = None) -> Any:
    class Model(lightning.LightningModule):  # type: ignore[misc]  # a class of a module that is not known before
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            if number == fails_at:
                raise RuntimeError("planted")
            return self.layer(batch[0]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    return Model()


def logger_of(lightning: Any) -> Any:
    from pytorch_lightning.loggers.logger import DummyLogger

    class Kept(DummyLogger):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[tuple[int, dict[str, float]]] = []

        def log_metrics(self, metrics: Any, step: Any = None) -> None:
            self.kept.append((step, dict(metrics)))

    return Kept()


@pytest.mark.filterwarnings("ignore")
def test_lightnings_loggers_get_the_series(lightning: Any) -> None:
    callback, logger = pipebench.lightning_callback(), logger_of(lightning)
    plain = torch.autograd.backward
    trainer_of(lightning, logger, callback).fit(model_of(lightning), loader(num_workers=1))
    ours = [(step, found) for step, found in logger.kept if "pipebench/wait_share" in found]
    assert [step for step, _ in ours] == [4, 8, 12, 16, 20, 24]
    assert all(0 <= found["pipebench/wait_share"] <= 1 for _, found in ours)
    assert callback.watched.result.iterations >= 2 * (BATCHES - 1)  # Lightning asks one batch ahead
    assert torch.autograd.backward is plain


@pytest.mark.filterwarnings("ignore")
def test_a_failed_training_is_put_back(lightning: Any) -> None:
    callback, plain = pipebench.lightning_callback(), torch.autograd.backward
    with pytest.raises(RuntimeError, match="planted"):
        trainer_of(lightning, False, callback).fit(model_of(lightning, fails_at=5), loader())
    assert torch.autograd.backward is plain
    assert callback.watched.result.loaders[0].training


@pytest.mark.filterwarnings("ignore")
def test_in_a_script_that_is_watched_the_callback_stands_aside(lightning: Any) -> None:
    callback, logger = pipebench.lightning_callback(), logger_of(lightning)
    with pipebench.watching() as watched:
        trainer_of(lightning, logger, callback).fit(model_of(lightning), loader())
    assert not [found for _, found in logger.kept if "pipebench/wait_share" in found]
    assert watched.result.loaders[0].samples == 4 * BATCHES
    assert callback.watched.result.verdict.elsewhere  # a script that prints it must not fail under `pipebench watch`
    assert not is_watched()


@pytest.mark.usefixtures("imported_anew")
@pytest.mark.parametrize(("every", "steps"), [(4, [4, 8]), (0, [])])
def test_lightnings_loggers_are_asked_as_often_as_the_trainer_says(
    every: int, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(Callback=object))
    callback, logged = pipebench.lightning_callback(), list[int]()
    logger = SimpleNamespace(log_metrics=lambda figures, step: logged.append(step))
    monkeypatch.setattr(callback.watched, "latest", lambda: {"pipebench/wait_ms": 1.0})
    for step in range(1, 10):
        trainer = SimpleNamespace(log_every_n_steps=every, loggers=[logger], global_step=step)
        callback.on_train_batch_end(trainer)
    assert logged == steps


@pytest.mark.usefixtures("imported_anew")
def test_a_trainer_that_logs_gives_the_callback_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    logged: list[dict[str, float]] = []
    state = SimpleNamespace(is_world_process_zero=True)

    def log(figures: dict[str, float]) -> None:
        logged.append(figures)
        callback.on_log(None, state, None, logs=figures)  # as `Trainer.log` calls all callbacks

    callback = pipebench.transformers_callback(log)
    callback.on_train_begin(None, state, None)
    for number, _ in enumerate(loader()):
        if number % 6 == 5:
            callback.on_log(None, state, None, logs={})
    callback.on_train_end(None, state, None)
    assert len(logged) == 2 and all("pipebench/wait_ms" in one for one in logged)
    assert callback.watched.result.iterations == BATCHES


@pytest.mark.usefixtures("imported_anew")
def test_a_training_that_was_interrupted_is_no_reason_to_stand_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    interrupted, again = (pipebench.transformers_callback(dict) for _ in range(2))
    interrupted.on_train_begin(None, None, None)
    again.on_train_begin(None, None, None)
    for _ in loader():
        pass
    again.on_train_end(None, None, None)
    assert (interrupted.watched.result.iterations, again.watched.result.iterations) == (0, BATCHES)
    assert not is_watched()


@pytest.mark.usefixtures("imported_anew")
def test_what_an_interrupted_training_left_is_ended_by_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook: the trainer tells no callback of Ctrl-C, and the next cells are watched, too."""
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    trainer: dict[str, Any] = {"__name__": "transformers.trainer"}
    exec("def train(callback, loop):\n    callback.on_train_begin(None, None, None)\n    loop()\n", trainer)
    callback = pipebench.transformers_callback(dict)

    def loop() -> None:
        with pytest.raises(PipebenchError, match="no result"):
            _ = callback.watched.result
        with pipebench.watching() as aside:
            list(loader())
        assert aside.result.verdict.elsewhere
        raise KeyboardInterrupt

    for asks in (lambda: callback.watched.result.iterations, pipebench.watching().__enter__):
        with pytest.raises(KeyboardInterrupt):
            trainer["train"](callback, loop)
        found = asks()
        assert callback.watched.result.iterations == BATCHES
        assert is_watched() == (found != BATCHES)
    found.__exit__(None)
    assert not is_watched()


@pytest.mark.usefixtures("imported_anew")
def test_in_a_watched_script_the_other_callback_has_a_result_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    callback = pipebench.transformers_callback(dict)
    with pipebench.watching() as watched:
        callback.on_train_begin(None, None, None)
        for _ in loader():
            pass
        callback.on_train_end(None, None, None)
    assert callback.watched.result.verdict.elsewhere and watched.result.iterations == BATCHES
    assert not is_watched()


@pytest.mark.filterwarnings("ignore")
def test_transformers_logs_the_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)  # it may find this folder of ours

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.layer(x).mean()}

    data = [{"x": torch.ones(1)} for _ in range(2 * BATCHES)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), logging_steps=4, per_device_train_batch_size=2, max_steps=BATCHES, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    trainer = transformers.Trainer(Model(), arguments, train_dataset=data)
    callback = pipebench.transformers_callback(trainer.log)
    trainer.add_callback(callback)
    trainer.train()
    ours = [one for one in trainer.state.log_history if "pipebench/wait_share" in one]
    assert [one["step"] for one in ours][:2] == [4, 8]
    assert [one["step"] for one in trainer.state.log_history if "loss" in one] == [4, 8, 12]
    assert callback.watched.result.iterations >= BATCHES - 1
    json.dumps(ours)


@pytest.mark.usefixtures("imported_anew")
@pytest.mark.parametrize("make", [pipebench.lightning_callback, lambda: pipebench.transformers_callback(print)])
def test_a_library_that_is_missing_is_said(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PipebenchError, match=r"needs \w+, which is not installed") as raised:
        make()
    assert raised.value.remedy.startswith("pip install ")
