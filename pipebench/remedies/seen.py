"""What a remedy knows when it decides whether to be tried: the watched run, and how the loader was made."""

from __future__ import annotations

from dataclasses import dataclass

from pipebench.results.advice import Value
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.units import size

_TELLING = 10.0  # a limit above this says nothing about what a change will bring
# Parts of a wait that workers do not change. Receiving is none: on a busy machine it holds waits for a worker, too.
_OF_THE_SCRIPT = ("sampler", "send-indices")
WORTH = 1.03  # a speed-up that is worth an edit
TRY_FROM = 1.08  # a limit that is worth a trial: runs differ so much that an interval shows hardly less


@dataclass(frozen=True)
class Seen:
    """The figures behind every proposal. `settings` are the loader's present ones, `batches` the length of a pass.

    `any_order` says that the user allows trials that change the order of batches. `free_bytes` is free memory.
    """

    watched: WatchResult
    loader: LoaderResult
    settings: dict[str, Value]
    batches: int | None
    device: bool = False
    free_bytes: float | None = None
    any_order: bool = False

    def number(self, name: str) -> int:
        found = self.settings.get(name)
        return int(found) if isinstance(found, int | float) else 0

    def has_cause(self, *codes: str) -> bool:
        """Whether the account of the watched run has one of these causes."""
        account = self.watched.account
        return account is not None and any(one.code in codes for one in account.causes)

    @property
    def workers(self) -> int:
        return self.number("num_workers")

    @property
    def cores(self) -> float:
        return self.watched.usable_cores

    @property
    def wait_share(self) -> float:
        """The share of the settled loop's time in which it waits for batches, or in which the device idles."""
        idle = self.watched.device_idle
        return idle.share if idle is not None else self.watched.wait_share or 0.0

    @property
    def most(self) -> float:
        """The speed-up of a loop that waits for no batch. Shorter start-up of passes comes on top of it."""
        return 1 / max(0.01, 1 - self.wait_share)

    @property
    def without_waits(self) -> float | None:
        """`most`, if it says anything: None of a loop that does little besides waiting."""
        return self.most if self.most <= _TELLING else None

    @property
    def most_by_workers(self) -> float:
        """The speed-up of a loop that waits for no worker. The sampler takes as long as before."""
        own = sum(one.share for one in self.watched.wait_parts if one.part in _OF_THE_SCRIPT)
        return 1 / max(0.01, 1 - self.wait_share * (1 - min(1.0, own)))

    @property
    def promise(self) -> float | None:
        """`most_by_workers`, if it says anything."""
        return self.most_by_workers if self.most_by_workers <= _TELLING else None

    @property
    def waits(self) -> bool:
        """Whether the loop waits for workers so long that more batches in time would be worth a trial."""
        return self.most_by_workers >= TRY_FROM

    @property
    def iteration_s(self) -> float:
        return self.loader.s_per_iteration or 0.0

    @property
    def pass_s(self) -> float | None:
        """The seconds of a whole pass (None: its length is not known)."""
        return None if self.batches is None else self.batches * self.iteration_s + self.between_s

    @property
    def between_s(self) -> float:
        """The seconds that a pass loses to the start and the end of workers, before its second batch."""
        later = self.loader.later_startup_s
        start = self.loader.startup_s if later is None else later
        return (start or 0.0) + (self.loader.pass_end_s or 0.0)

    @property
    def without_start(self) -> float:
        """The speed-up of whole passes if workers neither started nor ended in them."""
        whole = self.pass_s
        return whole / max(1e-9, whole - self.between_s, 0.01 * whole) if whole else 1.0

    def processes(self, more: int) -> str:
        """What so many more worker processes cost, in words."""
        if more <= 0:
            return f"{-more} fewer processes" if more < -1 else "one process fewer"
        each = self.worker_bytes
        memory = f", {size(more * each)}" if each else ""
        return f"{more} more process{'es' if more > 1 else ''}{memory}"

    @property
    def worker_bytes(self) -> float | None:
        found = [one.pss_bytes for one in self.watched.workers if one.loader == self.loader.loader and one.pss_bytes]
        return max(found) if found else None
