"""Transformers: the figures of the loop go wherever the trainer logs. Imported only where Transformers is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import get_ident
from types import CodeType, FrameType
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
    _thread = 0
    _code: CodeType | None = None  # of the trainer

    def __init__(self, log: Callable[[dict[str, float]], object], functions: str | Sequence[str] = ()) -> None:
        self.watched = Watching(functions=functions)
        self._log, self._open, self._logs = log, ExitStack(), False
        self.watched.over = self._is_over

    def on_train_begin(self, *_: Any, **named: Any) -> None:
        self._begun.close()  # an interrupted training has no end of its own
        self._thread, self._code = get_ident(), next(reversed(_codes(sys._getframe())), None)
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

    def _is_over(self) -> bool:
        """Whether the trainer has left `train`. It tells nobody if Ctrl-C or an exception ended it."""
        return self._code is not None and self._code not in _codes(sys._current_frames().get(self._thread))


def _codes(frame: FrameType | None) -> list[CodeType]:
    """What of the trainer is on this stack, from the inside out."""
    found = []
    while frame is not None:
        if frame.f_globals.get("__name__") == "transformers.trainer":
            found.append(frame.f_code)
        frame = frame.f_back
    return found
