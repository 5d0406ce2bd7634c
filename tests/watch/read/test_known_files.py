"""Lines that open or read the same file for each sample: by which names it is the same, and what is read in vain."""

from __future__ import annotations

import pytest
from titled import title_of as _title


@pytest.mark.parametrize(
    "file",
    ["PATH", "ROOT + 'x.zip'", 'ROOT / "x.zip"', "os.path.join(ROOT, 'x.zip')", "self.root + '/x.zip'",
     "os.path.join(self.root, 'x.zip')"],
)  # fmt: skip
def test_a_file_whose_name_is_made_of_what_stays_the_same_is_opened_again(file: str) -> None:
    line, calls = f"with zipfile.ZipFile({file}) as z: b = z.read(f'{{i}}.jpg')", "zipfile.ZipFile.__init__"
    assert _title(line, calls) == "the file opened once in each worker"
    assert _title(line, "zipfile.ZipFile.read") is None
    for above in ("PATH = ROOT = self.path = self.root = self.paths[i]", "for PATH, ROOT, self.root in self.files:"):
        if "self" not in file or "=" in above:
            assert _title(line, calls, above=above) is None
    assert _title("with zipfile.ZipFile(ROOT + f'{i}.zip') as z:", calls) is None
    assert _title("with zipfile.ZipFile(ROOT + name) as z:", calls) is None


ROW = "t = self.file.read_row_group(j // 2000)"
GROUP = "pyarrow.ParquetFile.read_row_group"


@pytest.mark.parametrize(
    ("below", "title"),
    [
        ("x = t.column('v')[j % 2000].as_py()", True),
        ("x, y = t['v'][j % 2000], t['y'][j % 2000]", True),
        ("row = t.slice(j % 2000, 1).to_pydict()", True),
        ("x = t.column('v').to_numpy()", False),  # all of it
        ("x, whole = t['v'][j], t['y'].to_numpy()", False),
        ("x = t['v'][a:b]", False),
        ("return t", False),
        ("", False),
    ],
)
def test_a_row_group_that_is_read_for_one_row_is_known(below: str, title: bool) -> None:
    found = "rows read without the rest of their group" if title else None
    assert _title(ROW, GROUP, below=[f"        {below}"]) == found
    opens = "if self.file is None: self.file = pq.ParquetFile(PATH)"
    assert _title(ROW, GROUP, above=opens, below=[f"        {below}"]) == found
    assert _title(ROW, GROUP, below=["        for j in range(9):", f"            {below}"]) is None  # it reads on
    assert _title(ROW, GROUP, below=[f"        rows = [{below} for j in places]"]) is None
    assert _title(ROW, GROUP, below=[f"        {below}", "        self.kept = t"]) is None
    assert _title(ROW, GROUP, below=[f"        {below}"], took_s=0.0003) is None
    assert _title(ROW, GROUP, below=[f"        {below}"], took_s=0.0006) == found


def test_a_row_group_of_which_a_row_is_taken_at_once_is_known() -> None:
    for text in ("x = pf.read_row_group(g).column('v')[k].as_py()", "x = pf.read_row_group(g).slice(k, 1)"):
        assert _title(text, GROUP) == "rows read without the rest of their group"
    assert _title("x = pf.read_row_group(g).column('v').to_numpy()", GROUP) is None
