"""Reading from tables: the bytes of the files, whatever the rows of a group; a reason where a row cannot run."""

import sys
from pathlib import Path

import pytest

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet  # noqa: E402

from pipebench import stage  # noqa: E402
from pipebench.data import cells, datasets  # noqa: E402
from pipebench.lab.timing import Plan, measure  # noqa: E402
from pipebench.reference.pipeline import FLOATS, Photographs  # noqa: E402
from pipebench.runner import LocalRunner, Runners  # noqa: E402
from pipebench.stages import read, read_tables  # noqa: E402
from pipebench.task import Workload  # noqa: E402

BRIEF = Plan(rounds=1, least_rounds=1, budget_s=0.0, reading_s=0.0)
NAMES = ("parquet", "parquet-random", "arrow-ipc", "hf-datasets")
OF = {"a.parquet": ("parquet", "parquet-random"), "a.arrow": ("arrow-ipc", "hf-datasets")}


@pytest.fixture(scope="module")
def images():
    return [one.read() for one in datasets.load("tiny").samples]


def write(path, images, rows=3, new=pyarrow.ipc.new_stream, **form):
    table = pyarrow.table({"label": list(range(len(images))), "jpg": pyarrow.array(images, pyarrow.binary())})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=rows, **form)
    else:
        with pyarrow.OSFile(str(path), "wb") as file, new(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=rows)
    return str(path)


def measured(data, names, cache="warm"):
    task = stage.find("read/image/open")[0]
    wanted = [one for one in stage.variants(task.id) if one.name in names]
    with Runners() as runners:
        found = measure(task, wanted, Workload(data=data, cache=cache), runners=runners, plan=BRIEF)
    return {one.variant: one for one in found.measurements}


@pytest.mark.parametrize("data", ["tiny", *OF])
def test_each_row_gives_the_bytes_of_every_file(tmp_path, images, data):
    names = OF.get(data, NAMES)
    workload = Workload(data=write(tmp_path / data, images) if data in OF else data)
    task, runner = stage.find("read/image/open")[0], LocalRunner()
    keys = tuple(key for group in task.groups(workload) for key in group)
    for name in names:
        assert runner.prepare(f"read/image/{name}", workload).skip_code is None
        for wanted in (keys, keys[7:8], keys[::5]):
            found = runner.attempt(f"read/image/{name}", workload, wanted)
            assert [one.output for one in found] == [(images[keys.index(key)],) for key in wanted]


@pytest.mark.parametrize("data", OF)
def test_rows_of_another_form_are_skipped_with_the_reason(tmp_path, images, data):
    found = measured(write(tmp_path / data, images), [*NAMES, "open", "tar-index"])
    assert [name for name, one in found.items() if one.skipped is None] == list(OF[data])
    reasons = {name: one.skipped.reason for name, one in found.items() if one.skipped}
    assert reasons.pop("open") == "this data is tables, and tables are never extracted into files"
    assert reasons.pop("tar-index") == "this data is tables, and no shards are made of your files"
    assert set(reasons.values()) == {"this data is tables of another form, and no such tables are made of your files"}


def test_what_datasets_cannot_open_is_left_out_with_the_reason(tmp_path, images):
    pytest.importorskip("datasets")
    found = measured(write(tmp_path / "a.arrow", images, new=pyarrow.ipc.new_file), ("arrow-ipc", "hf-datasets"))
    assert found["arrow-ipc"].summary and found["hf-datasets"].skipped.code == "unfit"
    assert "these tables are in its file format" in found["hf-datasets"].skipped.reason


def test_a_row_without_bytes_is_one_bad_sample_for_every_row(tmp_path, images):
    for data, names in OF.items():
        found = measured(write(tmp_path / data, [*images[:4], None, images[5]]), names)
        assert {one.work.samples for one in found.values()} == {5}


def test_random_access_to_huge_row_groups_is_not_tried(tmp_path, images, monkeypatch):
    monkeypatch.setattr(read_tables, "MOST_BYTES", 2 * max(map(len, images)))
    found = measured(write(tmp_path / "a.parquet", images, rows=16), ("parquet", "parquet-random"))
    assert found["parquet"].skipped is None
    assert found["parquet-random"].skipped.code == "unfit" and "a row group" in found["parquet-random"].skipped.reason


def test_the_tables_of_the_same_samples_are_brought_into_the_state_of_the_cache_too():
    workload = Workload(data="tiny")
    LocalRunner().prepare("read/image/parquet", workload)
    LocalRunner().prepare("read/image/arrow-ipc", workload)
    (source,) = stage.find("read/image/open")[0].inputs(workload, [one.key for one in read.load(workload).samples])
    assert [path.rpartition(".")[2] for path in source.paths[-3:]] == ["tar", "parquet", "arrow"]


def test_a_file_that_stays_mapped_has_no_cold_reading(images):
    found = measured("tiny", ("hf-datasets",), cache="cold")
    assert "mapped file cannot be dropped" in found["hf-datasets"].skipped.reason


def test_without_its_library_a_row_is_skipped_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    for name, extra in (("parquet", "parquet"), ("arrow-ipc", "parquet"), ("hf-datasets", "huggingface")):
        found = LocalRunner().prepare(f"read/image/{name}", Workload(data="tiny"))
        assert found.skip_code == "not-installed" and f"pip install 'pipebench[{extra}]'" in found.skip_reason


@pytest.mark.parametrize("data", OF)
def test_the_reference_loader_reads_tables(tmp_path, images, data):
    dataset = Photographs(Workload(data=write(tmp_path / data, images)), FLOATS)
    assert len(dataset) == 16 and dataset[3][0].shape == (3, 224, 224)


def test_reading_in_order_reads_little_more_than_it_counts(tmp_path, images):
    """One row group of 800 images, of which a quick run times 64: what is counted must be what is read."""
    form = {"use_dictionary": False, "write_batch_size": 8}  # so that it has pages of a few images
    workload = Workload(data=write(tmp_path / "a.parquet", images * 50, rows=800, **form), quick=True)
    task, variant = stage.find("read/image/parquet")
    keys = tuple(key for group in task.groups(workload) for key in group)[: task.per_call(workload)]
    (source,) = task.inputs(workload, keys)
    read = variant.build(workload)
    before = _bytes_read()
    counted = sum(len(image) for _, (image,) in read(source))
    assert len(keys) == 64 and _bytes_read() - before < 1.3 * counted + 4 * cells.BUFFER_BYTES


def _bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])
