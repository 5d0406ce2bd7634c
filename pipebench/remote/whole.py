"""One whole run of `remote`: the shards, the first look, a local copy, and windows by connections."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipebench.errors import PipebenchError, install
from pipebench.host.redaction import redacted
from pipebench.host.scratch import Scratch
from pipebench.remote import addresses, looking, windows
from pipebench.remote.fetching import Fetch, Fetcher
from pipebench.results.remote import Connections, Remote


@dataclass(frozen=True)
class Asked:
    """The settings of a run: what is to be fed in images per second, the most connections, and the limits."""

    feed: float | None
    connections: int
    window_s: float
    timeout_s: float
    retries: int


def fetcher(timeout_s: float) -> Fetch:
    try:
        return Fetcher(timeout_s)
    except ImportError as missing:
        problem = "addresses are fetched with urllib3, which is not installed"
        raise PipebenchError(problem, install("remote")) from missing


def measured(given: Sequence[str], asked: Asked, progress: Callable[[int, int, str], None]) -> tuple[Remote, bool]:
    """What the server gives. The second value is False if an interrupt came: then it is what was measured until then.

    Raises PipebenchError where no shard comes at all.
    """
    fetch = fetcher(asked.timeout_s)
    with Scratch("remote") as folder:
        progress(0, 0, "listing shards")
        shards = addresses.resolved(given, asked.timeout_s, asked.retries)
        progress(0, 0, "looking at the first shard")
        copy = folder / "beginning.tar"
        first = looking.look(fetch, shards[0], copy, asked.timeout_s, asked.retries)
        local = looking.local(copy) if first.came else None
    found = Remote(
        addresses=tuple(map(redacted, given)), shards=len(shards), feed=asked.feed, images=first.images,
        looked_bytes=first.looked_bytes, set_bytes=None, look=first.tally.traffic, rows=(), local=local,
        window_s=asked.window_s, timeout_s=asked.timeout_s, most_retries=asked.retries,
        read_bytes=first.tally.bytes_read,
    )  # fmt: skip
    server = windows.Server(fetch, shards, asked.window_s, asked.timeout_s, asked.retries, first.tally.doubtful)
    sizes, rows, complete = dict(first.tally.size_bytes), list[Connections](), False
    read_bytes = found.read_bytes

    def window(count: int) -> windows.Window:
        nonlocal read_bytes
        one = server.window(count)
        sizes.update(one.size_bytes)
        read_bytes += one.bytes_read
        return one

    def keep(so_far: list[Connections]) -> None:
        rows[:] = so_far

    with contextlib.suppress(KeyboardInterrupt):
        windows.measure(window, asked.feed, asked.connections, found.images_per_s, keep=keep, progress=progress)
        complete = True
    of_all = sum(sizes.values()) / len(sizes) * len(shards) if sizes else None
    return replace(found, rows=tuple(rows), set_bytes=of_all, read_bytes=read_bytes), complete
