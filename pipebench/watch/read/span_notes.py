"""Says which functions of `--span` were not seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.results.watched import Note, StageResult
from pipebench.watch.read.gather import Run
from pipebench.watch.record.lines import LoopSums, SpanNotFound


def span_notes(run: Run, functions: Sequence[str], stages: Sequence[StageResult]) -> Iterable[Note]:
    """A note for each function without a row: it was not found, or it did not run in a loop or in a worker."""
    script = run.of_script()
    lacks = {one.text: one.lacks for process in script for one in process.of(SpanNotFound)}
    seen = {one.name for one in stages if one.kind == "label"}
    seen |= {name for process in script for one in process.of(LoopSums) for name in one.spans_ns}
    for text in dict.fromkeys(functions):
        if text.partition(":")[2] in seen:
            continue
        if text in lacks:
            yield Note("span-not-found", {"span": text, "lacks": lacks[text]})
        else:
            yield Note("span-not-run", {"span": text})
