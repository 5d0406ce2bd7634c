"""Which loader of a watched run is tried. Pure."""

from __future__ import annotations

from pipebench.remedies.one_iterator import NEW_ITERATORS
from pipebench.results.watched import LoaderResult, WatchResult

_ONE_LOOP = 0.9  # of the longest: loaders that are zipped take nearly the same time


def main_loader(watched: WatchResult) -> int | None:
    """The loader whose loop trains and takes the most time. Of loaders in one loop, the one that is waited for most.

    One whose every batch is of a new iterator has no loop of its own: then it is the loader around it.
    """
    asked = {one.loader for one in watched.account.causes if one.code == NEW_ITERATORS} if watched.account else set()
    training = [one for one in watched.loaders if one.loader and one.loader not in asked and (one.training or asked)]
    most = max((_seconds(one) for one in training), default=0.0)
    longest = [one for one in training if _seconds(one) >= _ONE_LOOP * most]
    found = max(longest, key=lambda one: one.iterations * (one.wait_s_per_iteration or 0.0), default=None)
    return found.loader if found else None


def _seconds(loader: LoaderResult) -> float:
    return loader.iterations * (loader.s_per_iteration or 0.0)
