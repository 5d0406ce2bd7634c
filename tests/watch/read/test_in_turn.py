"""What a loop works on, and whether a turn needs what the one before gave: told by their text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipebench.results.drilled import DrilledLine
from pipebench.watch.read.known_elements import (
    BY_COUNT,
    CODES,
    ELEMENTS,
    IN_TURN,
    ITEMS,
    JOINED,
    ONCE,
    ONE_TENSOR,
    PARSED,
    TEXTS,
    in_loop,
    of_elements,
)
from pipebench.watch.read.known_row import Known
from pipebench.watch.read.lines_around import Text, body_around

IN_TURNS = (
    "for k in range(n):\n    s = (s * 31 + k) % 1009",
    "for j in range(n):\n    cur.append(min(prev[j] + 1, cur[j - 1] + 1))",
    "for t in reversed(range(n - 1)):\n    out[t] = x[t] + g * out[t + 1]",
    "while lo < hi:\n    mid = (lo + hi) // 2\n    lo = mid + 1",
    "for b in data:\n    cur |= (b & 127) << shift",
    "for _ in range(9):\n    action = policy[state]\n    state, reward = env.step(state, action)",
)
EACH = (
    "for base in codes:\n    code = table[base]  # code = code\n    rows.append(code)",
    "for p, t in zip(pred, true):\n    m[t][p] += 1",
    "for p, t in zip(pred, true):\n    hits += p > t",
    "for k in range(n):\n    out[k] = x[k + 1] - x[k]",
    "for rows in order.split(size):\n    x = np.float32(0.01) * y[rows]",
    "for j, row in enumerate(events):\n    x[0, j] = int(row[0])",
)
OTHERS = (
    ("s = ''\nfor c in text:\n    s = s + c.upper()", JOINED),
    ('s = "<"\nfor c in text:\n    s += c', JOINED),
    ("n = 0\nfor w in words:\n    w = w.lower()\n    n += 1", TEXTS),
    ("for w in TOK.findall(text):\n    v[hash(w) % 256] += 1", TEXTS),
    ("for base in text:\n    rows.append(table.get(base, 0))", CODES),
    ("return torch.stack([self.conv(v) for v in x])", ONE_TENSOR),
    ("if isinstance(v, float): return torch.tensor(v)", ONE_TENSOR),
    ("for v in x:\n    rows.append(np.array(v))", ONE_TENSOR),
    ("for one in items:\n    x.append(one['box'][0] * scale)", ONCE),
    ("for one in items:\n    rows.append(one)", ONCE),
    ("return [one for one in items if one != i]", ONCE),
    ("for one in items:\n    if isinstance(one, dict): n += 1", ONCE),
)


def _lines(text: str) -> list[str]:
    return ["def work(self):", *(f"    {one}" for one in text.splitlines()), "    return 1"]


def _title(text: str, function: str = "Data.work", find: Callable[[DrilledLine, Text], Known] = of_elements) -> str:
    lines = _lines(text)
    line = DrilledLine("a.py", function, len(lines) - 1, "", lines[-2], 1, 1.0, 1.0, 1.0)
    return find(line, lambda _, at: f"{lines[at - 1]}\n" if 0 < at <= len(lines) else "").title


@pytest.mark.parametrize("text", IN_TURNS)
def test_a_turn_that_needs_the_one_before(text: str) -> None:
    assert _title(text) == IN_TURN.title


@pytest.mark.parametrize(("text", "known"), OTHERS)
def test_operations_on_arrays_are_named_for_numbers_only(text: str, known: Known) -> None:
    assert _title(text) == known.title
    assert not any(word in " ".join(known.how) for word in ("numba", "broadcasting", "np.where"))


def test_in_a_loop_that_trains_no_work_is_moved_before_it() -> None:
    assert _title("for one in items:\n    rows.append(one)", find=in_loop) == ITEMS.title
    assert _title("for w in said:\n    w = w.lower()\n    n += 1", find=in_loop) == ITEMS.title
    assert _title("for p, t in zip(pred, true):\n    m[t][p] += 1", find=in_loop) == ELEMENTS.title


@pytest.mark.parametrize("one", BY_COUNT, ids=lambda one: one.title)
def test_what_is_written_instead_fits_a_page_and_any_loop(one: Known) -> None:
    assert all(len(line) <= 92 for line in one.how) and one.how[-1].endswith(".")
    said = " ".join(one.how)
    assert not one.anywhere or not any(word in said for word in ("dataset", "worker", "a sample", "each sample"))


@pytest.mark.parametrize("text", EACH)
def test_turns_that_need_only_their_element(text: str) -> None:
    assert _title(text) == ELEMENTS.title


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("return [[float(v) for v in line.split(',')] for line in f]", True),
        ("for line in f:\n    rows.append(list(map(int, line.split())))", True),
        ("for row in csv.reader(f):\n    x.append(float(row[2]))", True),
        ("for v in texts:\n    try:\n        x += float(v)\n    except ValueError:\n        x += 0", True),
        ("for v in texts:\n    try: x += float(v)\n    except ValueError: x += 0", True),
        ("for one in names.split(','):\n    n += len(one)", False),
        ("for v in values:\n    x.append(float(v) * scale)", False),
    ],
)
def test_numbers_that_are_made_of_text(text: str, parsed: bool) -> None:
    assert (_title(text) == PARSED.title) is parsed


def test_a_function_that_calls_itself() -> None:
    text = "for at in range(n):\n    total += depth(tree[at])"
    assert _title(text, "depth") == IN_TURN.title and _title(text) == ELEMENTS.title
    assert _title("for one in tree:\n    total += depth(one)", "depth") == ONCE.title  # it may be a tree of objects


def test_the_innermost_loop_with_its_head() -> None:
    lines = _lines("for a in b:\n    x = 1\n    for c in a:\n\n        y = c\n    z = 2")

    def text(_: str, at: int) -> str:
        return f"{lines[at - 1]}\n" if 0 < at <= len(lines) else ""

    assert [one.strip() for one in body_around("a.py", 6, text)] == ["for c in a:", "", "y = c"]
    assert [one.strip() for one in body_around("a.py", 4, text)] == ["for c in a:", "", "y = c"]
    assert [one.strip() for one in body_around("a.py", 7, text)][:2] == ["for a in b:", "x = 1"]
    assert body_around("a.py", 8, text) == []
