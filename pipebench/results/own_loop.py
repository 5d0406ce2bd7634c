"""Whether each loader of the training loop has a loop of its own, and how long its iterations are."""

from __future__ import annotations

from pipebench.results.watched import LoaderResult, WatchResult


def own_iteration_s(found: WatchResult, loader: LoaderResult) -> float | None:
    """Seconds of an iteration of the loop over this loader, if the others of `loaders_in_loop` have their own loops.

    None: it is the only one, or they are iterated in step. Then `loop` has an iteration.
    """
    counts = [one.iterations for one in found.loaders if one.loader in found.loaders_in_loop]
    return loader.s_per_iteration if len(counts) > 1 and sum(counts) == found.iterations else None
