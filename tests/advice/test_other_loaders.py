"""A call that makes several loaders is not changed: only one of them was tried."""

import ast
from dataclasses import replace

import pytest

from pipebench.advise.snippet import written
from pipebench.results.advice import Change, Rewrite
from pipebench.watch.record.trial_lines import LoaderMade

AHEAD = Change("prefetch_factor", {"prefetch_factor": 8})


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _made(path, text, loader=1):
    path.write_text(text)
    names = ("DataLoader", "super().__init__")
    calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    call = next(one for one in calls if ast.unparse(one.func) in names)
    return LoaderMade(loader, str(path), call.lineno, call.end_lineno, call.col_offset, call.end_col_offset, "f", 10)


def _reasons(made, change, every=()):
    found = written(made, change, every)
    reasons = {found.no_snippet, found.no_diff}
    assert all((one is None) == (reasons != {""}) for one in (found.snippet, found.diff))
    (reason,) = reasons
    return reason


def test_a_line_that_made_another_loader_is_left_alone(tmp_path):
    made = _made(tmp_path / "train.py", "def make(d, w):\n    return DataLoader(d, num_workers=w)\n")
    assert _reasons(made, AHEAD, [made]) == ""
    assert _reasons(made, AHEAD, [made, replace(made, loader=2, line=1)]) == ""
    for settings in (AHEAD.settings, {"num_workers": 8}, {"persistent_workers": True}):
        assert _reasons(made, Change("any", settings), [made, replace(made, loader=2)]) == "other-loaders"


def test_a_line_that_made_loaders_that_nobody_has_iterated_is_left_alone(tmp_path):
    """What calls it is in another file, and the validation comes later."""
    made = _made(tmp_path / "data.py", "def make(d):\n    return DataLoader(d)\n")
    assert _reasons(replace(made, others=1), AHEAD, [made]) == "other-loaders"
    assert _reasons(made, AHEAD, [made]) == ""


def test_what_is_not_in_that_call_is_written(tmp_path):
    made = _made(tmp_path / "train.py", "def make(d):\n    return DataLoader(d)\n")
    both = [made, replace(made, loader=2)]
    assert _reasons(made, Change("any", {}, rewrites=(Rewrite(made.file, 0, 0, "x = 1\n"),)), both) == ""
    inside = len("def make(d):\n    return DataLoader(d")
    collate = Change("any", {}, rewrites=(Rewrite(made.file, inside, inside, ", collate_fn=c"),))
    assert _reasons(made, collate, both) == "other-loaders"


MINE = "class Mine(DataLoader):\n    def __init__(self, d):\n        super().__init__(d, 4)\n\n\n"
MAKE = "def make(d):\n    return DataLoader(d, num_workers=2)\n\n\n"


@pytest.mark.parametrize(
    "text",
    [
        MAKE + "train, val = make(1), make(2)\n",
        MAKE + "both = {name: make(name) for name in names}\n",
        MAKE + "def outer(d):\n    return make(d)\n\n\na = outer(1)\nb = outer(2)\n",
        "both = [DataLoader(one, num_workers=2) for one in data]\n",
        "both = {name: DataLoader(data[name]) for name in names}\n",
        "class Data:\n    def make(self, d):\n        return DataLoader(d)\n\n"
        "    def train(self):\n        return self.make(1)\n\n    def val(self):\n        return self.make(2)\n",
        f"{MINE}a, b = Mine(1), Mine(2)\n",
    ],
)
def test_a_line_that_may_make_another_loader_is_left_alone(tmp_path, text):
    """The validation of a long first pass comes after the report."""
    assert _reasons(_made(tmp_path / "train.py", text), AHEAD) == "other-loaders"


@pytest.mark.parametrize(
    "text",
    [
        MAKE + "train = make(1)\n",
        MAKE.replace("return", "make(d); return"),
        "def main():\n    def make(d):\n        return DataLoader(d, 2)\n    make(1)\n\n\nmain()\n",
        "def make(d):\n    return other(d) if d else DataLoader(d)\n\n\ndef other(d):\n    return make(d - 1)\n",
        "for epoch in range(3):\n    loader = DataLoader(data)\n",
        f"{MINE}a, b = Mine(1), Other(2)\n",
    ],
)
def test_a_line_for_one_loader_is_written(tmp_path, text):
    assert _reasons(_made(tmp_path / "train.py", text), AHEAD) == ""
