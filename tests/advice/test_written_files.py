"""What is written into the user's files can be read by Python and applied by git, or it is not written."""

import ast
import subprocess
from dataclasses import replace

import pytest
from made_up_trials import seen

from pipebench.advise.snippet import written
from pipebench.remedies import decoders, lookup, opening
from pipebench.remedies.source import Source
from pipebench.results.advice import Change, Rewrite
from pipebench.results.watched import StageResult
from pipebench.watch.record.trial_lines import LoaderMade

PHOTOS = "from PIL import Image\nclass Photos:\n    def __getitem__(self, one): return load(one)\n"
MORE = Change("num_workers", {"num_workers": 4})


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)


def _made(path, text, encoding="utf-8"):
    """The last call of a DataLoader in `text`, as a recording tells it."""
    path.write_bytes(text.encode(encoding))
    calls = [one for one in ast.walk(ast.parse(path.read_bytes())) if isinstance(one, ast.Call)]
    call = [one for one in calls if ast.unparse(one.func).endswith("DataLoader")][-1]
    return LoaderMade(1, str(path), call.lineno, call.end_lineno, call.col_offset, call.end_col_offset, "main", 10)


def _applied(made, change):
    """The text of the file after `git apply`. Python can read it."""
    with open("fix.diff", "wb") as file:
        file.write(written(made, change).diff.encode())
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    with open(made.file, "rb") as file:
        after = file.read()
    compile(after, made.file, "exec")
    return after.decode()


@pytest.mark.parametrize(
    ("opened", "after"),
    [
        ("(Image.open(p) if a else Image.open(a)).convert('RGB')", "read((Image.open(p) if a else Image.open(a)))"),
        ("((Image.open(p)  # )\n  )  # (\n  ) . convert('RGB')", "read(((Image.open(p)  # )\n  )  # (\n  ))"),
        ("f(Image.open(p).convert('RGB'))", "f(read(Image.open(p)))"),
        ("Image.open(p).convert(mode='RGB')", "read(Image.open(p))"),
    ],
)
def test_what_stands_around_an_image_stays(tmp_path, opened, after):
    def read(image):
        return image

    made = _made(tmp_path / "train.py", f"{PHOTOS}x = [{opened}]\nloader = DataLoader(Photos(x))\n")
    found = opening.rewrites(replace(seen(), made=made), read)
    change = Change("decode", {}, rewrites=tuple(one for one in found if not one.helper))
    assert f"x = [{after}]\n" in _applied(made, change)


IMAGES = "from torchvision.datasets import ImageFolder\na = ImageFolder(root, steps)\n"
KEYWORDS = IMAGES.replace("(root, steps", "(root=root, transform=steps")
CONVERTED = "def load(p): return Image.open(p).convert('RGB')\n"
PREVIEW = "def show(p): Image.open(p).convert('RGB').show()\n"


@pytest.mark.parametrize(
    ("text", "dataset", "places"),
    [
        (PHOTOS + CONVERTED, "Photos", ["convert"]),
        (PHOTOS + CONVERTED, "Others", None),  # it is defined elsewhere, and opens its images there
        (PHOTOS + CONVERTED, "ImageFolder", None),
        (IMAGES + CONVERTED, "ImageFolder", ["folder"]),  # torchvision converts
        (IMAGES + CONVERTED, "Subset", ["convert", "folder"]),  # of what is not known
        (IMAGES, "Photos", None),  # it may be a folder for validation
        (IMAGES.replace("steps", "steps, loader=load") + CONVERTED, "ImageFolder", ["convert"]),
        (f"{IMAGES}b = ImageFolder(root, steps, loader=load)\n{CONVERTED}", "ImageFolder", None),
        (KEYWORDS + PREVIEW, "ImageFolder", ["folder"]),
        (KEYWORDS.replace("root=root", "**options") + PREVIEW, "ImageFolder", None),
        (KEYWORDS.replace("root=root", "*options") + PREVIEW, "Subset", None),
        (f"class Photos(ImageFolder): pass\n{IMAGES}{PREVIEW}", "Photos", None),
        (PHOTOS + PREVIEW, "Photos", None),  # what its samples call is in another file
        (PHOTOS + CONVERTED + PREVIEW, "Photos", ["convert"]),
        (f"{PHOTOS}{IMAGES}data = Photos(a)\n", "Photos", ["folder"]),
    ],
)
def test_only_what_opens_the_images_of_this_dataset_is_written_otherwise(tmp_path, text, dataset, places):
    def read(image):
        return image

    figures = seen()
    made = _made(tmp_path / "train.py", f"{text}loader = DataLoader(x)\n")
    figures = replace(figures, made=made, loader=replace(figures.loader, dataset=dataset))
    found = opening.rewrites(figures, read)
    kinds = {"read(": "convert", ", loader=read": "folder"}
    assert (None if found is None else [kinds[one.new] for one in found if one.new in kinds]) == places


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("DataLoader(\n    data, batch_size=(8  # one )\n    ),\n)",
         "DataLoader(\n    data, batch_size=(8  # one )\n    ), num_workers=4,\n)"),
        ("DataLoader(\n    (data  # all\n    )  # (\n)", "DataLoader(\n    (data  # all\n    ), num_workers=4  # (\n)"),
        ("DataLoader(data  # :)\n)", "DataLoader(data, num_workers=4  # :)\n)"),
    ],
)  # fmt: skip
def test_comments_among_parentheses_are_passed_over(tmp_path, call, after):
    assert _applied(_made(tmp_path / "train.py", f"loader = {call}\n"), MORE) == f"loader = {after}\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("from __future__ import annotations\ntry:\n    x = 1\nexcept E:\n    pass\n",
         "from __future__ import annotations\nimport pipebench\ntry:"),
        ('"""Text."""\nfrom __future__ import annotations\n\nx = 1\n', "annotations\n\nimport pipebench\nx = 1"),
        ('"""Text."""\nx = 1\n', '"""Text."""\nimport pipebench\nx'),
        ("import pipebench as p\n", "import pipebench\nimport pipebench as p\n"),
        ("import os, pipebench\n", "import os, pipebench\n"),
    ],
)  # fmt: skip
def test_an_import_stands_where_it_may(tmp_path, text, after):
    made = _made(tmp_path / "train.py", f"{text}loader = DataLoader(data)\n")
    change = Change("any", {"num_workers": 4}, rewrites=Source(made.file).imported("pipebench"))
    found = _applied(made, change)
    assert after in found and found.count("import pipebench\n") <= 1


def test_a_name_with_a_blank_ends_with_a_tab_as_in_gits_own_diffs(tmp_path):
    made = _made(tmp_path / "my train.py", "loader = DataLoader(data)\n")
    assert written(made, MORE).diff.startswith("--- a/my train.py\t\n+++ b/my train.py\t\n@@")
    assert "num_workers=4" in _applied(made, MORE)


def test_a_byte_order_mark_shifts_no_column(tmp_path):
    made = _made(tmp_path / "train.py", "\ufeffloader = DataLoader(data)\n")
    assert _applied(made, MORE) == "\ufeffloader = DataLoader(data, num_workers=4)\n"


@pytest.mark.parametrize("settings", [{}, {"num_workers": 4}])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_file_in_another_encoding_is_left_alone(tmp_path, settings, encoding):
    text = "# coding: latin-1\nx = 'ä'; loader = DataLoader(data)\n"
    made = _made(tmp_path / "train.py", text, encoding)
    change = Change("any", settings, rewrites=(Rewrite(made.file, 18, 18, "y = 1\n"),))
    assert written(made, change).diff is None and written(made, change).snippet is None
    assert written(made, change).no_diff == written(made, change).no_snippet == "encoding"


def test_a_patch_names_no_file_outside_the_current_folder(tmp_path, monkeypatch):
    made = _made(tmp_path / "train.py", "loader = DataLoader(data)\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "linked.py").symlink_to(made.file)
    monkeypatch.chdir(tmp_path / "below")
    for one in (made, replace(made, file=str(tmp_path / "below" / "linked.py"))):
        assert written(one, MORE).diff is None and written(one, MORE).no_diff == "outside"
        assert written(one, MORE).snippet is not None and written(one, MORE).no_snippet == ""


def test_a_link_within_the_folder_is_followed(tmp_path):
    made = _made(tmp_path / "train.py", "loader = DataLoader(data)\n")
    (tmp_path / "linked.py").symlink_to("train.py")
    assert "num_workers=4" in _applied(replace(made, file=str(tmp_path / "linked.py")), MORE)


@pytest.mark.parametrize("new", ["(", "x = (", "\0", "\tx"])
def test_what_python_could_not_read_is_not_written(tmp_path, new):
    made = _made(tmp_path / "train.py", "loader = DataLoader(data)\n")
    for settings in ({}, {"num_workers": 4}):
        change = Change("any", settings, rewrites=(Rewrite(made.file, 0, 0, new),))
        assert written(made, change).diff is None and written(made, change).snippet is None
        assert written(made, change).no_diff == "no-python"


def test_changes_of_the_same_bytes_are_not_written(tmp_path):
    made = _made(tmp_path / "train.py", "loader = DataLoader(data)\n")
    change = Change("any", {}, rewrites=(Rewrite(made.file, 0, 6, "one"), Rewrite(made.file, 3, 6, "two")))
    assert written(made, change).diff is None and written(made, change).no_diff == "no-python"


def test_a_change_without_a_text_is_made_by_hand(tmp_path):
    made = _made(tmp_path / "train.py", "loader = DataLoader(*data)\n")
    assert written(made, Change("one_thread", {}, one_thread=True)).no_diff == "by-hand"
    assert written(made, MORE).no_diff == "no-call"
    assert written(replace(made, file=""), MORE).no_diff == "no-call"


def test_entries_in_parentheses_of_their_own_are_not_put_into_a_class(tmp_path):
    text = "steps = Compose([(ToTensor()), (Normalize(m, s))])\nloader = DataLoader(data)\n"
    figures = seen(0.6)
    rows = (StageResult("Normalize", "transform", 1, 100, 0.1, 0.2),)
    made = _made(tmp_path / "train.py", text)
    change = lookup.propose(replace(figures, watched=replace(figures.watched, stages=rows), made=made), [])
    assert change is not None and change.rewrites == ()


def test_every_decoder_can_be_written(tmp_path):
    text = f"{PHOTOS}\n\ndef load(path):\n\treturn Image.open(path).convert('RGB')\n\n\nDataLoader(1)\n"
    for one in decoders._WRITTEN.values():
        made = _made(tmp_path / "train.py", text)
        found = opening.rewrites(replace(seen(), made=made), one)
        assert f"return {one.__name__}(Image.open(path))" in _applied(made, Change("decoders", {}, rewrites=found))


@pytest.mark.parametrize(
    ("made_with", "call", "after"),
    [
        ("partial(DataLoader, data)", "DataLoader_(32, True, None, None, 2)", "DataLoader_(32, True, None, None, 4)"),
        ("partial(DataLoader, data, 32)", "DataLoader_(True)", "DataLoader_(True, num_workers=4)"),
        ("partial(DataLoader, num_workers=2)", "DataLoader_(data)", "DataLoader_(data, num_workers=4)"),
        ("partial(DataLoader, *data)", "DataLoader_(True)", None),
    ],
)
def test_what_a_partial_call_gives_by_position_counts(tmp_path, made_with, call, after):
    before = f"DataLoader_ = {made_with}\n"
    made = _made(tmp_path / "train.py", f"{before}DataLoader(1)\n")
    (tmp_path / "train.py").write_text(f"{before}{call}\n")
    made = replace(made, end_column=len(call))
    if after is None:
        assert written(made, MORE).no_diff == "no-call"
    else:
        assert _applied(made, MORE) == f"{before}{after}\n"


def test_one_file_by_two_names_has_one_change(tmp_path):
    made = _made(tmp_path / "train.py", "loader = DataLoader(data)\n")
    (tmp_path / "linked.py").symlink_to("train.py")
    other = Rewrite(str(tmp_path / "linked.py"), 0, 0, "x = 1\n", helper=True)
    after = _applied(made, replace(MORE, rewrites=(other,)))
    assert after == "x = 1\nloader = DataLoader(data, num_workers=4)\n"


def test_new_lines_end_as_the_others_do(tmp_path):
    made = _made(tmp_path / "train.py", "import os\r\nloader = DataLoader(data)\r\n")
    after = _applied(made, replace(MORE, rewrites=Source(made.file).imported("pipebench")))
    assert after == "import pipebench\r\nimport os\r\nloader = DataLoader(data, num_workers=4)\r\n"
