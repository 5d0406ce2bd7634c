"""One training loop over events, its sources of batches and its consumers.

What it feeds is a model, or a stated time a batch that stands for a device one does not have.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pipebench.results.windows import LoopWindow
from pipebench.stage import find
from pipebench.task import Workload
from pipebench.units import seconds

Now = Callable[[], float]
CPU_BATCH, CPU_SIDE = 16, 32  # of a step on a CPU, so that it costs about what loading does


class Consumer(Protocol):
    """What takes the batches: the phases of an iteration between getting a batch and asking for the next."""

    @property
    def label(self) -> str: ...
    def transfer(self, batch: Any) -> Any: ...
    def forward(self, batch: Any) -> Any: ...
    def backward(self, loss: Any) -> None: ...
    def optimise(self) -> None: ...
    def finish(self) -> None: ...  # returns when all that was queued is done


class Simulated:
    """A device that takes a stated time for each batch and no CPU: to plan for one that is not here."""

    def __init__(self, step_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        import torch

        self._step_s, self._sleep = step_s, sleep
        self._optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # has no gradient: a step does nothing
        self.label = f"simulated device, {seconds(step_s)} a batch"

    def transfer(self, batch: Any) -> Any:
        return batch

    def forward(self, batch: Any) -> Any:
        self._sleep(self._step_s)

    def backward(self, loss: Any) -> None: ...

    def optimise(self) -> None:
        self._optimiser.step()  # by which a loop is seen to train

    def finish(self) -> None: ...


class Model:
    """The model of a step variant with its optimiser (on a CPU to be run under `one_thread`).

    On a CPU it sees every k-th pixel both ways, so that its step costs about what a device's would; its label says so.
    Bytes are made floats where the model is.
    """

    def __init__(self, workload: Workload, step: str = "step/small", side: int | None = None) -> None:
        import torch

        from pipebench.stages.step import resnet18_model, small_model

        find(f"{step}/eager")  # it is a task that is registered
        torch.manual_seed(workload.seed)
        self._torch, self._device, self._side = torch, workload.device, side
        self.network = {"step/small": small_model, "step/resnet18": resnet18_model}[step]().to(workload.device)
        self._optimiser = torch.optim.SGD(self.network.parameters(), lr=0.001, momentum=0.9)
        self.loss: Any = None
        of = f" on images of {side}×{side}" if side else ""
        self.label = f"{step}{of}, {'one CPU thread' if workload.device == 'cpu' else torch.cuda.get_device_name()}"

    def transfer(self, batch: Any) -> Any:
        if self._device == "cpu":
            return batch
        return batch._replace(
            images=batch.images.to(self._device, non_blocking=True),
            labels=batch.labels.to(self._device, non_blocking=True),
        )

    def forward(self, batch: Any) -> Any:
        images = batch.images
        if self._side:
            stride = max(1, images.shape[-1] // self._side)
            images = images[..., ::stride, ::stride]
        if images.dtype == self._torch.uint8:
            images = images.float().div_(255)
        self._optimiser.zero_grad(set_to_none=True)
        self.loss = self._torch.nn.functional.cross_entropy(self.network(images), batch.labels)
        return self.loss

    def backward(self, loss: Any) -> None:
        loss.backward()

    def optimise(self) -> None:
        self._optimiser.step()

    def finish(self) -> None:
        if self._device != "cpu":
            self._torch.cuda.synchronize()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread in this process, as in a worker: the workers keep their cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def adapted(workload: Workload) -> Workload:
    """The workload of a step on a CPU: a small batch."""
    return replace(workload, batch_size=min(CPU_BATCH, workload.batch_size)) if workload.device == "cpu" else workload


@dataclass
class State:
    """What a callback is given: the event's iteration, its batch and its loss so far."""

    iteration: int
    batch: Any = None
    loss: Any = None


Callback = Callable[[str, State], None]


def train(
    batches: Iterator[Any],
    consumer: Consumer,
    iterations: int,
    *,
    callbacks: Mapping[str, Callback] | None = None,
    now: Now = time.perf_counter,
) -> LoopWindow:
    """The loop: `iterations` batches through the consumer, every phase timed on the host, callbacks at every event.

    A batch without a good sample is counted and not trained on.
    """
    window, loop = LoopWindow(), _Iterations(callbacks or {}, now)
    begin = now()
    for number in range(iterations):
        loop.iteration(number, batches, consumer, window)
    consumer.finish()
    window.elapsed_s = now() - begin
    window.iterations = iterations
    return window


class _Iterations:
    """One iteration as a row of phases, each ended by its event."""

    def __init__(self, callbacks: Mapping[str, Callback], now: Now) -> None:
        self._callbacks, self._now = callbacks, now

    def iteration(self, number: int, batches: Iterator[Any], consumer: Consumer, window: LoopWindow) -> None:
        state = State(number)

        def phase(name: str, event: str, action: Callable[[], Any], into: str = "") -> Any:
            begin = self._now()
            result = action()
            window.phases[name] += self._now() - begin
            if into:
                setattr(state, into, result)
            self._tell(event, state, window)
            return result

        self._tell("asked", state, window)
        batch = phase("wait", "got", lambda: next(batches), "batch")
        if not batch.samples:
            return
        window.samples += batch.samples
        phase("transfer", "transferred", lambda: consumer.transfer(batch), "batch")
        phase("forward", "forward", lambda: consumer.forward(state.batch), "loss")
        phase("backward", "backward", lambda: consumer.backward(state.loss))
        phase("optimiser", "stepped", consumer.optimise)

    def _tell(self, event: str, state: State, window: LoopWindow) -> None:
        for name, callback in self._callbacks.items():
            begin = self._now()
            callback(event, state)
            spent = self._now() - begin
            window.phases["callbacks"] += spent
            window.callbacks[name, event] += spent


class Cached:
    """Batches that are already there, replayed in their order without end."""

    def __init__(self, batches: Sequence[Any]) -> None:
        if not batches:
            raise ValueError("no batches to replay")
        self._batches, self._next = batches, 0

    def __iter__(self) -> Cached:
        return self

    def __next__(self) -> Any:
        batch = self._batches[self._next % len(self._batches)]
        self._next += 1
        return batch
