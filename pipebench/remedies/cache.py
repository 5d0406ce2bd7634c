"""A cache of what one function gives, such as a decoded image or a cleaned recording, in place of making it again.

A function counts with all that it calls: a loader function mostly calls a decoder. The cache is tried as if it were
full: what the function gave first is served again, so the weights of the trial are worth nothing. Before that, its
first calls are made twice. They must give the same bit for bit, and draw no random numbers. Some samples are made
twice, too: then the function must get the same arguments again, or indices of the dataset. If samples that are far
apart have all arguments in common, one result serves all samples. A function that also sets what other code reads later
has no cache: of a result that is served again, that would be missing.

A function that stands behind `functools.lru_cache` has a cache that is too small, if it has a bound: it gets a larger
one. The trial calls the function without its cache. What holds all results, also with a bound, needs no other.
"""

from __future__ import annotations

import dis
import functools
import math
import operator
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from pipebench.remedies.decorated import Decorated, decorated
from pipebench.remedies.seen import WORTH, Seen, functions, were_free, whole_share
from pipebench.remedies.source import call_of
from pipebench.results.advice import Change, Finding
from pipebench.results.watched import StageResult
from pipebench.units import counted
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.record.worker_lines import Holds
from pipebench.watch.stages import called, finding_transforms, in_place
from pipebench.watch.trial.asked import Asked
from pipebench.watch.trial.compared import indices_of, leaves, length_of, nbytes
from pipebench.watch.trial.edits import Edit, Refused, Repeats, Sent
from pipebench.watch.trial.memo import NAMES, Kept, is_key, same
from pipebench.watch.worker.draws import random_state
from pipebench.watch.worker.fetching import held_weakly

PLACE = 8
_NEARLY = 0.9
LEAST_SHARE = 0.15  # of the time of the workers, with what the function calls
HOW = (
    "Make it once for each sample before the loader is made: in a list, which forked workers share, or in files.",
    "In the list, have arrays, tensors or images: of many small objects, each worker would get its own copy.",
)
HOW_UNFORKED = (
    "Make it once for each sample, in files, or in one that each worker opens by np.load(..., mmap_mode='r') when it",
    "first needs it. Of a list, or of an array opened before, each worker would get a copy: it is not forked.",
)
HOW_LARGER = "Its lru_cache holds {}: give it maxsize=None, or as many as a worker asks for."
AND_PERSISTENT = "Write persistent_workers=True, too: a worker that ends with its pass loses what it holds."
_FOLDERS = ("ImageFolder", "DatasetFolder")
_OF_FOLDERS = ("loader", "default_loader", "pil_loader")  # the rows of what torchvision's folders read an image with
ONCE = "Make it once, before the loader is made: it gives all samples the same."
COPIES = "Each sample needs a copy of it (copy.deepcopy), because the script changes it in place."
HOW_OF_FOLDERS = (
    "Before the loader is made, where `data` is the dataset:",
    "kept = {path: data.loader(path) for path, _ in data.samples}",
    "data.loader = kept.__getitem__",
)
_UNFORKED = ("spawn", "forkserver")  # their workers get a pickled copy of the dataset
_FIRST = 8  # calls of each worker that are made twice, and whose results are served in turn
_LEAST, _MOST_BYTES = 2, 64_000_000  # fewer of them, if their results are larger
_APART = 4  # of the dataset: samples that are so far apart, or more, tell of all samples
_OF_A_CACHE = ("cache_info", "cache_clear", "cache_parameters")
_SETTERS = ("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_GLOBAL")
# Of a dataset: what runs before its samples are made, or after all of them.
_BESIDE = (
    "__init__", "__getstate__", "__setstate__", "__reduce__", "__del__", "__len__", "__repr__", "__enter__", "__exit__",
    "close",
)  # fmt: skip


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if not (seen.serves_stages or (seen.discards and not seen.workers and seen.most >= WORTH)):
        return None
    rows = [one for one in functions(seen) if whole_share(one) >= LEAST_SHARE]
    known = {one.change.edits["cache"]["name"]: one.gain for one in tried}
    served = [one for one in rows if known.get(one.name) is not None or one.holds == "all"]
    known.update((one.name, None) for one in served)
    left = [one for one in rows if one.name not in known and not any(_may_hold(outer, one) for outer in served)]
    most = max(left, key=lambda one: (whole_share(one), one.name), default=None)
    if most is None:
        return None
    # Without workers, the loop waits while a sample is made.
    share = whole_share(most) * (1.0 if seen.workers else seen.wait_share)
    of_folder = seen.loader.dataset in _FOLDERS and most.name in _OF_FOLDERS
    how = HOW_UNFORKED if seen.loader.start_method in _UNFORKED else HOW_OF_FOLDERS if of_folder else HOW
    change = Change(
        "cache", {}, "memory or disk", predicted=were_free(share), title=f"a cache of {most.name}",
        edits={"cache": {"name": most.name}}, how=how,
        at=call_of(seen, most.name.split(".")[-1]), discards=True, if_once=(f"{most.name} made once", ONCE),
        if_changed=(COPIES,),
    )  # fmt: skip
    found = decorated(seen, most.name)
    holds = most.holds if isinstance(most.holds, int) else found.holds if found is not None else None
    return change if holds is None else _larger(seen, change, most.name, holds, found)


def _larger(seen: Seen, change: Change, name: str, holds: int, found: Decorated | None) -> Change:
    """The change of a function whose own cache holds too few results."""
    ends = seen.workers > 0 and not seen.settings.get("persistent_workers")
    return replace(
        change, cost="memory in each worker" if seen.workers else "memory", title=f"a larger lru_cache of {name}",
        how=(HOW_LARGER.format(counted(holds, "result")), *([AND_PERSISTENT] if ends else [])),
        at=found.place if found is not None else change.at, rewrites=found.without_bound() if found is not None else (),
        partly=ends,
    )  # fmt: skip


def _may_hold(outer: StageResult, inner: StageResult) -> bool:
    """Whether the time of `inner` may lie within `outer`: what that has besides its own time is enough for it."""
    return whole_share(outer) >= outer.worker_share + _NEARLY * whole_share(inner)


@dataclass
class _State:
    """What is known of the function in one worker: its first results, and their sizes.

    `kept` has them by the kinds of their arguments, with these, and by which of the `per_sample` calls of a sample it
    was: an image and its mask may be read by one function. `placeless`: samples make different numbers of calls.
    `calls` are those of this batch. `asked` are the arguments of the latest calls; `by_index`: they are indices of the
    dataset. `once`: one result serves all samples. It is `active` while a batch of the changed loader is made: without
    workers, the others are made here, too. `holds` is what the script's own cache of the function does. `seconds` are
    those of the first calls, and `known` has all arguments.
    """

    kept: dict[Any, list[tuple[Any, Kept]]] = field(default_factory=dict)
    calls: int = 0
    per_sample: int | None = None
    sizes: list[int] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    problem: str = ""
    told: bool = False
    once: bool = False
    by_index: bool = False
    placeless: bool = False
    active: bool = False
    holds: Holds = None
    seconds: list[float] = field(default_factory=list)
    known: Asked = field(default_factory=Asked)

    @property
    def full(self) -> bool:
        large = len(self.sizes) >= _LEAST and sum(self.sizes) >= _MOST_BYTES
        return len(self.sizes) >= _FIRST * (self.per_sample or 1) or large

    def serve(self, plain: Callable[..., Any], arguments: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        self.known.call(arguments)
        place = self.calls % self.per_sample if self.per_sample is not None else self.calls
        kinds = place, *map(type, arguments)
        self.calls += 1
        if not self.told:
            self.asked.append(arguments)
        if kinds in self.kept and self.full:
            found = self.kept[kinds]
            found.append(found.pop(0))
            return found[-1][1].serve()
        before = random_state()
        began = time.perf_counter()
        result = plain(*args, **kwargs)
        self.seconds.append(time.perf_counter() - began)
        if not all(map(is_key, arguments)):
            self.problem = self.problem or "no-keys"
        elif not same(before, random_state()):
            self.problem = self.problem or "draws-numbers"
        elif not self.problem and not self._repeats(kinds, arguments, result, lambda: plain(*args, **kwargs)):
            self.problem = "differs-each-time"
        self.sizes.append(sum(nbytes(one) for _, one in leaves(result)))
        self.kept.setdefault(kinds, []).append((arguments, Kept(result)))
        if self.placeless and len({_form(one.first) for _, one in self.kept[kinds]}) > 1:
            self.problem = self.problem or "no-place"
        return result

    def _repeats(self, kinds: Any, arguments: Any, result: Any, again: Callable[[], Any]) -> bool:
        """Whether it gives the same if it is called again, and gave the same before for these arguments."""
        earlier = [one.first for asked, one in self.kept.get(kinds, ()) if same(asked, arguments)]
        return all(same(result, one) for one in (again(), *earlier))

    def notes(self, length: int) -> list[Repeats]:
        """What is to be told of a dataset of this length: first what a result takes, later how many there are."""
        settled = self.known.settled()
        if settled and isinstance(self.holds, int) and len(self.known.keys) <= self.holds:
            raise Refused("holds-all")
        if not self.sizes or (self.told and not settled):
            return []
        self.told = True
        self.asked.clear()
        calls = 1 if self.by_index else self.per_sample or 1
        changed = any(one.changed for each in self.kept.values() for _, one in each)
        workers = _workers()
        found = Repeats(True, calls * fmean(self.sizes), self.once, changed, length)
        if settled:  # each worker may ask for others, and then each has as many
            enough = workers * (math.ceil(len(self.known.keys) / calls) + self.known.unseen(length))
            found = replace(found, enough=enough, sample_s=calls * fmean(self.seconds))
        return [found if self.holds is None else replace(found, copies=workers)]

    def ended(self) -> None:
        """Called after a batch. If its samples made different numbers of calls, no call has a place of its own."""
        if self.calls % (self.per_sample or 1):
            self._forget_places()

    def _forget_places(self) -> None:
        self.placeless, self.per_sample = True, 1
        self.kept.clear()
        self.sizes.clear()
        self.seconds.clear()

    def ask_again(self, dataset: Any, indices: Any) -> None:
        """Makes some samples twice: a cache needs the same arguments each time, or indices of the dataset."""
        several = getattr(dataset, "__getitems__", None)
        chosen, length = _ends(indices), _length(dataset)
        every, counts = [], set()
        for index in chosen:
            asked = []
            for _ in range(2):
                self.asked.clear()
                self.calls = 0
                several([index]) if several else dataset[index]
                asked.append(list(self.asked))
                counts.add(self.calls)
            every += [one for found in asked for one in found]
            if not same(*asked) and not all(_is_index(one, length) for found in asked for one in found):
                self.problem = self.problem or "other-keys"
        self.by_index = all(one and all(map(is_key, one)) and _is_index(one, length) for one in every)
        self.per_sample = max(1, *counts)
        if len(counts) > 1:
            self._forget_places()
        apart = all(type(one) is int for one in chosen) and _APART * (chosen[-1] - chosen[0]) >= length > 1
        self.once = apart and bool(every) and all(same(one, every[0]) for one in every)
        if not self.once and () in every:
            self.problem = self.problem or "no-keys"


def _form(result: Any) -> tuple[Any, ...]:
    """What tells an image from its mask: the types of a result's parts, and their numbers of dimensions."""
    return tuple((path, type(one), getattr(one, "ndim", None)) for path, one in leaves(result))


def _ends(indices: Any) -> list[Any]:
    """Two indices of a batch, as far apart as it has them."""
    numbers = all(type(one) is int for one in indices)
    return [min(indices), max(indices)] if numbers and len(indices) > 1 else list(indices[:2])


def _is_index(arguments: tuple[Any, ...], length: int) -> bool:
    """Whether these are indices of the dataset, as of other samples that a mosaic draws: a cache has all of them."""
    return all(not isinstance(one, NAMES) and 0 <= operator.index(one) < length for one in arguments)


def _length(dataset: Any) -> int:
    """The length of the dataset, or of one within it, if that is longer."""
    found = 0
    while dataset is not None:
        found = max(found, length_of(dataset))
        dataset = getattr(dataset, "dataset", None)
    return found


class _Cache(Edit):
    without_workers = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._state: _State | None = None  # of this process: workers that live on keep it from pass to pass

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        state = self._state = self._state or _State()
        held = held_weakly(fetcher)
        plain_ones: list[types.FunctionType] = []
        serving = functools.partial(_served, state=state, plain_ones=plain_ones)
        if not finding_transforms.replace_called(fetcher.dataset, patches, self.name, serving):
            raise Refused("no-such-stage")
        if any(_read_later(one, fetcher) for one in plain_ones):
            raise Refused("sets-state")
        if state.holds == "all":
            raise Refused("holds-all")

        def fetch(index: Any) -> Any:
            fetcher, plain = held()
            state.active = True
            try:
                if not state.told:
                    state.ask_again(fetcher.dataset, indices_of(fetcher, index))
                state.calls = 0
                batch = plain(index)
                state.ended()
                length = length_of(fetcher.dataset)
                state.known.batch(indices_of(fetcher, index), length)
            finally:
                state.active = False
            if state.problem:
                raise Refused(state.problem)
            notes = state.notes(length)
            return Sent(batch, [*notes]) if notes else batch

        fetcher.fetch = fetch


edit = _Cache


def _served(
    plain: Callable[..., Any], of_object: bool, state: _State, plain_ones: list[types.FunctionType]
) -> Callable[..., Any]:
    own = _unwrapped(plain)
    if own is not None:
        plain_ones.append(own)
    state.holds = called.held_by(plain)
    uncached = called.uncached(plain)

    @unseen
    @functools.wraps(plain)
    def served(*args: Any, **kwargs: Any) -> Any:
        if not state.active:
            return plain(*args, **kwargs)
        arguments = (*args[of_object:], *kwargs.values())
        return state.serve(uncached, arguments, args, kwargs)

    for name in _OF_A_CACHE:
        if hasattr(plain, name):
            setattr(served, name, getattr(plain, name))
    return served


def _workers() -> int:
    """How many workers the loader has whose worker this is; 1 outside of one."""
    found = sys.modules["torch"].utils.data.get_worker_info()
    return found.num_workers if found is not None else 1


def _read_later(function: types.FunctionType, fetcher: Any) -> set[str]:
    """Attributes and globals that the function sets, and that other code of the dataset reads and does not set.

    What sets it itself before it reads it, such as a file that is opened when it is first needed, does without.
    """
    own = in_place.own_code(function)
    found = _sets(own)
    if not found:
        return found
    others = [one for one in _beside(fetcher, function) if one is not own]
    others = [one for one in others if one.co_name not in own.co_names or _is_named(one, others)]
    return {name for name in found if any(name in one.co_names and name not in _sets(one) for one in others)}


def _is_named(code: types.CodeType, others: Sequence[types.CodeType]) -> bool:
    """Whether other code than the function calls this, too."""
    return any(code.co_name in one.co_names for one in others if one is not code)


def _sets(code: types.CodeType) -> set[str]:
    return {str(one.argval) for one in dis.get_instructions(code) if one.opname in _SETTERS}


def _beside(fetcher: Any, function: types.FunctionType) -> Iterator[types.CodeType]:
    """The code that may run in a worker after the function: methods of the datasets, collate, and what these name."""
    held = [*vars(fetcher.collate_fn).values()] if hasattr(fetcher.collate_fn, "__dict__") else []
    found = [fetcher.collate_fn, *held]
    dataset = fetcher.dataset
    while dataset is not None:
        for kind in type(dataset).__mro__:
            found += [one for name, one in vars(kind).items() if name not in _BESIDE]
        dataset = getattr(dataset, "dataset", None)
    codes = [in_place.own_code(own) for one in found if (own := _unwrapped(one)) is not None]
    named = {name for code in codes for name in code.co_names}
    others = (_unwrapped(one) for name, one in function.__globals__.items() if name in named)
    yield from codes
    yield from (in_place.own_code(one) for one in others if one is not None)


def _unwrapped(one: Any) -> types.FunctionType | None:
    """The function behind methods and wrappers; None for what is none."""
    one = getattr(one, "__func__", one)
    while hasattr(one, "__wrapped__"):
        one = one.__wrapped__
    return one if isinstance(one, types.FunctionType) else None
