"""Lines that are slow by what stands elsewhere: lists that the file makes, and arrays of which a part is taken."""

from __future__ import annotations

import pytest
from titled import title_of as _title

from pipebench.watch.read.known_lines import Line, is_cut

LISTS = ("self.items = [tuple(line.split()) for line in f]", "self.items = sorted(rows)", "self.items = rows.tolist()",
         "self.items: list[int] = []", "self.items = np.unique(rows)")  # fmt: skip
NO_LISTS = ("self.items = set(rows)", "self.items = {}", "self.items = items", "self.items = ['<pad>', '<unk>']",
            "self.items, self.table = [], {}", "self.items = {row for row in rows}")  # fmt: skip
ASKS = ("if cand not in self.items:", "kept = [j for j in cands if j not in self.items]", "return i in self.items")


@pytest.mark.parametrize("text", ASKS)
def test_an_item_is_looked_for_in_a_list_only_if_the_file_makes_it_one(text: str) -> None:
    title = "a set in place of a list"
    assert [_title(text, given=[one]) for one in LISTS] == [title] * len(LISTS)
    assert [_title(text, given=[one]) for one in NO_LISTS] == [None] * len(NO_LISTS)
    assert [_title(text, given=[LISTS[0], one]) for one in NO_LISTS] == [None] * len(NO_LISTS)
    assert _title(text) is None
    assert _title(text.replace("self.items", "items"), given=["items = sorted(rows)"]) is None  # of which function
    assert _title(text.replace("self.items", "ITEMS"), given=["ITEMS = sorted(rows)"]) == title


@pytest.mark.parametrize("text", ["for one in self.items:", "any(a == one for one in self.items)",
                                  "if a in self.items[i]:", "if self.load(i) in self.items:"])  # fmt: skip
def test_what_looks_for_nothing_in_the_list_itself_is_not_known(text: str) -> None:
    assert _title(text, given=LISTS) is None


def test_a_list_of_the_dataset_is_made_an_array_once() -> None:
    for text in ("x = np.array(self.items)[i]", "x = torch.tensor(self.items)"):
        assert _title(text, given=LISTS) == "the array made once"
        assert _title(text, given=LISTS, iterable=True) != "the array made once"
        assert _title(text, given=["self.items = 0.5"]) != "the array made once"  # a number
    assert _title("x = np.array(self.items[i])", given=LISTS) is None


BEFORE = ("image = np.clip(image, -1000, 1000).astype(np.float32)", "image = (image - image.mean()) / image.std()",
          "image = image / 255.0", "x = (x - self.mean) / self.std")  # fmt: skip


@pytest.mark.parametrize("text", BEFORE)
def test_a_part_is_cut_out_before_the_whole_is_scaled(text: str) -> None:
    title, name = "the part cut out first", text.split()[0]
    shape = f"        at = [s - 32 for s in {name}.shape]"
    cut, box = f"        return {name}[y:y + 32, x:x + 32]", f"        {name} = {name}[box]"
    scaled, mask = f"        {name} = {name}.astype(np.float32)", f"        {name}[box] = 0"
    resized, rows = f"        {name} = cv2.resize({name}, (64, 64))", f"        return {name}[None], {name}[0]"
    for below in ([cut], [box], [shape, scaled, cut], [box, resized]):
        assert _title(text, below=below) == title
    many, each = ["        for y in rows:", "    " + cut], [f"        return [{name}[y:y + 9] for y in rows]"]
    for below in ([], [resized, cut], [mask], [rows], [cut, resized], many, each):
        assert _title(text, below=below) is None
    assert _title(f"{name} = np.load(path).astype(np.float32)", "", below=[cut]) is None


VIEWS = ["        beam = np.frombuffer(buf, np.uint8, offset=8).reshape(-1, 64)", "        x = beam.view(3, -1)"]


@pytest.mark.parametrize(
    ("below", "told"),
    [
        (["        return buf[at : at + size]"], True),
        ([VIEWS[0], "        return beam[at : at + size]"], True),
        ([*VIEWS, "        return x[at : at + size]"], True),
        ([VIEWS[0], "        return beam[at : at + size], buf"], False),
        ([VIEWS[0], "        return beam.mean()"], False),
        (
            ["        image = cv2.imdecode(np.frombuffer(buf, np.uint8), 1)", "        return image[at : at + size]"],
            False,
        ),
    ],
)
def test_a_part_of_the_same_bytes_by_another_name_is_cut_out(below: list[str], told: bool) -> None:
    assert is_cut(Line("buf = self.archive.read(name)", "", "Beams.cut", "", below=below)) == told
