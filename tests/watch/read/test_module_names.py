"""Names of the module in a line: they stand for one value, unless the function gives them another."""

from __future__ import annotations

import pytest
from titled import title_of as _title

from pipebench.watch.read.lines_around import around
from pipebench.watch.read.module_names import with_values

VALUES = {"p": "'/data/a.zip'", "args": "parser.parse_args()", "root": "Path(args.data)", "query": '"SELECT x"  # all'}
ZIP, NPZ = "zipfile.ZipFile.__init__", "numpy.NpzFile.__getitem__"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("zipfile.ZipFile(p)", "zipfile.ZipFile('/data/a.zip')"),
        ("np.load(args.data, 'p', p=p)", "np.load(ARGS_DATA, 'p', p='/data/a.zip')"),
        ("h5py.File(root / 'x.h5')", "h5py.File(ROOT / 'x.h5')"),
        ("db.execute(query, (i,))", 'db.execute("SELECT x", (i,))'),
        ("p.open(p[0], p(1), x.p, root.at(1))", "p.open(p[0], p(1), x.p, root.at(1))"),
    ],
)
def test_what_the_module_gives_is_put_in(text: str, found: str) -> None:
    assert with_values(text, ["    def __getitem__(self, i):", f"        {text.replace('p=p', '')}"], VALUES) == found


@pytest.mark.parametrize(
    "own",
    ["p = self.paths[i]", "for q, p in self.pairs:", "with find(i) as p:", "def inner(a, p=(1, 2)):", "import p",
     "q, p = pairs[i]", "x = lambda p: p + 1", "while (p := self.next(i)):", "global p"],
)  # fmt: skip
def test_a_name_of_the_function_is_left(own: str) -> None:
    assert with_values("open(p)", ["def get(self, i):", own], VALUES) == "open(p)"
    assert with_values("open(p)", ["def get(self, i,", "        p=None):"], VALUES) == "open(p)"


def test_only_names_that_a_file_gives_once_outside_of_functions_are_known() -> None:
    source = ["a = 1", "b = 2", "b = 3", "class C:", "    c = 1", "def f(x):", "    a, d = 1, 2", "e = [", "1]"]
    lines = ["", *source, "def g():", "    return e"]
    found = around("x.py", len(source) + 2, lambda file, at: f"{lines[at]}\n" if at < len(lines) else "")
    assert found.values == {"e": "[ 1]"}


def test_a_file_by_a_name_of_the_module_is_the_same_for_each_sample() -> None:
    line = "with zipfile.ZipFile(p) as z: b = z.read(f'{i}.jpg')"
    assert _title(line, ZIP) is None
    assert _title(line, ZIP, values=VALUES) == "the file opened once in each worker"
    assert _title("with h5py.File(args.data) as f:", "h5py.File.__init__", values=VALUES)
    assert _title(line, ZIP, above="p = self.paths[i]", values=VALUES) is None


def test_what_is_kept_in_another_branch_says_nothing_of_a_line() -> None:
    line, kept = "with zipfile.ZipFile(self.path) as z:", "    if self.z is None: self.z = open_(self.path)"
    assert _title(line, ZIP, above=f"if self.once:\n{kept}\nelse:", indent=12) == "the file opened once in each worker"
    assert _title(line, ZIP, above=kept[4:]) is None
    assert _title(line, ZIP, above="if self.z is None:", indent=12) is None


def test_an_archive_that_is_loaded_anew_is_told_at_the_line_that_unpacks_it() -> None:
    text = "return torch.from_numpy(d['x'][i])"
    for above in ("d = np.load(self.path)", "with np.load(self.path) as d:", "d = np.load(p)"):
        assert _title(text, NPZ, above=above, values=VALUES) == "the file read once", above
    for above in ("d = np.load(self.paths[i])", "d = self.open(i)", "e = np.load(self.path)"):
        assert _title(text, NPZ, above=above, values=VALUES) is None, above
    assert _title("d = np.load(p); return d['x'][i]", NPZ, values=VALUES) == "the file read once"


def test_a_row_group_and_its_use_may_stand_in_one_line() -> None:
    uses = "g = self.f.read_row_group(i // 9); return torch.tensor(g['x'][i % 9].as_py()), g['y'][i % 9].as_py()"
    calls = "pyarrow.ParquetFile.read_row_group"
    assert _title(uses, calls) == "rows read without the rest of their group"
    assert _title(uses + ", g", calls) is None
