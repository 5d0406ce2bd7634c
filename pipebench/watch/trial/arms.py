"""A loader that takes part in a trial: torch's own iterator, whose index lists come from a hand."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import itertools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from pipebench.watch.record import thread_pools
from pipebench.watch.record.from_handlers import from_a_handler
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.dealing import Deal, DealtSampler, Hand
from pipebench.watch.trial.edits import Edit, EditedWorker, Refused, edited, unpacked

_ITERABLE = 1  # of torch's `_DatasetKind`
PATIENCE_S = 60.0  # a changed loader that gives no batch for so long has failed: a forked worker can be deadlocked

_copies = itertools.count(1)
_FEW = 100  # of a list: in a longer one, only datasets are looked for


class CannotTry(Exception):
    """A changed loader cannot serve this script. The text is a code, for which `render/advice.py` has the sentence."""


class Arm:
    """One loader's iterator in a trial. `plain` is torch's own `next`.

    What the script itself iterates is not `held`: its workers end when the script leaves its loop, as in a plain run.
    If one of `ours` loses a worker, that is an error of the trial, not of whatever the script does then. `edits` are
    what its workers do otherwise, or its own fetcher without workers; `notes` is what they have told since somebody
    last looked.
    """

    def __init__(
        self,
        iterator: Any,
        hand: Hand,
        plain: Callable[[Any], Any],
        held: bool = True,
        edits: Sequence[Edit] = (),
        ours: bool = True,
    ) -> None:
        self._iterator: Callable[[], Any] = (lambda: iterator) if held else weakref.ref(iterator)
        self.hand, self.plain, self.edits = hand, plain, edits
        self.notes: list[Any] = []
        self.workers = int(getattr(iterator, "_num_workers", 0))
        self.ahead = self.workers * int(getattr(iterator, "_prefetch_factor", 0) or 0)
        self._stream = self.workers > 0 and getattr(iterator, "_dataset_kind", 0) == _ITERABLE
        self._patches = Patches()  # of this process
        if edits and not self.workers:
            iterator._dataset_fetcher = edited(iterator._dataset_fetcher, edits, self._patches)
        hand.owner = weakref.ref(iterator)
        self._spares = ours and self.workers > 0 and hasattr(iterator, "_worker_pids_set")
        if self._spares:
            _spare(iterator)

    @property
    def iterator(self) -> Any:
        return self._iterator()

    @property
    def dry(self) -> bool:
        """Whether every batch that was asked for has come. A loader without workers makes none ahead.

        A worker at the end of its stream leaves what it was asked for.
        """
        if not self._stream:
            return not self.workers or not self.iterator._task_info
        this = self.iterator
        return not any(len(one) > 1 or this._workers_status[one[0]] for one in this._task_info.values())

    @property
    def goes_on(self) -> bool:
        """Whether a closed hand alone has made this look like the end of the stream: some workers are not at theirs."""
        return self._stream and not self.hand.open and any(self.iterator._workers_status)

    def begin(self) -> None:
        """Opens the hand and asks for as many batches as the loader makes ahead."""
        self.hand.open = True
        if self.workers:
            this = self.iterator
            asked = max(len(this._task_info), getattr(this, "_tasks_outstanding", 0))
            for _ in range(self.ahead - asked):
                this._try_put_index()

    def draw(self) -> Any:
        """The next batch. Raises StopIteration at the end of the sampler, or what the loader raises."""
        began = perf_counter()
        found = self._drawn(self.iterator)
        if self.edits:
            found = unpacked(found, self.edits, self.notes.append, perf_counter() - began)
        self.hand.came(self.iterator._task_info if self.workers else ())
        return found

    def _drawn(self, iterator: Any) -> Any:
        plain = self._left if self._stream and not self.hand.open else self.plain
        if not self._spares:
            return plain(iterator)
        try:
            _heed(iterator)
            return plain(iterator)
        finally:
            _spare(iterator)

    def _left(self, iterator: Any) -> Any:
        """One of the batches that are still under way. torch must not end the workers if only one's stream is over."""
        kept, before = iterator._persistent_workers, list(iterator._workers_status)
        iterator._persistent_workers = True
        try:
            return self.plain(iterator)
        finally:
            iterator._persistent_workers = kept
            ended = [one for one, lives in enumerate(before) if lives and not iterator._workers_status[one]]
            for worker in ended if not kept else ():
                iterator._index_queues[worker].put(None)  # as torch tells a worker to end

    def ready(self) -> int:
        """How many finished batches wait to be taken."""
        if not self.workers:
            return 0
        this = self.iterator
        queues = {id(one): one for one in (this._worker_result_queue, this._data_queue)}
        with contextlib.suppress(NotImplementedError):
            held = sum(len(one) > 1 for one in this._task_info.values())
            return held + sum(int(one.qsize()) for one in queues.values())
        return 0

    def release(self) -> None:
        """Undoes what edits have replaced in this process."""
        self._patches.undo()

    def end(self) -> None:
        """Ends the workers, and gives back what they have not made."""
        self.release()
        self.hand.give_back()
        shutdown = getattr(self.iterator, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()


class OneThread:
    """A `worker_init_fn` that sets the thread pools of a worker to one thread, also after the script's own has run."""

    def __init__(self, init: Any) -> None:
        self.init = init

    def __call__(self, worker: int) -> None:
        for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR"):
            os.environ[f"{name}_NUM_THREADS"] = "1"
        thread_pools.limit_to_one()
        if self.init is not None:
            self.init(worker)
            thread_pools.limit_to_one()  # it may be what sets more


def changed(loader: Any, settings: dict[str, Any], one_thread: bool, edits: tuple[Edit, ...] = ()) -> Any:
    """A copy of `loader` with other settings, whose workers have these edits. The loader itself stays as it is.

    The copy has no iterator of the script's, and does nothing at its end: both are the loader's own. It draws its
    workers' seeds from a generator of its own, so the script's random numbers stay the same. Each copy has
    another seed.
    """
    found = object.__new__(_without_end(type(loader)))
    names = vars(found)
    names.update({name: one for name, one in vars(loader).items() if not is_of_torch(one)})
    names["_iterator"] = None
    names["check_worker_number_rationality"] = _nothing  # it would warn the user of our number of workers
    torch: Any = sys.modules["torch"]
    device = torch.empty(()).device  # torch draws its seeds on the default device
    names["generator"] = torch.Generator(device).manual_seed((torch.initial_seed() + 7919 * next(_copies)) % 2**63)
    names["persistent_workers"] = False
    names.update({name: value for name, value in settings.items() if name != "multiprocessing_context"})
    if loader.num_workers and not found.num_workers:
        names.update(_copied(loader))
    if not found.num_workers:
        if not all(one.without_workers for one in edits):
            raise Refused("no-workers")
        names.update(prefetch_factor=None, timeout=0)
        return found
    names["prefetch_factor"] = found.prefetch_factor or 2
    names["timeout"] = found.timeout or PATIENCE_S
    if "multiprocessing_context" in settings:
        found.multiprocessing_context = settings["multiprocessing_context"]
    if not loader.num_workers and not may_start(found):
        raise CannotTry("no-main-guard")
    if one_thread:
        names["worker_init_fn"] = OneThread(loader.worker_init_fn)
    if edits:
        names["worker_init_fn"] = EditedWorker(found.worker_init_fn, edits)
    return found


def may_start(loader: Any) -> bool:
    """Whether its workers do not run the whole script: they are forked, or the script's work is below a guard."""
    torch: Any = sys.modules["torch"]
    known = loader.multiprocessing_context or torch.multiprocessing
    method = known.get_start_method(allow_none=True) or torch.multiprocessing.get_all_start_methods()[0]
    file = getattr(sys.modules["__main__"], "__file__", None)
    if method == "fork" or file is None:
        return True
    try:
        with open(file, "rb") as source:
            found = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return True
    guards = (ast.walk(one.test) for one in found.body if isinstance(one, ast.If))
    return any(isinstance(one, ast.Name) and one.id == "__name__" for test in guards for one in test)


def _copied(loader: Any) -> dict[str, Any]:
    """A copy of the dataset with the same samples, and the `collate_fn`: if it is a method of the dataset, its copy's.

    Raises CannotTry if the dataset cannot be copied.
    """
    known: dict[int, Any] = {}
    try:
        found = {"dataset": _copy(loader.dataset, known)}
    except Exception as error:
        raise CannotTry("own-process") from error
    return {**found, "collate_fn": _bound(loader.collate_fn, known)}


def _copy(dataset: Any, known: dict[int, Any]) -> Any:
    """A copy of a dataset, of others that it holds, and of all in which it may keep what it opens later.

    That are lists and dictionaries, and objects of classes in its own file. Arrays are shared: they may be large.
    `known` has the copies by what they are of.
    """
    if id(dataset) in known or _is_array(dataset):
        return known.get(id(dataset), dataset)
    found = known[id(dataset)] = _shallow(dataset)
    if found is dataset:
        if _is_dataset(dataset):
            raise CannotTry("own-process")
        return found
    if hasattr(type(found), "__del__"):
        found.__class__ = _without_end(type(found))  # it may close what the script still has
    names = getattr(found, "__dict__", {})
    held = {**names, **{name: getattr(found, name) for name in _slots(found)}}
    for name, one in held.items():
        copied = _own(one, type(dataset).__module__, name in ("dataset", "datasets"), known)
        if name in names:
            names[name] = copied
        elif copied is not one:
            object.__setattr__(found, name, copied)  # of a frozen class, too
    return found


def _slots(one: Any) -> list[str]:
    """The names of the attributes that it holds in slots."""
    found = []
    for kind in type(one).__mro__:
        listed = vars(kind).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else listed:
            own = name.startswith("__") and not name.endswith("__")
            found.append(f"_{kind.__name__.lstrip('_')}{name}" if own else name)
    return [name for name in found if name not in ("__dict__", "__weakref__") and hasattr(one, name)]


def _bound(function: Any, known: dict[int, Any]) -> Any:
    """The same function. A method of what was copied is that of the copy."""
    if type(function) is functools.partial:
        return functools.partial(_bound(function.func, known), *function.args, **function.keywords)
    if isinstance(function, types.MethodType) and id(function.__self__) in known:
        return types.MethodType(function.__func__, known[id(function.__self__)])
    return function


def _shallow(one: Any) -> Any:
    try:
        return copy.copy(one)
    except RecursionError:  # it looks up what it lacks in another object, which its copy does not have yet
        found = object.__new__(type(one))
        vars(found).update(vars(one))
        return found


def _own(one: Any, module: str, named: bool, known: dict[int, Any]) -> Any:
    """The value of an attribute in the copy of an object of this module. `named`: its name is that of a dataset."""
    if type(one) in (list, tuple, dict):
        values = list(one.values() if type(one) is dict else one)
        if len(values) <= _FEW or _is_dataset(values[0]):
            copies = [_own(each, module, named, known) for each in values]
            return dict(zip(one, copies, strict=True)) if type(one) is dict else type(one)(copies)
    if isinstance(one, (list, dict, set)):
        return copy.copy(one)
    if isinstance(one, (types.MethodType, functools.partial)):
        return _bound(one, known)
    holds = hasattr(one, "__dict__") or bool(_slots(one))
    own = type(one).__module__ == module and holds and not isinstance(one, type)
    return _copy(one, known) if own or _is_dataset(one) or (named and hasattr(type(one), "__getitem__")) else one


def _is_dataset(found: Any) -> bool:
    return isinstance(found, sys.modules["torch.utils.data"].Dataset)


def _is_array(found: Any) -> bool:
    return hasattr(type(found), "__array__")


def _without_end(kind: Any) -> Any:
    """The class, or one like it without its `__del__`, which may end what the script still has."""
    return type(kind)(kind.__name__, (kind,), {"__del__": lambda self: None}) if hasattr(kind, "__del__") else kind


def dealt(found: Any, hand: Hand) -> Any:
    """Lets the loader `found` take its index lists from `hand`."""
    name = "batch_sampler" if found.batch_sampler is not None else "sampler"
    vars(found)[name] = DealtSampler(hand, found._index_sampler)
    return found


def opened(
    found: Any, deal: Deal, plain_iter: Callable[[Any], Any], plain: Callable[[Any], Any], edits: Sequence[Edit] = ()
) -> Arm:
    """An arm over the loader `found`: its workers are started, and it waits for its turn."""
    hand = Hand(deal)
    return Arm(plain_iter(dealt(found, hand)), hand, plain, edits=edits)


def joined(iterator: Any, plain: Callable[[Any], Any]) -> Arm:
    """An arm over the script's own iterator, which goes on as before: its hand is open. It keeps a hand that it has."""
    hand = iterator._sampler_iter
    if not isinstance(hand, Hand):
        hand = iterator._sampler_iter = Hand(Deal(hand))
    hand.open = True
    return Arm(iterator, hand, plain, held=False, ours=False)


def is_stream(loader: Any) -> bool:
    """Whether its workers choose the samples, so that each copy of the loader has a stream of its own."""
    return isinstance(getattr(loader, "dataset", None), sys.modules["torch.utils.data"].IterableDataset)


def is_of_torch(iterator: Any) -> bool:
    """Whether this is an iterator of torch's, not an object around one."""
    kind: type = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter
    return issubclass(type(iterator), kind)


def is_ours(loader: Any) -> bool:
    """Whether `changed` made this loader."""
    return vars(loader).get("check_worker_number_rationality") is _nothing


def from_the_script(error: BaseException) -> bool:
    """Whether a signal handler of the script raised the exception. What torch's own tells of a lost worker is none."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and place.tb_frame.f_code.co_filename != _signals().__file__ and from_a_handler(error)


def _nothing() -> None:
    pass


def _heed(iterator: Any) -> None:
    """From here on, torch raises an error in the main thread as soon as a worker of `iterator` is killed.

    Raises RuntimeError if one was killed before.
    """
    if iterator._shutdown:
        return
    if threading.current_thread() is threading.main_thread() and not iterator._worker_pids_set:
        _signals()._set_worker_pids(id(iterator), tuple(one.pid for one in iterator._workers))
        iterator._worker_pids_set = True
    lost = next((one for one in iterator._workers if one.exitcode), None)
    if lost is not None:
        raise RuntimeError(f"worker {lost.pid} was lost, exit code {lost.exitcode}")


def _spare(iterator: Any) -> None:
    """From here on, torch raises no such error, which could come at any line of the script."""
    if iterator._worker_pids_set:
        _signals()._remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


def _signals() -> Any:
    return sys.modules["torch.utils.data._utils.signal_handling"]
