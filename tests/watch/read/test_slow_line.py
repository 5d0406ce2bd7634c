"""The line of a loop's own work on batches, and what is written in its place where that is known."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read import slow_line as module
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.slow_line import slow_line
from pipebench.watch.record.lines import LoopLooks
from pipebench.watch.record.trial_lines import LineLooks, PlaceLooks

SOURCE = """\
class Replay:
    def sample(self, n):
        p = self.weights / self.weights.sum()
        index = np.random.choice(len(p), n, p=p)
        return self.x[index]
""".splitlines(keepends=True)
DRAWS = LineLooks("a/replay.py", "Replay.sample", 4, "", 40)
SUMS = DRAWS._replace(line=3, looks=20)


def _text(file: str, line: int) -> str:
    return SOURCE[line - 1] if file == "a/replay.py" and 0 < line <= len(SOURCE) else ""


def test_a_line_that_is_known_is_told_with_what_is_written_instead() -> None:
    found = slow_line([DRAWS, SUMS], _text)
    assert (found["slow_line"], found["title"], found["line_share"]) == (
        4,
        "weights summed up once",
        pytest.approx(2 / 3),
    )
    assert "np.searchsorted" in str(found["how"]) and "worker" not in str(found["how"])


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([SUMS._replace(looks=40), DRAWS._replace(looks=10)], 3),  # too small a part is known
        ([SUMS._replace(looks=20), DRAWS._replace(looks=10), SUMS._replace(line=5, looks=20)], None),  # no half
        ([DRAWS._replace(looks=19)], None),
        ([], None),
    ],
)
def test_else_the_line_with_most_of_it_is_named(lines: list[LineLooks], line: int | None) -> None:
    found = slow_line(lines, _text)
    assert found.get("slow_line") == line and "title" not in found


def test_what_only_holds_of_a_dataset_is_not_said() -> None:
    line = LineLooks("a/replay.py", "load", 1, "sentence_transformers.SentenceTransformer.encode", 40)
    assert "title" not in slow_line([line], lambda file, at: "z = encoder.encode(texts)\n" if at == 1 else "")


def test_the_next_step_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.slow_line, "__defaults__", (_text,))
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400}, workers=0, cpu=1000)
    place = PlaceLooks(62, ["Replay.sample"], 60, 40, 60 * 10**6, 55 * 10**6, True)
    run.lines.append(LoopLooks(0, "a/train.py", 50, [place], 40, early_lines=[DRAWS, SUMS]))
    account = run.account(1)
    told = next_move(move_of_run(None, account.causes, 1)) or ""
    assert told.startswith(
        "Next: change replay.py:4 (Replay.sample, 67 % of making batches) to weights summed up once. "
    )
    assert told.endswith("a tree of sums takes few operations for each.")
