"""Lines of the user's samples that other people's programs are slow by: what `watch` knows of them, as an advice.

What such a line takes is estimated by looks at the stack; how much of it the other way saves is not. So its prediction
is about the most that it can bring. But where threads of torch wait for cores that the workers use, training gets
faster, too, and nobody knows by how much. Not tried: `advise` changes no code of the dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.remedies.kept import at_call, builds
from pipebench.remedies.seen import TRY_FROM, Seen, without_share
from pipebench.results.advice import Change, Finding, Place
from pipebench.results.drilled import DrilledLine, known
from pipebench.units import did_needlessly, read_anew
from pipebench.watch.read.known_files import OPENED
from pipebench.watch.read.known_table import BUILT, MODEL
from pipebench.watch.read.needless import needless_line

PLACE = 12
LEAST_SHARE = 0.15  # of the time in which samples are made


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = max(_lines(seen), key=lambda one: one[0], default=None)
    if found is None:
        return None
    share, title, how, at = found
    predicted = at_most(seen, share)
    if predicted < TRY_FROM:
        return None
    return Change(
        "slow_lines", {}, "written by hand", predicted=predicted, title=title, how=how,
        at=at, of_script=True, about=True, or_more=seen.training_gains_too, frees=share,
    )  # fmt: skip


def _lines(seen: Seen) -> Iterator[tuple[float, str, tuple[str, ...], Place | None]]:
    """What is known, with its large share of the time in which samples are made, and its largest line."""
    lines = [(share, line) for _, share, line in seen.lines() if not _tried(seen, line)]
    elsewhere = (needless_line(one) for one in seen.watched.needless if one.loader == seen.loader.loader)
    lines += [(line.share, line) for line in elsewhere if not _tried(seen, line)]
    for share, most, _ in known(lines):
        if share >= LEAST_SHARE:
            why = (did_needlessly(*most.needless.told),) if most.needless is not None else read_anew(most.reread)
            yield share, most.title, (*why, *most.how), Place(most.function, most.file, most.line)
    learned = sum(one.worker_share for one in seen.stages if one.learned)
    if learned >= LEAST_SHARE:
        yield learned, MODEL.title, MODEL.how, None


def _tried(seen: Seen, line: DrilledLine) -> bool:
    """Whether `kept` tries what is written in place of this line."""
    if line.needless is not None and line.needless.share >= LEAST_SHARE and seen.serves_stages:
        return at_call(seen, line.needless) is not None
    return bool(line.title in (OPENED.title, BUILT.title) and seen.serves_stages and builds(line.text))


def at_most(seen: Seen, share: float) -> float:
    """The speed-up of the loop if these lines took no time. Without workers, the loop makes the samples itself."""
    if seen.workers:
        return min(seen.most_by_workers, without_share(share))
    return without_share(share * seen.wait_share)
