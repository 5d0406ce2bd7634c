"""Patches torch's DataLoader for `advise`: where each loader is made, which iterators it has, and their batches."""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

from pipebench.watch.bound.agreement import ranks_here
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.trial_lines import FunctionPlace, LoaderMade
from pipebench.watch.script.loop_looks import OFTEN_S, LoopLooker
from pipebench.watch.script.made import Calls, calls_to, length_of, read, within
from pipebench.watch.script.ranks import present
from pipebench.watch.script.training_device import TrainingDevice
from pipebench.watch.trial import arms
from pipebench.watch.trial.session import Trial
from pipebench.watch.trial.stretches import Clock

_SETTINGS = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order", "batch_size", "timeout")
Place = tuple[str, int, int, int, int, str]
_UNKNOWN: Place = ("", 0, 0, 0, 0, "")


class Makers:
    """Where each loader was made, and which number the recording gave it. A loader made again is known by its kind.

    One function may make all loaders of a script. So the kind is the place of each call that led to the loader, the
    number of batches, their size and the class of the dataset.
    """

    def __init__(self, recording: Recording, numbers: Any) -> None:
        self.recording, self.numbers = recording, numbers
        self._places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()
        self._calls: weakref.WeakKeyDictionary[Any, Calls] = weakref.WeakKeyDictionary()
        self._kinds: weakref.WeakKeyDictionary[Any, tuple[object, ...]] = weakref.WeakKeyDictionary()
        self._written: dict[int, tuple[object, ...]] = {}

    def made(self, loader: Any) -> None:
        if loader not in self._places:
            self._places[loader] = _place(sys._getframe(1))
            self._calls[loader] = calls_to(sys._getframe(1))

    def iterated(self, loader: Any, refusal: str = "") -> None:
        """Writes where `loader` was made, once, as soon as it has a number. `refusal` is why it cannot be tried."""
        number = self.numbers.get(loader)
        if number is None or number in self._written:
            return
        self._written[number] = self._kind(loader)
        place = self._places.get(loader, _UNKNOWN)
        settings = {name: _plain(getattr(loader, name)) for name in _SETTINGS if hasattr(loader, name)}
        collate = _function_place(getattr(loader, "collate_fn", None))
        refusal = refusal or _refusal(loader, bool(self.recording.settings.shared))
        others = self._others(loader, place)
        unguarded = settings.get("num_workers") == 0 and not arms.may_start(loader)
        self.recording.write(
            LoaderMade(number, *place, length_of(loader), settings, refusal, collate, others, unguarded)
        )

    def _others(self, loader: Any, place: Place) -> int:
        """How many other loaders that were made at this place are alive. One that is made again is no other."""

        def made_of(one: Any) -> tuple[object, int]:
            return self._calls.get(one), id(read(one, "dataset"))

        return sum(at == place and made_of(one) != made_of(loader) for one, at in list(self._places.items()))

    def has_number(self, loader: Any, number: int) -> bool:
        """Whether `loader` has this number, or was made after the recording and is of the same kind."""
        found: int | None = self.numbers.get(loader)
        if found is not None or loader not in self._calls:
            return found == number
        return self._written.get(number) == self._kind(loader)

    def number_of(self, loader: Any) -> int | None:
        """The number of `loader`, or of the one of its kind; None if there is none."""
        return next((number for number in self._written if self.has_number(loader, number)), None)

    def _kind(self, loader: Any) -> tuple[object, ...]:
        found = self._kinds.get(loader)
        if found is None:
            calls = self._calls.get(loader, ())
            found = self._kinds[loader] = (calls, length_of(loader), loader.batch_size, type(loader.dataset))
        return found


def _plain(setting: Any) -> Any:
    """A number of NumPy as one of Python."""
    return setting.item() if hasattr(setting, "item") else setting


def _place(frame: Any) -> Place:
    """The nearest call outside torch and outside pipebench, with the position of the call in its file."""
    while frame is not None:
        code = frame.f_code
        if not within(code.co_filename):
            line, end_line, column, end_column = list(code.co_positions())[frame.f_lasti // 2]
            return (code.co_filename, line or 0, end_line or 0, column or 0, end_column or 0, code.co_name)
        frame = frame.f_back
    return _UNKNOWN


def _function_place(function: Any) -> FunctionPlace | None:
    """Where the user's function is defined, or the call of the user's object; None if it is torch's or unknown."""
    while isinstance(function, functools.partial):
        function = function.func
    called = function if hasattr(function, "__code__") else vars(type(function)).get("__call__")
    code = getattr(called, "__code__", None)
    if code is None or within(code.co_filename):
        return None
    return FunctionPlace(getattr(function, "__name__", type(function).__name__), code.co_filename, code.co_firstlineno)


def _refusal(loader: Any, whole_command: bool) -> str:
    """Why this loader cannot be tried; "" if it can. Ranks can if all of them belong to the `whole_command`."""
    if arms.is_stream(loader):
        return "iterable"
    found = present()
    if found is None:
        return ""
    here = ranks_here(os.environ)
    return "" if whole_command and (here is None or here >= found.of) else "ranks"


class Trying:
    """What `advise` adds to a watched script. Its patches are apart from the recording's, and stay when that ends."""

    def __init__(self, recording: Recording, numbers: Any, quiet: Callable[[], object], device: TrainingDevice) -> None:
        self.makers = Makers(recording, numbers)
        self.looker = LoopLooker(recording, OFTEN_S)
        clock = Clock(time.perf_counter, device.synchronize)
        self.trial = Trial(recording, self.makers.has_number, quiet, clock, self.makers.number_of)
        self.patches = Patches(recording.fault)

    def stepped(self, number: int) -> None:
        """Notes the end of an iteration of a loop without a loader, which may be told to end."""
        self.looker.stepped(number)
        if not self.trial.elsewhere and present() is None:
            self.trial.obey()

    def watch(self, module: Any) -> None:
        """Patches torch.utils.data.dataloader. Called before the recording patches it, so that these stay beneath."""
        _watch(self.trial, self.makers, self.looker, module, self.patches)

    def end(self) -> None:
        """Ends the workers of ours, and puts back what was replaced."""
        self.looker.end()
        self.trial.guarded(self.trial.end)
        self.patches.undo()


def _watch(trial: Trial, makers: Makers, looker: LoopLooker, module: Any, patches: Patches) -> None:
    loaders, iterators = module.DataLoader, module._BaseDataLoaderIter
    plain_iter, plain_next, plain_check = loaders.__iter__, iterators.__next__, loaders.check_worker_number_rationality

    @unseen
    @functools.wraps(plain_check)
    def check_worker_number_rationality(self: Any) -> None:  # the end of the constructor, which itself stays torch's
        if not trial.elsewhere:
            trial.guarded(makers.made, self)
        plain_check(self)

    @unseen
    @functools.wraps(plain_iter)
    def __iter__(self: Any) -> Any:
        if trial.elsewhere or arms.is_ours(self):
            return plain_iter(self)
        found = trial.iterate(self, plain_iter, plain_next)
        trial.guarded(makers.iterated, self, "" if arms.is_of_torch(found) else "own-iterator")
        return found

    batch = functools.partial(trial.batch, plain=plain_next, plain_iter=plain_iter)

    @unseen
    @functools.wraps(plain_next)
    def __next__(self: Any) -> Any:
        if trial.elsewhere:
            return plain_next(self)
        return looker.next(batch, self, trial.number_at)

    patches.replace(loaders, "check_worker_number_rationality", check_worker_number_rationality)
    patches.replace(loaders, "__iter__", __iter__)
    patches.replace(iterators, "__next__", __next__)
