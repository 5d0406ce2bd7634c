"""One training loop with events, its sources of batches and its consumers.

The consumer is a model, or a simulated device that takes a stated time for each batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pipebench.errors import PipebenchError
from pipebench.results.windows import LoopWindow
from pipebench.stage import find
from pipebench.task import Workload
from pipebench.units import printable, seconds

Now = Callable[[], float]
CPU_BATCH, CPU_SIDE = 16, 32  # of a step on a CPU, so that the step costs about as much as loading


class Consumer(Protocol):
    """What takes the batches. Its methods are the phases of an iteration after a batch has arrived."""

    @property
    def label(self) -> str: ...
    def transfer(self, batch: Any) -> Any: ...
    def forward(self, batch: Any) -> Any: ...
    def backward(self, loss: Any) -> None: ...
    def optimise(self) -> None: ...
    def finish(self) -> None: ...  # returns when all queued work is done


class Simulated:
    """A device that takes a stated time for each batch and uses no CPU. It stands for a device that is not here."""

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
        self._optimiser.step()  # `watch` recognises training by this step

    def finish(self) -> None: ...


class Given:
    """The user's own step: a callable that gets `(images, labels)` and does all that one iteration does.

    Images are N×3×224×224 float32 on the host, labels N class numbers below 10. The step moves them to its device. It
    does forward, backward and the optimiser's step itself. What it raises becomes a `PipebenchError`.
    """

    def __init__(self, name: str, step: Callable[[tuple[Any, Any]], object]) -> None:
        import torch

        self._torch, self._step, self.label = torch, step, printable(name)
        self._optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # has no gradient: a step does nothing

    def transfer(self, batch: Any) -> Any:
        return batch

    def forward(self, batch: Any) -> Any:
        try:
            self._step((batch.images, batch.labels))
        except Exception as error:  # the user's code raises what it likes
            said = printable(f"{type(error).__name__}: {error}")[:300]
            gets = f"float32 of {tuple(batch.images.shape)} and {len(batch.labels)} class numbers"
            raise PipebenchError(f"{self.label} raised {said}", f"it gets (images, labels): {gets}") from error

    def backward(self, loss: Any) -> None: ...

    def optimise(self) -> None:
        self._optimiser.step()  # `watch` recognises training by this step, also if the user's has no optimiser

    def finish(self) -> None:
        if self._torch.cuda.is_available():
            self._torch.cuda.synchronize()


class Model:
    """The model of a step variant with its optimiser. On a CPU, run it under `one_thread`.

    With `side`, it sees only every k-th pixel in both directions, about `side` × `side` of them, so that a step on a
    CPU costs about as much as one on a device; its label says so. uint8 images become floats on the model's device.
    """

    def __init__(self, workload: Workload, step: str = "step/small", side: int | None = None) -> None:
        import torch

        from pipebench.stages.step import resnet18_model, small_model

        find(f"{step}/eager")  # raises an error if the task is not registered
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
    """Limits torch to one thread in this process, as in a worker, so that the workers keep their cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def adapted(workload: Workload) -> Workload:
    """The workload, with a small batch if its steps run on a CPU."""
    return replace(workload, batch_size=min(CPU_BATCH, workload.batch_size)) if workload.device == "cpu" else workload


@dataclass
class State:
    """What a callback gets: the iteration of the event, and its batch and loss so far."""

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
    """Feeds `iterations` batches to the consumer, times every phase on the host, and calls the callbacks at each event.

    A batch without a good sample counts as an iteration, but the consumer does not get it.
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
    """One iteration as a sequence of phases. Each phase ends with its event."""

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
    """Batches that are already in memory, replayed in their order without end."""

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
