"""Which loops need in each turn what the one before gave: told by their text."""

from __future__ import annotations

import pytest

from pipebench.results.drilled import DrilledLine
from pipebench.watch.read.known_arrays import ELEMENTS, IN_TURN, PARSED
from pipebench.watch.read.line_runs import of_elements
from pipebench.watch.read.lines_around import body_around

IN_TURNS = (
    "for k in range(n):\n    s = (s * 31 + k) % 1009",
    "for j in range(n):\n    cur.append(min(prev[j] + 1, cur[j - 1] + 1))",
    "while lo < hi:\n    mid = (lo + hi) // 2\n    lo = mid + 1",
    "for b in data:\n    cur |= (b & 127) << shift",
    "for _ in range(9):\n    action = policy[state]\n    state, reward = env.step(state, action)",
)
EACH = (
    "for base in text:\n    code = table.get(base, 0)  # code = code\n    rows.append(code)",
    "for p, t in zip(pred, true):\n    m[t][p] += 1",
    "for w in words:\n    w = w.lower()\n    n += 1",
    "for j, row in enumerate(events):\n    x[0, j] = int(row[0])",
)


def _lines(text: str) -> list[str]:
    return ["def work(self):", *(f"    {one}" for one in text.splitlines()), "    return 1"]


def _title(text: str, function: str = "Data.work") -> str:
    lines = _lines(text)
    line = DrilledLine("a.py", function, len(lines) - 1, "", lines[-2], 1, 1.0, 1.0, 1.0)
    return of_elements(line, lambda _, at: f"{lines[at - 1]}\n" if 0 < at <= len(lines) else "").title


@pytest.mark.parametrize("text", IN_TURNS)
def test_a_turn_that_needs_the_one_before(text: str) -> None:
    assert _title(text) == IN_TURN.title


@pytest.mark.parametrize("text", EACH)
def test_turns_that_need_only_their_element(text: str) -> None:
    assert _title(text) == ELEMENTS.title


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("return [[float(v) for v in line.split(',')] for line in f]", True),
        ("for line in f:\n    rows.append(list(map(int, line.split())))", True),
        ("for row in csv.reader(f):\n    x.append(float(row[2]))", True),
        ("for one in names.split(','):\n    n += len(one)", False),
        ("for v in values:\n    x.append(float(v) * scale)", False),
    ],
)
def test_numbers_that_are_made_of_text(text: str, parsed: bool) -> None:
    assert (_title(text) == PARSED.title) is parsed


def test_a_function_that_calls_itself() -> None:
    text = "for one in tree:\n    total += depth(one)"
    assert _title(text, "depth") == IN_TURN.title and _title(text) == ELEMENTS.title


def test_the_innermost_loop_with_its_head() -> None:
    lines = _lines("for a in b:\n    x = 1\n    for c in a:\n\n        y = c\n    z = 2")

    def text(_: str, at: int) -> str:
        return f"{lines[at - 1]}\n" if 0 < at <= len(lines) else ""

    assert [one.strip() for one in body_around("a.py", 6, text)] == ["for c in a:", "", "y = c"]
    assert [one.strip() for one in body_around("a.py", 4, text)] == ["for c in a:", "", "y = c"]
    assert [one.strip() for one in body_around("a.py", 7, text)][:2] == ["for a in b:", "x = 1"]
    assert body_around("a.py", 8, text) == []
