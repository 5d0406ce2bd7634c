"""The change stands in the user's own call; what is no such call is left alone."""

import ast
import subprocess

import pytest

from pipebench.advise.snippet import diff, snippet
from pipebench.results.advice import Change
from pipebench.watch.record.trial_lines import LoaderMade

PLAIN = "loader = DataLoader(data, 4, num_workers=args.workers)\n"


def _made(path, text, line, end_line, column, end_column):
    path.write_text(text)
    return LoaderMade(1, str(path), line, end_line, column, end_column, "main", 10)


@pytest.mark.parametrize(
    ("text", "place", "settings", "after"),
    [
        (PLAIN, (1, 1, 9, 54), {"num_workers": 4}, "loader = DataLoader(data, 4, num_workers=4)"),
        (PLAIN, (1, 1, 9, 54), {"prefetch_factor": 8},
         "loader = DataLoader(data, 4, num_workers=args.workers, prefetch_factor=8)"),
        ("x = d.DataLoader(é)\n", (1, 1, 4, 20), {"num_workers": 2}, "x = d.DataLoader(é, num_workers=2)"),
    ],
)  # fmt: skip
def test_keywords_are_replaced_or_added(tmp_path, text, place, settings, after):
    found = snippet(_made(tmp_path / "train.py", text, *place), Change("any", settings))
    assert found.before == (text.rstrip("\n"),) and found.after == (after,)


def test_a_call_over_several_lines_keeps_its_lines(tmp_path):
    text = "a = 1\nloader = DataLoader(\n    data,\n    num_workers=2,\n)\nb = 2\n"
    made = _made(tmp_path / "train.py", text, 2, 5, 9, 1)
    found = snippet(made, Change("any", {"num_workers": 4, "prefetch_factor": 8}))
    assert found.after == ("loader = DataLoader(", "    data,", "    num_workers=4, prefetch_factor=8,", ")")
    compile("\n".join(found.after), "train.py", "exec")


def test_the_diff_applies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = _made(tmp_path / "train.py", PLAIN, 1, 1, 9, 54)
    assert diff(made, Change("any", {"num_workers": 4})).splitlines() == [
        "--- a/train.py", "+++ b/train.py", "@@ -1 +1 @@", f"-{PLAIN.strip()}",
        "+loader = DataLoader(data, 4, num_workers=4)",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["loader = make_loader(data)\n", "loader = DataLoader(\n", ""])
def test_what_is_no_call_of_a_loader_has_no_snippet(tmp_path, text):
    made = _made(tmp_path / "train.py", text, 1, 1, 9, 26)
    assert (
        snippet(made, Change("any", {"num_workers": 4})) is None
        and diff(made, Change("any", {"num_workers": 4})) is None
    )
    assert snippet(LoaderMade(1, "", 0, 0, 0, 0, "", None), Change("any", {"num_workers": 4})) is None


def _found(path, text):
    """The first DataLoader call of `text`, as a recording tells it."""
    path.write_bytes(text.encode())
    call = next(one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call))
    return LoaderMade(1, str(path), call.lineno, call.end_lineno, call.col_offset, call.end_col_offset, "main", 10)


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("DataLoader(data, shuffle=(order is None))", "DataLoader(data, shuffle=(order is None), num_workers=4)"),
        ("DataLoader(data, batch_size=((8)) ,)", "DataLoader(data, batch_size=((8)), num_workers=4 ,)"),
        ("DataLoader(data, **more, num_workers=2)", "DataLoader(data, **more, num_workers=4)"),
    ],
)
def test_what_is_written_can_be_run(tmp_path, call, after):
    assert snippet(_found(tmp_path / "train.py", f"{call}\n"), Change("any", {"num_workers": 4})).after == (after,)


@pytest.mark.parametrize(
    "call", ["DataLoader(data, **more)", "DataLoader(*all)", "DataLoader(data, 8, True, None, None, 2)"]
)
def test_a_keyword_that_the_call_may_already_hold_is_not_written(tmp_path, call):
    assert diff(_found(tmp_path / "train.py", call), Change("any", {"num_workers": 4})) is None


@pytest.mark.parametrize(
    "text", ["a = 1\r\nx = DataLoader(data)\r\n", "a = 1\nx = DataLoader(data)", "\fa = 1\nDataLoader(data)\n\fb = 1\n"]
)
def test_git_applies_the_diff_whatever_ends_the_lines(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    made = _found(tmp_path / "train.py", text)
    (tmp_path / "fix.diff").write_bytes(diff(made, Change("any", {"num_workers": 4})).encode())
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_bytes().decode()
    assert after == text.replace("DataLoader(data)", "DataLoader(data, num_workers=4)")
