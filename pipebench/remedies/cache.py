"""A cache of what one of the user's functions gives, such as a decoded and cleaned recording, in place of making it.

It is tried as a full cache would be: what the function gave first is served again, so the weights of the trial are
worth nothing. Before that, some calls are made twice, and must give the same bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from pipebench.remedies.seen import Seen, were_free
from pipebench.remedies.source import call_of
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.stages import finding_transforms
from pipebench.watch.trial.compared import leaves, nbytes
from pipebench.watch.trial.edits import Edit, Refused, Repeats, Sent
from pipebench.watch.trial.memo import Kept, same

PLACE = 8
LEAST_SHARE = 0.15  # of the time of the workers
HOW = "Make it once for each sample before the loader is made: in a list, which forked workers share, or in files."
_TWICE = 2  # calls of each worker
_KEYS = (int, float, str, bytes, PurePath, type(None))


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if not seen.serves_stages:
        return None
    known = [one.change.edits["cache"]["name"] for one in tried]
    rows = [
        (one.worker_share, one.name)
        for one in seen.watched.stages
        if one.loader == seen.loader.loader and one.kind == "function" and one.worker_share >= LEAST_SHARE
    ]
    share, name = max((one for one in rows if one[1] not in known), default=(0.0, ""))
    if not name:
        return None
    return Change(
        "cache", {}, "memory or disk", predicted=were_free(share), title=f"a cache of {name}",
        edits={"cache": {"name": name}}, how=(HOW,), at=call_of(seen, name.split(".")[-1]), discards=True,
    )  # fmt: skip


@dataclass
class _State:
    """What is known of the function in one worker: the first results by the kinds of arguments, and their sizes."""

    kept: dict[Any, Kept] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    problem: str = ""
    told: bool = False

    def serve(self, plain: Callable[..., Any], arguments: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        found = self.kept.get(tuple(map(type, arguments)))
        if found is not None and len(self.sizes) >= _TWICE:
            return found.serve()
        result = plain(*args, **kwargs)
        if not arguments or not all(map(_is_key, arguments)):
            self.problem = "no-keys"
        elif not self.problem and not same(result, plain(*args, **kwargs)):
            self.problem = "differs-each-time"
        self.sizes.append(sum(nbytes(one) for _, one in leaves(result)))
        self.kept[tuple(map(type, arguments))] = Kept(result)
        return result


def _is_key(found: Any) -> bool:
    """Whether this tells one sample from another, and is the same in each pass: a number, a name, or some of these."""
    if isinstance(found, tuple):
        return bool(found) and all(map(_is_key, found))
    return isinstance(found, _KEYS) or (hasattr(found, "__index__") and not getattr(found, "shape", ()))


class _Cache(Edit):
    def __init__(self, name: str) -> None:
        self.name = name

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        state, plain = _State(), fetcher.fetch

        serving = functools.partial(_served, state=state)
        if not finding_transforms.replace_called(fetcher.dataset, patches, self.name, serving):
            raise Refused("no-such-stage")

        def fetch(index: Any) -> Any:
            batch = plain(index)
            if state.problem:
                raise Refused(state.problem)
            if state.told or not state.sizes:
                return batch
            state.told = True
            return Sent(batch, [Repeats(True, sum(state.sizes) / len(state.sizes))])

        fetcher.fetch = fetch


edit = _Cache


def _served(plain: Callable[..., Any], of_object: bool, state: _State) -> Callable[..., Any]:
    @unseen
    @functools.wraps(plain)
    def served(*args: Any, **kwargs: Any) -> Any:
        arguments = (*args[of_object:], *kwargs.values())
        return state.serve(plain, arguments, args, kwargs)

    return served
