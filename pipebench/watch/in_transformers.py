"""Transformers: the figures of the loop go wherever the trainer logs. Imported only where Transformers is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.watch.with_block import Watching

try:
    from transformers import TrainerCallback
except ImportError as missing:
    raise PipebenchError(
        "transformers_callback needs Transformers, which is not installed", "pip install transformers"
    ) from missing


class InTransformers(TrainerCallback):  # type: ignore[misc]  # it has no types where it is not installed
    """Watches `train`. Whenever the trainer logs (`logging_steps`), `log` gets the figures since the last time.

    `log` is `trainer.log`, or any function of a dict. After `train`, `watched.result` is that of the whole. Under
    `pipebench watch` it stands aside, as a block does.
    """

    _begun = ExitStack()  # of the training that began last in this process

    def __init__(self, log: Callable[[dict[str, float]], object], functions: str | Sequence[str] = ()) -> None:
        self.watched = Watching(functions=functions)
        self._log, self._open, self._logs = log, ExitStack(), False

    def on_train_begin(self, *_: Any, **named: Any) -> None:
        self._begun.close()  # an interrupted training has no end of its own
        self._open.enter_context(self.watched)
        InTransformers._begun = self._open

    def on_log(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if self._logs:  # what `trainer.log` brings about
            return
        figures = self.watched.latest()
        if figures and state.is_world_process_zero:
            self._logs = True
            try:
                self._log(figures)
            finally:
                self._logs = False

    def on_train_end(self, *_: Any, **named: Any) -> None:
        self._open.close()
