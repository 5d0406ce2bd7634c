"""Notices that samples are read from a file or connection that was open before any of them was asked for.

Workers that are forked would share it, and its position: then one reads where another has moved to. After a batch, the
position may be where it was before, as at the end of an archive. So calls that read are looked at, too, for some time.
"""

from __future__ import annotations

import _socket
import io
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from pipebench.watch.record import profilers
from pipebench.watch.record.from_handlers import forgiving, from_a_handler
from pipebench.watch.record.positions import Positions, moved, positions, received
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.worker_lines import KeptOpen
from pipebench.watch.stages.finding_transforms import has_attributes
from pipebench.watch.stages.in_place import own_code
from pipebench.watch.worker.reachable import descriptors

_FETCHES = 3  # the first ones: a look takes some microseconds for each open file
_MOST = 500  # open files
_OFTEN = 2  # of them: what another thread receives meanwhile, as an answer to a logger, comes seldom
_CALLS = 5_000  # of a batch, at which is looked: some milliseconds
_READS = ("read", "read1", "readinto", "readline", "readlines", "recv", "recv_into")
_OPEN = (io.BufferedReader, io.BufferedRandom, io.FileIO, io.TextIOWrapper, _socket.socket)
_KNOWS = ("get_worker_info", "getpid", "current_process", "register_at_fork")
_DEEPEST = 4  # datasets in datasets


class Held:
    """The files and connections that were open before a loader's first pass, and whether its batches read them.

    What a connection receives may be an answer to somebody else, as to the loop. So only those count that the dataset
    can reach, unless it was seen to read another one.
    """

    def __init__(self, recording: Recording, loader: int, dataset: Any) -> None:
        self._recording, self._loader = recording, loader
        connections, reached = received(), descriptors(within(dataset))
        self._known = {*positions(), *connections}
        self._others = {one for one in connections if one[0] not in reached}
        self._left, self._received = _FETCHES if len(self._known) <= _MOST else 0, 0
        self._before: tuple[Positions, Positions] = {}, {}
        self._read = False
        self._calls = 0

    @property
    def over(self) -> bool:
        """Whether nothing is looked at any more."""
        return not self._left

    def begin(self) -> None:
        """Called before a batch is made."""
        if self._left:
            self._before = self._now(positions), self._now(received)
            self._calls = 0
            if profilers.is_free():
                sys.setprofile(self._called)

    def end(self, recording: Recording) -> None:
        """Called when it is made, with the recording of the process that made it."""
        if not self._left:
            return
        if sys.getprofile() == self._called:
            sys.setprofile(None)
        self._left -= 1
        files, connections = self._before
        mine = {key: at for key, at in connections.items() if key not in self._others}
        self._received += moved(mine, received())
        if self._read or moved(files, positions()) or self._received >= _OFTEN:
            self._left = 0
            recording.write(KeptOpen(self._loader))

    def _called(self, frame: object, event: str, function: Any) -> None:
        """Python calls this for each call, with the built-in function that is called next."""
        self._calls += 1
        if event == "c_call" and getattr(function, "__name__", "") in _READS:
            self._read = self._read or self._is_known(getattr(function, "__self__", None))
        if self._read or self._calls >= _CALLS:
            sys.setprofile(None)

    def _is_known(self, one: Any) -> bool:
        if not issubclass(type(one), _OPEN):
            return False
        try:
            number = one.fileno()
            kept = os.fstat(number)
        except Exception as error:  # it is closed, or no file of the system; a class of the script's may raise anything
            if from_a_handler(error):
                raise
            return False
        return (number, kept.st_dev, kept.st_ino) in self._known

    def _now(self, look: Callable[[], Positions]) -> Positions:
        return {key: at for key, at in look().items() if key in self._known}


def may_share(dataset: Any, worker_init_fn: Any) -> bool:
    """Whether forked workers may share what a dataset holds open, as far as its code shows that.

    False where something may open it anew in each process: `worker_init_fn`, or code that asks for the process. So may
    an iterable dataset when its stream begins.
    """
    if worker_init_fn is not None:
        return False
    with forgiving():
        return not any(hasattr(type(one), "__iter__") or _asks(type(one)) for one in within(dataset))
    return False


def within(dataset: Any) -> list[Any]:
    """A dataset, and the datasets that it holds as torch's Subset and ConcatDataset do."""
    found = [dataset]
    for _ in range(_DEEPEST):
        with forgiving():  # its attributes may be of any kind
            inner = [one for kept in map(vars, found) for one in (kept.get("dataset"), *_several(kept.get("datasets")))]
            found += [one for one in inner if has_attributes(one) and not any(one is each for each in found)]
    return found


def _several(datasets: Any) -> tuple[Any, ...]:
    return tuple(datasets) if type(datasets) in (list, tuple) else ()


def _asks(kind: type) -> bool:
    functions = (one for base in kind.__mro__ for one in vars(base).values() if isinstance(one, types.FunctionType))
    return any(name in own_code(one).co_names for one in functions for name in _KNOWS)
