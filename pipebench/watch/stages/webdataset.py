"""Times each stage of a webdataset pipeline as a row of its own.

A pipeline is a chain of iterators; each asks the one before for its next item. `DataPipeline.invoke` makes them one by
one. Its result is wrapped in a `Stage`, which times each `next()`. The stage before is timed too, so every row is
exclusive. No pipeline and no stage of the script changes: to time the functions of `map_dict` or `map_tuple` one by
one, or to count what a handler hides, a copy of that stage runs.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from pipebench.watch.record.exclusive_time import local, name_of, stages, timed
from pipebench.watch.record.lines import StageName
from pipebench.watch.record.own_code import users_function
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.stages.fields import PASSES, TAKES, Fields, Samples, counting_decoder, is_decoder
from pipebench.watch.stages.hidden_errors import counting_function, counting_object
from pipebench.watch.stages.keys_read import keys_read
from pipebench.watch.stages.transforms import watched_by_library

# webdataset's own functions and classes, by the kind of row; any other stage is "getitem" if it is one of
# webdataset's, and "transform" if it is the script's.
_READ = frozenset({
    "SimpleShardList", "ResampledShards", "DirectoryShardList", "MultiShardSample", "resampled", "single_node_only",
    "split_by_node", "split_by_worker", "StreamingOpen", "FileCache", "url_opener", "tar_file_expander",
    "group_by_keys", "tarfile_samples", "check_empty", "non_empty",
})  # fmt: skip
_KINDS = {
    **dict.fromkeys(_READ, "read"),
    **dict.fromkeys(("map", "map_dict", "map_tuple"), "transform"),
    **dict.fromkeys(("decode", "xdecode", "Decoder"), "decode"),
    "batched": "collate",
}
_PACKAGE = "webdataset."
# What code may do with an iterator besides going on, as with an open file: a proxy would not do it.
_MORE = frozenset({
    "__enter__", "__aenter__", "__bool__", "__len__", "__getitem__", "__setitem__", "__delitem__", "__contains__",
    "__reversed__", "__call__", "__eq__", "__lt__", "__add__", "__or__", "__index__", "__copy__", "__deepcopy__",
})  # fmt: skip
_BATCHES = ("batched", "unbatched", "unlisted")


class Passing:
    """A proxy of an iterator that forwards every attribute."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    @property
    def __class__(self) -> Any:
        return type(self._iterator)  # other code sees the iterator's own class, such as a generator

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise TypeError("the class of a stand-in cannot be set")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __iter__(self) -> Any:
        return self


def only_iterates(found: Any) -> bool:
    """Whether a proxy can stand for this iterator. Python asks for special methods in the class, not in the object."""
    own = {name for base in type(found).__mro__ if base is not object for name in vars(base)}
    return isinstance(found, Iterator) and own.isdisjoint(_MORE)


class Stage(Passing):
    """A proxy of one stage's iterator for the stage after it. It times each `next()`, and counts what it gave.

    `fields` are those of its samples that are followed (None: there are none).
    """

    def __init__(self, iterator: Any, stage: int, fields: Fields | None = None) -> None:
        super().__init__(iterator)
        self._stage, self._fields = stage, fields

    @unseen
    def __next__(self) -> Any:
        timer = local.timer
        if timer is None:
            return next(self._iterator)
        before = timer.switch(self._stage)
        try:
            found = next(self._iterator)
        finally:
            timer.switch(before)
        timer.gave[self._stage] = timer.gave.get(self._stage, 0) + 1
        return found


class _Takes(Stage):
    """A stage that takes fields out of a sample, gives them other names, or asks for some of them."""

    def __init__(self, iterator: Any, stage: int, samples: Samples) -> None:
        super().__init__(iterator, stage, samples.fields if samples.passes_on else None)
        self._samples = samples

    @unseen
    def __next__(self) -> Any:
        found = super().__next__()
        self._samples.passed(found)
        return found


class _Batches(Stage):
    """The last stage of a pipeline that makes batches. It counts the samples in each batch; nothing else knows them."""

    def __init__(self, iterator: Any, stage: int, source: _CountedItems, most: int) -> None:
        super().__init__(iterator, stage)
        self._source, self._most, self._given = source, most, 0

    @unseen
    def __next__(self) -> Any:
        timer = local.timer
        already = (timer.batched or 0) if timer is not None else 0
        found = super().__next__()
        samples = min(self._most, self._source.count - self._given)  # it may hold the first sample of the next batch
        self._given += samples
        if timer is not None:
            timer.batched = already + samples
        return found


class _CountedItems:
    """Counts the items that a stage asks for."""

    def __init__(self, source: Any) -> None:
        self._source, self.count = iter(source), 0

    def __iter__(self) -> _CountedItems:
        return self

    @unseen
    def __next__(self) -> Any:
        found = next(self._source)
        self.count += 1
        return found


def watch_pipeline(patches: Patches, module: Any) -> None:
    """Patches webdataset.DataPipeline, the base of WebDataset and WebLoader."""
    plain = module.DataPipeline.invoke

    @unseen
    @functools.wraps(plain)
    def invoke(self: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None and not _in_worker():
            return plain(self, f, *args, **kwargs)
        stage = stages.number(*_described(f))
        source = _CountedItems(args[0]) if len(args) == 1 and _makes_last_batches(self, f) else None
        before = timer.switch(stage) if timer is not None else 0
        fields, samples = _followed(f, args)
        its = source or samples
        try:
            found = plain(self, _told_apart(f, fields), *((its,) if its is not None else args), **kwargs)
        finally:
            if timer is not None:
                timer.switch(before)
        if source is not None:
            return _Batches(found, stage, source, _batch_size(f))
        if not only_iterates(found):
            return found
        return Stage(found, stage, fields) if samples is None else _Takes(found, stage, samples)

    patches.replace(module.DataPipeline, "invoke", invoke)


def _in_worker() -> bool:
    """Whether a pipeline that is built here runs inside a fetch, or in a process that ends with its loader."""
    module: Any = sys.modules.get("torch.utils.data._utils.worker")
    return module is not None and module._worker_info is not None


def _curried(stage: Any) -> bool:
    """Whether this is a webdataset function with its arguments, such as `map(f)` or `shuffle(1000)`."""
    return type(stage).__name__ == "FilterFunction" and type(stage).__module__.startswith(_PACKAGE)


def _function_name(stage: Any) -> str:
    """The public name of a webdataset function: without the leading underscore."""
    return name_of(stage.f).strip("_") if _curried(stage) else ""


def _described(stage: Any) -> StageName:
    """The name of a stage's row. `map(f)` has the name of f."""
    name, inner = _function_name(stage), stage
    if name == "map" and stage.args and not watched_by_library(type(stage.args[0])):
        inner, name = stage.args[0], name_of(stage.args[0])
        if _of_webdataset(inner) and name == "Decoder":
            return StageName("decode", name)
        return StageName("transform", name, own=users_function(inner))
    name = name or name_of(stage)
    if _curried(stage):
        inner = stage.f
    if _of_webdataset(inner):
        return StageName(_KINDS.get(name, "getitem"), name)
    kind = _kind_of_own(stage)
    return StageName(kind, name, own=kind == "transform" and users_function(stage))


def _of_webdataset(one: Any) -> bool:
    found = getattr(one, "__module__", None)
    return one is itertools.islice or (isinstance(found, str) and found.startswith(_PACKAGE))


def _kind_of_own(stage: Any) -> str:
    """The kind of a script's own stage: a function transforms items; a dataset or a list is their source."""
    return "transform" if callable(stage) and not hasattr(stage, "__iter__") else "getitem"


def _followed(stage: Any, args: tuple[Any, ...]) -> tuple[Fields | None, Samples | None]:
    """The fields that are followed through a stage, and with it the samples that come to one which takes fields out.

    A decoder begins to follow those that it makes.
    """
    name = _function_name(stage)
    if name == "map" and stage.args and is_decoder(stage.args[0]):
        return Fields(), None
    before = args[0] if len(args) == 1 and type(args[0]) in (Stage, _Takes) else None
    fields = before._fields if before is not None else None
    keys = keys_read(stage.args[0]) if fields is not None and name == "map" and stage.args else None
    if fields is not None and keys is not None:
        return None, Samples(before, fields, keys)
    if fields is None or (name not in (*TAKES, *PASSES) and stage is not itertools.islice):
        return None, None
    return fields, Samples(before, fields) if name in TAKES else None


def _told_apart(stage: Any, fields: Fields | None) -> Any:
    """A copy of a stage whose handler counts. In `map_dict(...)` or `map_tuple(...)`, each function is timed too.

    Those of `map_dict` have names: what has none is its handler. A decoder counts the `fields` that it makes.
    """
    if not _curried(stage):
        return counting_object(stage) if _of_webdataset(type(stage)) else stage
    stage = counting_function(stage)
    name = _function_name(stage)
    if fields is not None and name == "map":
        return type(stage)(stage.f, counting_decoder(stage.args[0], fields), *stage.args[1:], **stage.kw)
    if name not in ("map_dict", "map_tuple"):
        return stage
    args = stage.args if name == "map_dict" else map(_timed, stage.args)
    named = {key: one if key == "handler" else _timed(one) for key, one in stage.kw.items()}
    return type(stage)(stage.f, *args, **named)


def _timed(function: Any) -> Any:
    if not callable(function) or watched_by_library(type(function)):
        return function
    return timed(function, stages.of_transform(function))


def _makes_last_batches(pipeline: Any, stage: Any) -> bool:
    """Whether the batches of `stage` reach the loader: no later stage splits them or makes new ones."""
    if _function_name(stage) != "batched":
        return False
    return [one for one in pipeline.pipeline if _function_name(one) in _BATCHES][-1:] == [stage]


def _batch_size(stage: Any) -> int:
    return int(stage.args[0] if stage.args else stage.kw.get("batchsize", 20))
