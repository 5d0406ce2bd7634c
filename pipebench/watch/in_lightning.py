"""Lightning: the figures of the loop go to the trainer's own loggers. Imported only where Lightning is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pipebench.errors import PipebenchError
from pipebench.watch.with_block import Watching

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")

if TYPE_CHECKING:
    from pytorch_lightning import Callback
else:
    _here = [one for one in _PACKAGES if one in sys.modules]  # of both, its trainer is of the one that it has imported
    for _name in (*_here, *_PACKAGES):
        try:
            Callback = importlib.import_module(_name).Callback
            break
        except ImportError:
            pass
    else:
        raise PipebenchError("lightning_callback needs Lightning, which is not installed", "pip install lightning")


class InLightning(Callback):
    """Watches `fit`. At each `log_every_n_steps`-th batch of the trainer, its loggers get the figures since the last.

    After `fit`, `watched.result` is that of the whole. Under `pipebench watch` it stands aside, as a block does.
    """

    def __init__(self, functions: str | Sequence[str] = ()) -> None:
        self.watched = Watching(functions=functions)
        self._open = ExitStack()
        self._batches = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._open.close()  # of a training that had no end
        self._open.enter_context(self.watched)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self._batches += 1
        every = trainer.log_every_n_steps  # 0: the trainer logs nothing
        if every and self._batches % every == 0 and (figures := self.watched.latest()):
            for logger in trainer.loggers:
                logger.log_metrics(figures, step=trainer.global_step)

    def on_fit_end(self, *_: Any) -> None:
        self._open.close()

    def on_exception(self, *_: Any) -> None:
        self._open.close()
