"""Counts the fields of a sample that a webdataset pipeline decodes, and those that a later stage drops.

`decode` makes each field of a sample; `to_tuple` and others take some of them out of it. A field is followed by its
name, and through a stage by its value, which such a stage passes on as it is. A stage that looks into a sample, such as
`map(f)`, ends that. What it needs is known only if the code of `f` asks for nothing but single keys.
"""

from __future__ import annotations

import contextlib
import copy
from time import perf_counter_ns
from typing import Any

from pipebench.watch.record.exclusive_time import StageTimer, local
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.worker_lines import FieldSums

_MOST, _LONGEST = 16, 60  # names, and characters of one; samples with more or longer ones are not followed
TAKES = ("to_tuple", "extract_keys", "rename", "rename_keys")
PASSES = ("shuffle", "detshuffle", "map_dict", "slice", "islice", "rsample", "log_keys")  # they look at no other field


class Fields:
    """The fields that one decoder of a running pipeline makes, and what later stages call them."""

    def __init__(self) -> None:
        self.made: set[str] = set()
        self._names: dict[str, set[str]] = {}  # of a present name: those that it had when it was decoded

    def decoded(self, timer: StageTimer, name: str, spent_ns: int) -> None:
        if name in self.made or (len(self.made) < _MOST and len(name) <= _LONGEST):
            self.made.add(name)
            before = timer.fields.get(name)
            if before is not None or len(timer.fields) < _MOST:
                before = before or FieldSums()
                timer.fields[name] = before._replace(spent_ns=before.spent_ns + spent_ns)

    def taken(self, timer: StageTimer, sample: dict[Any, Any], found: Any) -> None:
        """Counts what a stage passes on of a sample. Of equal values it is not known which one: all count."""
        named = found if isinstance(found, dict) else None
        values = {id(one) for one in (found.values() if named is not None else found)}
        held: dict[int, set[str]] = {}
        for name, value in sample.items():
            origins = self._names.get(name, {name}) & self.made
            kept = id(value) in values
            held.setdefault(id(value), set()).update(origins)
            for origin in origins:
                self._count(timer, origin, kept=kept and named is None, dropped=not kept)
        for name, value in (named or {}).items():
            origins = held.get(id(value), set())
            if origins != {name} and (name in self._names or len(self._names) < _MOST):
                self._names[name] = self._names.get(name, set()) | origins

    def asked(self, timer: StageTimer, sample: dict[Any, Any], keys: frozenset[str]) -> None:
        """Counts what a function asks of a sample: the values of these keys, and no other."""
        for name in sample:
            for origin in self._names.get(name, {name}) & self.made:
                self._count(timer, origin, kept=name in keys, dropped=name not in keys)

    def _count(self, timer: StageTimer, name: str, *, kept: bool, dropped: bool) -> None:
        one = timer.fields.get(name)
        if one is not None:
            timer.fields[name] = one._replace(kept=one.kept + kept, dropped=one.dropped + dropped)


class Samples:
    """The samples that come to a stage, and their fields. The last one is held no longer than the stage holds it.

    `keys` are those that the stage asks for (None: what it passes on tells which fields it takes).
    """

    def __init__(self, source: Any, fields: Fields, keys: frozenset[str] | None = None) -> None:
        self._source, self.fields, self._keys = iter(source), fields, keys
        self._last: dict[Any, Any] | None = None

    @property
    def passes_on(self) -> bool:
        """Whether the fields can be followed through the stage."""
        return self._keys is None

    def __iter__(self) -> Samples:
        return self

    @unseen
    def __next__(self) -> Any:
        self._last = None
        found = next(self._source)
        self._last = found if type(found) is dict else None
        return found

    def passed(self, found: Any) -> None:
        """Notes what the stage made of the last one. It cannot fail the script."""
        sample, self._last = self._last, None
        timer = local.timer
        if timer is None or sample is None:
            return
        with contextlib.suppress(Exception):  # names that are no texts, or a sample that changes meanwhile
            if self._keys is not None:
                self.fields.asked(timer, sample, self._keys)
            elif type(found) in (dict, tuple, list):
                self.fields.taken(timer, sample, found)


def is_decoder(function: Any) -> bool:
    """Whether this is webdataset's own decoder, as `decode(...)` makes it."""
    kind = type(function)
    return kind.__name__ == "Decoder" and kind.__module__ == "webdataset.autodecode" and hasattr(function, "decode1")


def counting_decoder(decoder: Any, fields: Fields) -> Any:
    """A copy of webdataset's decoder that counts and times the fields that it makes."""
    plain, ours = decoder.decode1, local

    @unseen
    def decode1(key: Any, data: Any) -> Any:
        timer = ours.timer
        if timer is None:
            return plain(key, data)
        began = perf_counter_ns()
        found = plain(key, data)
        if found is not data and type(key) is str:
            fields.decoded(timer, key, perf_counter_ns() - began)
        return found

    found = copy.copy(decoder)
    found.decode1 = decode1
    return found
