"""What a batch of a watched loop holds, and what the user's own spans take of an iteration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpanResult:
    """One function of `--span`, or one `pipebench.span`, in the loop of the script's own process.

    `s_per_iteration` is its time without the spans inside it, and `share` is its share of an iteration. All together
    are the phase "spans".
    """

    name: str
    s_per_iteration: float
    share: float


@dataclass(frozen=True)
class BatchContent:
    """What a batch holds on average, as far as its entries show it (None: they do not).

    `tokens` are without padding where a mask or lengths tell which they are. `padding_share` is the share of
    the places for tokens that is padding. `frames` are those of video, and `sound_s` are seconds of sound.
    `unused_share` is the share of a sample's places, at the end of a table of integers or of sequences of known
    lengths, that is the same in all samples of a batch, as padding further than to the longest one is. `uneven_share`
    is the share that is padding because another sample of the batch is longer. Of `targets`, `ignored_share` are -100.
    """

    samples: float
    tokens: float | None = None
    padding_share: float | None = None
    frames: float | None = None
    sound_s: float | None = None
    unused_share: float | None = None
    uneven_share: float | None = None
    targets: float | None = None
    ignored_share: float | None = None


@dataclass(frozen=True)
class SlowSample:
    """One of the slowest samples. `name` is its path or key if one was seen, and its index otherwise."""

    name: str
    loader: int
    worker: int | None
    s: float


@dataclass(frozen=True)
class DeviceIdle:
    """The idle time of the device in the waits of an iteration, from the device's own events. Start-up is not in it.

    This is the real cost of waiting where the device has a queue of work: it may be busy while the loop waits.
    """

    s_per_iteration: float
    share: float
    waits: int
