"""The text around a line: its function above and below, and the statements of its file that give names their values."""

from __future__ import annotations

from pipebench.watch.read.lines_around import function_above, function_below, giving

SOURCE = """\
import json
class Clips:
    def other(self):
        return self.kept is None
    @cached
    def boxes(self, i):
        with open(self.path) as f:
            return json.load(f)
"""


def test_the_lines_above_are_those_of_the_function() -> None:
    lines = ["", *SOURCE.splitlines(keepends=True)]
    found = function_above("data.py", 8, lambda file, at: lines[at])
    assert [one.strip() for one in found] == ["@cached", "def boxes(self, i):", "with open(self.path) as f:"]


def test_the_lines_below_end_with_the_function() -> None:
    lines = ["", *SOURCE.splitlines(keepends=True), ""]
    for at, below in ((4, []), (7, ["            return json.load(f)"])):
        above = function_above("data.py", at, lambda file, at: lines[at])
        assert function_below("data.py", at, above, lambda file, at: lines[at]) == below


def test_the_statements_that_give_a_name_its_value_are_those_of_the_file() -> None:
    # fmt: off
    text = ["", "class Clips:", "    def __init__(self):", "        self.items = [", "            1 for _ in f",
            "        ]", "        self.a, self.b = [], {}", "        if self.a == 1:", "            print(a=2)"]
    # fmt: on
    lines = [f"{one}\n" for one in text]
    found = giving("data.py", lambda file, at: lines[at] if at < len(lines) else "")
    assert [one for one, _ in found] == ["self.items = [ 1 for _ in f ]", "self.a, self.b = [], {}"]
