"""The change stands in the user's own call; what is no such call is left alone."""

import ast
import subprocess
from dataclasses import replace

import pytest
from made_up_trials import seen
from torch.utils.data import DataLoader

from pipebench.advise.snippet import written
from pipebench.remedies import draft, lookup
from pipebench.results.advice import Change
from pipebench.results.watched import StageResult
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
    found = written(_made(tmp_path / "train.py", text, *place), Change("any", settings)).snippet
    assert found.before == (text.rstrip("\n"),) and found.after == (after,)


def test_a_call_over_several_lines_keeps_its_lines(tmp_path):
    text = "a = 1\nloader = DataLoader(\n    data,\n    num_workers=2,\n)\nb = 2\n"
    made = _made(tmp_path / "train.py", text, 2, 5, 9, 1)
    found = written(made, Change("any", {"num_workers": 4, "prefetch_factor": 8})).snippet
    assert found.after == ("loader = DataLoader(", "    data,", "    num_workers=4, prefetch_factor=8,", ")")
    compile("\n".join(found.after), "train.py", "exec")


def test_the_diff_applies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = _made(tmp_path / "train.py", PLAIN, 1, 1, 9, 54)
    assert written(made, Change("any", {"num_workers": 4})).diff.splitlines() == [
        "--- a/train.py", "+++ b/train.py", "@@ -1 +1 @@", f"-{PLAIN.strip()}",
        "+loader = DataLoader(data, 4, num_workers=4)",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["loader = make_loader(data)\n", "loader = DataLoader(\n", ""])
def test_what_is_no_call_of_a_loader_has_no_snippet(tmp_path, text):
    made = _made(tmp_path / "train.py", text, 1, 1, 9, 26)
    assert (
        written(made, Change("any", {"num_workers": 4})).snippet is None
        and written(made, Change("any", {"num_workers": 4})).diff is None
    )
    assert written(LoaderMade(1, "", 0, 0, 0, 0, "", None), Change("any", {"num_workers": 4})).snippet is None


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
        ("DataLoader(data, **more)", "DataLoader(data, **{**more, 'num_workers': 4})"),
        ("DataLoader(data, **config['loader'], shuffle=True)",
         "DataLoader(data, **{**config['loader'], 'num_workers': 4}, shuffle=True)"),
        ("DataLoader(data, **a, **b)", "DataLoader(data, **{**a, **b, 'num_workers': 4}, **{})"),
        ("DataLoader(data, **(a if b else {}))", "DataLoader(data, **({**(a if b else {}), 'num_workers': 4}))"),
        ("DataLoader(data, **a or b)", "DataLoader(data, **{**(a or b), 'num_workers': 4})"),
        ("DataLoader(data, **(a | b), **c)", "DataLoader(data, **({**(a | b), **c, 'num_workers': 4}), **{})"),
        ("DataLoader(**vars(args))", "DataLoader(**{**vars(args), 'num_workers': 4})"),
        ("DataLoader(data, 8, True, None, None, 2)", "DataLoader(data, 8, True, None, None, 4)"),
    ],
)  # fmt: skip
def test_what_is_written_can_be_run(tmp_path, call, after):
    found = written(_found(tmp_path / "train.py", f"{call}\n"), Change("any", {"num_workers": 4}))
    assert found.snippet.after == (after,)
    ast.parse(after)


def test_a_keyword_that_the_call_may_already_hold_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = _found(tmp_path / "train.py", "DataLoader(*all)")
    assert written(made, Change("any", {"num_workers": 4})).diff is None
    assert written(made, Change("any", {"prefetch_factor": 4})).diff is not None


def test_a_dictionary_that_holds_one_of_two_settings_gets_the_other(tmp_path):
    change = Change("any", {"num_workers": 4, "persistent_workers": True})
    found = written(_found(tmp_path / "train.py", "DataLoader(data, num_workers=n, **more)"), change).snippet
    assert found.after == ("DataLoader(data, num_workers=4, **{**more, 'persistent_workers': True})",)


@pytest.mark.parametrize(
    "before",
    [
        "from torch.utils.data import DataLoader as make",
        "make = functools.partial(data.DataLoader, drop_last=True)",
        "make = DataLoader",
        "class make(data.DataLoader):\n    pass",
    ],
)
def test_a_loader_by_another_name_is_found(tmp_path, before):
    text = f"{before}\nloader = make(data)\n"
    line = text.count("\n")
    made = _made(tmp_path / "train.py", text, line, line, 9, 19)
    assert written(made, Change("any", {"num_workers": 4})).snippet.after == ("loader = make(data, num_workers=4)",)


@pytest.mark.parametrize(
    "text", ["a = 1\r\nx = DataLoader(data)\r\n", "a = 1\nx = DataLoader(data)", "\fa = 1\nDataLoader(data)\n\fb = 1\n"]
)
def test_git_applies_the_diff_whatever_ends_the_lines(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    made = _found(tmp_path / "train.py", text)
    (tmp_path / "fix.diff").write_bytes(written(made, Change("any", {"num_workers": 4})).diff.encode())
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_bytes().decode()
    assert after == text.replace("DataLoader(data)", "DataLoader(data, num_workers=4)")


COMPOSED = '''"""A script."""
from torchvision import transforms


@decorated
class Data:
    steps = transforms.Compose([
        transforms.Resize(8),
        transforms.ToTensor(), transforms.Normalize(MEAN, STD),
    ])


loader = DataLoader(Data())
'''


def _by_table(path, text):
    made = LoaderMade(1, str(path), 13, 13, 9, 27, "main", 10)
    path.write_text(text)
    rows = (StageResult("Normalize", "transform", 1, 100, 0.1, 0.2),)
    figures = seen(0.6)
    figures = replace(figures, watched=replace(figures.watched, stages=rows), made=made)
    return made, lookup.propose(figures, [])


def test_transforms_are_put_into_a_class_that_is_written_before_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, change = _by_table(tmp_path / "train.py", COMPOSED)
    found = written(made, change).snippet
    assert found.line == 9 and found.after == (
        "        ByTable(transforms.ToTensor(), transforms.Normalize(MEAN, STD)),",
    )
    (tmp_path / "fix.diff").write_text(written(made, change).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_text()
    compile(after, "train.py", "exec")
    assert "type: ignore" not in after and after.index("\n\nclass ByTable:") < after.index(
        "\n\n@decorated\nclass Data:"
    )
    assert after.replace(after[after.index("class ByTable:") : after.index("@decorated")], "") == COMPOSED.replace(
        "transforms.ToTensor(), transforms.Normalize(MEAN, STD)",
        "ByTable(transforms.ToTensor(), transforms.Normalize(MEAN, STD))",
    )


def test_a_setting_and_a_place_are_written_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, change = _by_table(tmp_path / "train.py", COMPOSED)
    both = replace(change, settings={"num_workers": 4})
    assert written(made, both).snippet.line == 9 and "num_workers=4" in written(made, both).snippet.after[-1]
    text = written(made, both).diff
    assert "+loader = DataLoader(Data(), num_workers=4)" in text and "+        ByTable(" in text
    assert written(replace(made, column=3), both).diff is None  # what cannot be written whole is not written


@pytest.mark.parametrize(
    "text", [COMPOSED.replace("ToTensor(), ", "Other(), "), COMPOSED + "again = transforms.Normalize(MEAN, STD)\n"]
)
def test_what_is_not_one_known_place_is_left_alone(tmp_path, text):
    made, change = _by_table(tmp_path / "train.py", text)
    assert change.rewrites == () and written(made, change).snippet is None and written(made, change).diff is None


OPENED = """from PIL import Image
from torchvision import transforms

steps = transforms.Compose([transforms.Resize(256)])


def load(path):
    return Image.open(path).convert("RGB")
"""


def _drafted(path, text):
    made = LoaderMade(1, str(path), 1, 1, 0, 9, "main", 10)
    path.write_text(text)
    rows = ("ImageFile.load", "decode"), ("Resize", "transform")
    stages = tuple(StageResult(name, kind, 1, 100, 0.1, 0.3) for name, kind in rows)
    figures = seen(0.6)
    figures = replace(figures, watched=replace(figures.watched, stages=stages), made=made, discards=True)
    return made, draft.propose(figures, [])


def test_an_image_is_drafted_where_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, change = _drafted(tmp_path / "train.py", OPENED)
    assert written(made, change).snippet.after == ('    return drafted(Image.open(path), (256, 256)).convert("RGB")',)
    (tmp_path / "fix.diff").write_text(written(made, change).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_text()
    compile(after, "train.py", "exec")
    assert after.index("def drafted(") < after.index("def load(")


@pytest.mark.parametrize(
    ("old", "new"), [("256", "SIZE"), ("Image.open", "open"), ("return", "Image.open(path); return")]
)
def test_a_size_or_a_place_that_is_not_known_is_not_written(tmp_path, old, new):
    _, change = _drafted(tmp_path / "train.py", OPENED.replace(old, new))
    assert change.rewrites == ()


def test_a_loader_without_workers_has_no_settings_of_workers(tmp_path):
    text = "DataLoader(data, num_workers=2, prefetch_factor=2, multiprocessing_context='spawn', shuffle=True)\n"
    found = written(_found(tmp_path / "train.py", text), Change("num_workers", {"num_workers": 0}))
    kept = "DataLoader(data, num_workers=0, prefetch_factor=None, multiprocessing_context=None, shuffle=True)"
    assert found.snippet.after == (kept,)


def test_what_a_dictionary_may_say_of_workers_goes_too(tmp_path):
    text = "DataLoader(data, num_workers=2, **more)\n"
    found = written(_found(tmp_path / "train.py", text), Change("num_workers", {"num_workers": 0}))
    made = eval(found.snippet.after[0], {
        "DataLoader": DataLoader, "data": [1], "more": {"prefetch_factor": 2, "multiprocessing_context": "fork"}
    })  # fmt: skip
    assert made.num_workers == 0 and list(made) == [1]
