"""Counts in which of the user's lines a thread was, in looks at it while it is in no training loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from time import perf_counter_ns
from types import CodeType, FrameType

from pipebench.watch.record.own_code import line_reached, owner
from pipebench.watch.record.program_lines import StartLooks
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.trial_lines import LineLooks
from pipebench.watch.script.look_counts import count_line, line_of
from pipebench.watch.script.loop_place import outwards
from pipebench.watch.script.own_line import OwnLine

_DEEPEST = 200  # frames: imports of packages lie deep


class LookedLines:
    """What looks found since `began`."""

    def __init__(self) -> None:
        self.began = perf_counter_ns()
        self.looks = self._imports = 0
        self._lines: Counter[OwnLine] = Counter()

    def note(self, frame: FrameType | None) -> None:
        """Counts one look. What a library imports late, as in `Adam(...)`, is no work of the line that calls it."""
        path = tuple(_path(frame))
        self.looks += 1
        users = next((place for place, (code, _) in enumerate(path) if not owner(code.co_filename)), None)
        if any(_imports(code) for code, _ in path[:users]):
            self._imports += 1
        elif users is not None:
            lines = [one for one in reversed(path) if not one[0].co_filename.startswith("<frozen")]
            count_line(self._lines, line_of(lines))

    def until(self, end: int, after: bool = False) -> StartLooks:
        """The line for the records. `after`: of what follows the last loop."""
        found = [LineLooks(*one, looks) for one, looks in self._lines.items()]
        return StartLooks(self.began, end, self.looks, found, self._imports, after)


class AfterLoops:
    """What looks found since the last pass over a loader."""

    def __init__(self) -> None:
        self._seen: LookedLines | None = None

    def begins(self, may_be_over: bool) -> None:
        """Forgets what was seen. `may_be_over`: nothing says that more of the loop comes."""
        self._seen = LookedLines() if may_be_over else None

    def note(self, frame: FrameType | None) -> None:
        """Counts one look."""
        seen = self._seen
        if seen is not None:
            seen.note(frame)

    def write(self, recording: Recording) -> None:
        """Writes what was seen, if looks found anything."""
        if self._seen is not None and self._seen.looks:
            recording.write(self._seen.until(perf_counter_ns(), after=True))


def _path(frame: FrameType | None) -> Iterable[tuple[CodeType, int]]:
    """The lines of a thread, the innermost first, without those of `watch`."""
    for one in outwards(frame, _DEEPEST):
        if owner(one.f_code.co_filename) != "pipebench":
            yield one.f_code, line_reached(one)


def _imports(code: CodeType) -> bool:
    """Whether this is Python's own way to import."""
    return code.co_filename.startswith("<frozen importlib")
