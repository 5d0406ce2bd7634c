"""Lines that copy, convert, search or sort a whole list or array: by what stands around them they are known."""

from __future__ import annotations

import pytest
from titled import title_of as _title

COPIED, DRAWN, SET = (
    "a part taken without a copy of the whole",
    "several items drawn at once",
    "a set in place of a list",
)
COPIES = ("a = WHOLE if KEPT else WHOLE.copy()", "a = self.rows.clone()", "if SLOW: a = np.array(a).astype(np.int64)",
          "a = list(rows)", "a = np.array(self.rows)  # all")  # fmt: skip
LIST = ["pool = [j for j in IDS if j != i]"]


@pytest.mark.parametrize("text", COPIES)
def test_a_whole_that_is_copied_for_a_part_is_known_by_what_is_used_of_it(text: str) -> None:
    for below in ("return torch.from_numpy(a[i]), i", "x, n = a[at : at + 9], len(a) - 9", "x, y = a[i], a[i + 1]"):
        assert _title(text, below=[f"        {below}"]) == COPIED
    for below in ("return a", "a[i] = 0", "a[i] += 1", "return a[:]", "random.shuffle(a)", "x, y = a[i], a", ""):
        assert _title(text, below=[f"        {below}"]) != COPIED


def test_another_call_in_the_line_may_be_what_is_slow() -> None:
    below = ["        return a[i]"]
    assert _title("a = load(self.paths[i]).copy()", below=below) is None
    assert _title("a = WHOLE.copy()", "numpy.load", below=below) is None


def test_items_that_are_drawn_and_removed_one_after_the_other() -> None:
    line = "j = random.choice(pool); pool.remove(j); wrong.append(j)"
    assert _title(line, given=LIST) == DRAWN
    assert _title("pool.remove(j)", "", "j = random.choice(pool)", given=LIST) == DRAWN
    assert _title("pool.remove(j)", "", "j = random.choice(other)", given=LIST) == SET
    assert _title(line) is None and _title(line, given=["pool = set(IDS)"]) is None
    assert _title("self.watch.remove(load(j))", given=["self.watch = []"]) is None


def test_an_item_is_looked_for_in_one_of_two_lists() -> None:
    assert _title("if i in (KNOWN if FAST else BAD):", given=["BAD = list(range(9))", "KNOWN = set(BAD)"]) == SET
    assert _title("if i in (BAD if FAST else KNOWN):", given=["BAD = list(range(9))", "KNOWN = set(BAD)"]) is None


def test_an_array_that_is_converted_twice() -> None:
    title, line = "a single conversion", "a = im.astype(np.float64); a = a / 255.0; a = a.astype(np.float32)"
    assert _title(line) == title
    assert _title("a = a.astype(np.float32)", "", "a = im.astype(np.float64)") == title
    assert _title("x = x.float()", below=["        x = (x / 255).double()"]) == title
    assert _title("a = a.astype(np.float32)", "", "b = im.astype(np.float64)") is None
    assert _title("a = a.astype(np.float32)") is None
    assert _title("a = load(i).astype(np.float64); a = a.astype(np.float32)") is None


def test_what_is_done_with_a_row_of_a_frame_belongs_to_the_row() -> None:
    text, calls, title = (
        "return torch.tensor(row.drop('y').values), int(row['y'])",
        "pandas.Series.drop",
        "columns as arrays",
    )
    assert _title(text, calls, "row = s.df.iloc[i]") == title
    assert _title("y = row['y']", "pandas.Series.__getitem__", "row = self.frame.loc[name]") == title
    assert _title(text, calls, "row = self.means.copy()") is None
    assert _title(text, "pandas.read_csv", "row = s.df.iloc[i]") is None
    assert _title(text, "", "row = s.df.iloc[i]") != title


def test_parts_are_joined_in_a_loop_of_one_line() -> None:
    for text in ("for k in range(256): a=np.append(a,R[i,k])", "for k in range(256): a=torch.cat([a,R[i,k:k+1]])"):
        assert _title(text) == "parts joined once"
    assert _title("for k in range(256): a=np.append(b,R[i,k])") is None
