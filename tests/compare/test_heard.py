"""What the sides write to standard error: once, with a count, without the folders of their checkouts."""

from pathlib import Path

from pipebench.compare import heard
from pipebench.results.comparison import Said

WARNING = "{}/data.py:12: UserWarning: not writable\n  array = make()\n"


def side(text, folder="/nowhere"):
    file = heard.opened()
    file.write(text.encode("utf-8", "surrogateescape"))
    return file, Path(folder)


def test_a_warning_of_both_sides_is_one_line_with_its_counts():
    sides = [side(WARNING.format("/a") * 3, "/a"), side(WARNING.format("/b") * 2 + "only here\n", "/b")]
    assert heard.collected(sides) == (Said("data.py:12: UserWarning: not writable", 3, 2), Said("only here", 0, 1))
    assert all(file.closed for file, _ in sides)


def test_addresses_times_and_process_ids_do_not_make_another_line():
    lines = [
        f"[W {second:02}:00:0{second}.5 pid {12345 + second}] {hex(4096 + second)} leaked\n" for second in range(5)
    ]
    assert [one.base for one in heard.collected([side("".join(lines)), side("")])] == [5]
    assert len(heard.collected([side("a.py:1: W\na.py:2: W\n"), side("")])) == 2


def test_a_traceback_is_its_last_line_and_nothing_acts_on_the_terminal():
    text = "Traceback (most recent call last):\n  File 'x', line 1\nValueError: \x1b[31mred\n\udcff\n"
    assert [one.text for one in heard.collected([side(text), side("")])] == ["ValueError: \\x1b[31mred", "\\xff"]


def test_many_different_lines_are_counted_together():
    text = "".join(f"line {number}\n" for number in range(30)) + "often\n" * 5
    found = heard.collected([side(text), side("")])
    assert found[0] == Said("often", 5, 0)
    assert len(found) == heard.MOST_LINES + 1 and found[-1] == Said("11 other lines", 11, 0)


def test_the_last_line_explains_a_failure():
    assert heard.last(side("a\nlast words\n  indented\n")[0]) == "; it wrote: last words"
    assert heard.last(side("")[0]) == ""
