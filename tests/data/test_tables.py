"""Tables: the images in the user's Parquet and Arrow files are those that were put in, and what is no table is said."""

import os

import pytest

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet  # noqa: E402

from pipebench.data import cells, datasets, listing, tables  # noqa: E402
from pipebench.errors import PipebenchError, SampleError  # noqa: E402

STRUCT = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])


@pytest.fixture(scope="module")
def images():
    return [one.read() for one in datasets.load("tiny").samples]


def as_table(images, kind="struct", name="image"):
    if kind == "struct":
        column = pyarrow.array([{"bytes": one, "path": None} for one in images], STRUCT)
    else:
        column = pyarrow.array(images, getattr(pyarrow, kind)())
    return pyarrow.table({"label": list(range(len(images))), "note": [b"no image"] * len(images), name: column})


def write(path, table, rows=4):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=rows)
        return
    new = pyarrow.ipc.new_file if path.stem.endswith("file") else pyarrow.ipc.new_stream
    with pyarrow.OSFile(str(path), "wb") as file, new(file, table.schema) as stream:
        for batch in table.to_batches(max_chunksize=rows):
            stream.write_batch(batch)


@pytest.mark.parametrize("kind", ["struct", "binary", "large_binary"])
@pytest.mark.parametrize("name", ["train.parquet", "stream.arrow", "file.arrow"])
def test_every_image_comes_out_as_it_was_put_in(tmp_path, images, name, kind):
    write(tmp_path / "data" / name, as_table(images, kind), rows=5)
    for given in (tmp_path, tmp_path / "data" / name):
        found = datasets.load(str(given))
        assert [one.read() for one in found.samples] == images
        assert [one.keys for one in found.tables] == [tuple(one.key for one in found.samples)]
        assert found.problems == () and found.left_out == 0
    assert found.samples[15].key == f"{name}/000015" and found.samples[15].cell.part == 3


def test_a_folder_that_hugging_face_saved(tmp_path, images):
    hub = pytest.importorskip("datasets")
    features = hub.Features({"label": hub.Value("int64"), "image": hub.Image()})
    rows = {"label": list(range(16)), "image": [{"bytes": one, "path": None} for one in images]}
    made = hub.Dataset.from_dict(rows, features=features)
    made.save_to_disk(str(tmp_path / "one"), num_shards=2)
    hub.DatasetDict({"train": made, "test": made.select(range(4))}).save_to_disk(str(tmp_path / "both"))
    made.to_parquet(str(tmp_path / "hub" / "train.parquet"))
    assert [one.read() for one in datasets.load(str(tmp_path / "one")).samples] == images
    assert [one.read() for one in datasets.load(str(tmp_path / "both")).samples] == images[:4] + images
    assert [one.read() for one in datasets.load(str(tmp_path / "both" / "train")).samples] == images
    assert [one.read() for one in datasets.load(str(tmp_path / "hub")).samples] == images


def test_what_map_left_beside_the_data_is_left_out(tmp_path, images):
    write(tmp_path / "data-00000-of-00001.arrow", as_table(images))
    write(tmp_path / "cache-1234.arrow", as_table(images[:3]))
    assert len(datasets.load(str(tmp_path)).samples) == 16


def test_images_beside_tables_are_the_data(tmp_path, images):
    write(tmp_path / "meta.parquet", as_table(images))
    (tmp_path / "a.jpg").write_bytes(images[0])
    assert [one.key for one in datasets.load(str(tmp_path)).samples] == ["a.jpg"]


def test_a_limit_and_a_pattern(tmp_path, images):
    for number in range(3):
        write(tmp_path / f"train-{number}.parquet", as_table(images[number * 5 : number * 5 + 5]))
    found = datasets.load(str(tmp_path / "train-{0..2}.parquet"), limit=7)
    assert [one.read() for one in found.samples] == images[:7] and found.left_out is None
    assert len(datasets.load(str(tmp_path / "train-*.parquet")).samples) == 15


def test_a_row_without_bytes_is_a_bad_sample(tmp_path, images):
    column = pyarrow.array([None, {"bytes": images[0], "path": None}, {"bytes": None, "path": "a.jpg"}], STRUCT)
    for name in ("a.parquet", "a.arrow"):
        write(tmp_path / name, pyarrow.table({"image": column}))
        first, second, third = datasets.load(str(tmp_path / name)).samples
        assert second.read() == images[0]
        for bad in (first, third):
            with pytest.raises(SampleError) as caught:
                bad.read()
            assert caught.value.kind == "empty"


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_table_that_cannot_be_read_is_named_and_the_others_are_used(tmp_path, images, name):
    whole = tmp_path / name
    write(whole, as_table(images))
    content = whole.read_bytes()
    (tmp_path / f"b{whole.suffix}").write_bytes(content[: len(content) // 2])
    (tmp_path / f"c{whole.suffix}").write_bytes(b"")
    os.mkfifo(tmp_path / f"d{whole.suffix}")
    write(tmp_path / f"e{whole.suffix}", pyarrow.table({"text": ["a"], "blob": [b"b"]}))
    found = datasets.load(str(tmp_path / f"*{whole.suffix}"))
    assert [one.read() for one in found.samples] == images
    assert [one.kind for one in found.problems] == ["unreadable", "unreadable", "not-regular", "no-image"]
    assert not any(one.message.endswith(".") for one in found.problems)
    assert "its columns: text, blob" in found.problems[-1].message


def test_what_changes_after_it_was_listed_is_a_bad_sample(tmp_path, images):
    for name in ("a.parquet", "a.arrow"):
        path = tmp_path / name
        write(path, as_table(images))
        samples = datasets.load(str(path)).samples
        assert samples[0].read() == images[0]
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(SampleError) as caught:
            samples[1].read()
        assert caught.value.kind == "unreadable"
        path.unlink()
        with pytest.raises(SampleError) as caught:
            samples[1].read()
        assert caught.value.kind == "vanished"


def test_a_table_without_images_says_what_it_holds(tmp_path):
    write(tmp_path / "a.parquet", pyarrow.table({"text": ["a"], "\x1b[31m": [b"b"]}))
    with pytest.raises(PipebenchError) as caught:
        datasets.load(str(tmp_path))
    assert r"no column holds the bytes of images (its columns: text, \x1b[31m)" in caught.value.problem
    assert "`pipebench watch train.py` measures the script that reads it" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "spoilt", "said"),
    [
        ("a.parquet", lambda data: data[:-9], "The file was cut, is damaged, or is no such table"),
        ("a.arrow", lambda data: data[: len(data) // 2], "The file was cut, is damaged, or is no such table"),
        ("file.arrow", lambda data: data[:-9], "The file was cut, is damaged, or is no such table"),
        ("a.parquet", None, "Name a table that has rows."),
        ("a.arrow", None, "Name a table that has rows."),
        ("file.arrow", None, "Name a table that has rows."),
    ],
)
def test_a_table_that_holds_nothing_has_its_remedy(tmp_path, images, name, spoilt, said):
    path = tmp_path / name
    write(path, as_table(images) if spoilt else as_table(images).slice(0, 0))
    if spoilt:
        path.write_bytes(spoilt(path.read_bytes()))
    for given in (path, tmp_path):
        with pytest.raises(PipebenchError) as caught:
            datasets.load(str(given))
        assert said in caught.value.remedy and ".." not in caught.value.problem


def test_tables_of_another_form_are_not_passed_over_in_silence(tmp_path, images):
    write(tmp_path / "a.parquet", as_table(images))
    for name in ("b.arrow", "c.arrow", "cache-1.arrow"):
        write(tmp_path / name, as_table(images[:3]))
    found = datasets.load(str(tmp_path))
    assert len(found.samples) == 16
    (left,) = found.problems
    assert left.sample.endswith("b.arrow") and left.kind == "another-form"
    assert left.message.startswith("not read, nor 1 more: the folder has Parquet files too")


def test_every_remedy_fits_a_line_of_a_terminal():
    every = [*tables._REMEDIES.values(), listing.WANTED, listing.OTHERS]
    assert max(len(line) for one in every for line in one.splitlines()) <= 78
    assert all(form in listing.WANTED for form in (".parquet", ".arrow", "Hugging Face"))


def test_without_pyarrow_the_remedy_is_named(tmp_path, images, monkeypatch):
    write(tmp_path / "a.parquet", as_table(images))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(PipebenchError, match=r"pip install 'pipebench\[parquet\]'"):
        datasets.load(str(tmp_path))


def test_a_copy_of_embedded_data_has_the_same_bytes_and_is_made_again_where_it_was_altered(images, monkeypatch):
    found = datasets.load("tiny")
    for form in tables.FORMS:
        places = tables.copy(found, form)
        assert [places[one.key].read() for one in found.samples] == images
        path = places[found.samples[0].key].path
        with open(path, "r+b") as file:
            file.write(b"xxxx")
        monkeypatch.setattr(tables, "_copied", {})
        again = tables.copy(found, form)
        assert [again[one.key].read() for one in found.samples] == images and again == places


@pytest.fixture
def large(tmp_path, images, monkeypatch):
    """One row group of 800 images, in pages of a few, of which no more than 128 may be kept."""
    path = tmp_path / "a.parquet"
    parquet.write_table(as_table(images * 50), path, use_dictionary=False, write_batch_size=8)
    monkeypatch.setattr(cells, "MOST_BYTES", 2 * cells.BATCH_ROWS * len(max(images, key=len)))
    cells._row_group.cache_clear()
    return path


def test_of_a_large_row_group_a_part_is_kept_and_rows_that_rise_are_read_once(large, images, monkeypatch):
    monkeypatch.setattr(cells, "row_group", lambda *whole: pytest.fail("all of it was read"))
    before = _bytes_read()
    samples = datasets.load(str(large)).samples
    assert samples[0].read() == images[0] and _bytes_read() - before < 0.5 * large.stat().st_size
    nearly = [one ^ 1 for one in range(800)]  # as threads ask that work beside each other
    assert all(samples[one].read() == images[one % 16] for one in nearly)
    assert _bytes_read() - before < 1.5 * large.stat().st_size
    assert [samples[one].read() for one in (799, 0, 200)] == [images[one % 16] for one in (799, 0, 200)]


def test_no_more_of_a_large_row_group_is_kept_than_the_limit(large, images):
    values = cells._Passing(str(large), 0, ("image", "bytes"))
    for row in (0, 799):
        assert values[row].as_py() == images[row % 16]
        assert sum(part.nbytes for _, part in values._kept) <= cells.MOST_BYTES


def test_a_large_row_group_that_is_damaged_costs_the_images_before_the_damage_nothing(large, images):
    samples, data = datasets.load(str(large)).samples, bytearray(large.read_bytes())
    middle = len(data) // 2
    data[middle:-4096] = bytes(len(data) - 4096 - middle)
    large.write_bytes(data)
    assert samples[0].read() == images[0]
    for _ in range(2):
        with pytest.raises(SampleError):
            samples[799].read()


def _bytes_read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])
