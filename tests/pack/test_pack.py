"""`pipebench pack`: the same files with markers, whole or not at all, and never a write into the source."""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile

import numpy as np
import pytest
from click.testing import CliRunner
from in_memory import encoded
from PIL import Image

from pipebench.commands.pack import command
from pipebench.data import datasets
from pipebench.errors import PipebenchError, UsageError
from pipebench.pack import gain, journal, sources, working, writing
from pipebench.render import layout, packing


def jpeg(seed, width=320, height=288, **options):
    pixels = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    return encoded(Image.fromarray(pixels).resize((width, height)), **options)


def pixels(data):
    return Image.open(io.BytesIO(data)).tobytes()


@pytest.fixture
def folder(tmp_path):
    """Two classes, three JPEGs, one that is progressive, a PNG, a label and an empty file."""
    source = tmp_path / "source"
    for name, data in {
        "cats/a.jpg": jpeg(1),
        "cats/a.cls": b"0",
        "cats/b.JPG": jpeg(2, progressive=True),
        "dogs/c.jpg": jpeg(3),
        "dogs/d.jpg": b"",
        "dogs/e.png": b"\x89PNG\r\n\x1a\n",
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    return source


@pytest.fixture(autouse=True)
def no_timing(monkeypatch):
    monkeypatch.setattr(gain, "measured", lambda pairs: None)


def pack(source, destination, cores=2, **options):
    options = {"segment": 64, "keep_tables": False, "shard_bytes": None} | options
    targets = sources.targets(str(source))
    if options["shard_bytes"]:
        targets = sources.in_shards(targets, options["shard_bytes"])
    with journal.Journal(destination, options) as written:
        packer = working.Packer(destination, written, options["segment"], options["keep_tables"], lambda *_: None)
        return packer.run(targets, cores)


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != journal.NAME
    }


def test_a_folder_becomes_the_same_folder(folder, tmp_path):
    before = files(folder)
    result = pack(folder, tmp_path / "packed")
    after = files(tmp_path / "packed")
    assert files(folder) == before and set(after) == set(before)
    for name in ("cats/a.jpg", "dogs/c.jpg"):
        assert b"\xff\xdd\x00\x04" in after[name] and pixels(after[name]) == pixels(before[name])
    assert all(after[name] == before[name] for name in before if name not in ("cats/a.jpg", "dogs/c.jpg"))
    assert (result.files, result.packed, result.others, result.failures) == (6, 2, 1, ())
    assert result.unchanged == {"progressive files have no use for markers": 1, "not a JPEG": 2}
    assert result.before_bytes == sum(len(before[name]) for name in ("cats/a.jpg", "dogs/c.jpg"))
    assert result.after_bytes == sum(len(after[name]) for name in ("cats/a.jpg", "dogs/c.jpg"))
    stamps = [(place / "cats/a.jpg").stat().st_mtime_ns for place in (folder, tmp_path / "packed")]
    assert stamps[0] == stamps[1]


def a_tar(path, members):
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("folder")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname = len(data), 1_600_000_000, "somebody"
            tar.addfile(entry, io.BytesIO(data))
    return path


def members(path):
    with tarfile.open(path) as tar:
        return {one.name: tar.extractfile(one).read() if one.isreg() else None for one in tar}


def test_a_tar_becomes_the_same_tar(tmp_path):
    contents = {f"folder/{index:03}.{suffix}": data for index in range(5) for suffix, data in
                (("jpg", jpeg(index)), ("cls", b"7"))} | {"folder/" + "ü" * 80 + ".txt": b"a long name"}  # fmt: skip
    source = a_tar(tmp_path / "train.tar", contents)
    whole = source.read_bytes()
    result = pack(source, tmp_path / "packed")
    made = members(tmp_path / "packed" / "train.tar")
    assert source.read_bytes() == whole
    assert list(made) == ["folder", *contents]
    assert made["folder"] is None and result.packed == 5 and result.others == 6
    for name, data in contents.items():
        assert pixels(made[name]) == pixels(data) if name.endswith("jpg") else made[name] == data
    with tarfile.open(tmp_path / "packed" / "train.tar") as tar:
        assert all(one.mtime == 1_600_000_000 and one.uname == "somebody" for one in tar if one.isreg())
    assert len(datasets.load(str(tmp_path / "packed" / "train.tar")).samples) == 5


def test_a_brace_pattern_and_a_folder_of_tars(tmp_path):
    (tmp_path / "in").mkdir()
    for index in range(3):
        a_tar(tmp_path / "in" / f"s-{index}.tar", {"x.jpg": jpeg(index)})
    pack(tmp_path / "in" / "s-{0..2}.tar", tmp_path / "one")
    pack(tmp_path / "in", tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two") and len(files(tmp_path / "one")) == 3


def test_new_shards_keep_samples_together_and_have_an_index(folder, tmp_path):
    runner = CliRunner()
    done = runner.invoke(command, [str(folder), str(tmp_path / "out"), "--shards", "20k"], standalone_mode=False)
    assert done.exception is None, done.output
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    listed = {row["url"]: list(members(tmp_path / "out" / row["url"])) for row in index["shardlist"]}
    assert len(listed) > 1 and index["__kind__"] == "wids-shard-index-v1"
    assert list(itertools.chain(*listed.values())) == [
        "cats/a.cls",
        "cats/a.jpg",
        "cats/b.JPG",
        "dogs/c.jpg",
        "dogs/d.jpg",
        "dogs/e.png",
    ]
    assert any({"cats/a.cls", "cats/a.jpg"} <= set(names) for names in listed.values())
    assert sum(row["nsamples"] for row in index["shardlist"]) == 5
    assert all(row["filesize"] == (tmp_path / "out" / row["url"]).stat().st_size for row in index["shardlist"])


def test_a_second_run_does_nothing_and_counts_all(folder, tmp_path, monkeypatch):
    first = pack(folder, tmp_path / "packed")
    monkeypatch.setattr(working, "treated", None)
    second = pack(folder, tmp_path / "packed")
    assert second.earlier == 6 and second.rate is None
    assert (second.packed, second.before_bytes, second.unchanged) == (first.packed, first.before_bytes, first.unchanged)


@pytest.mark.parametrize("which", ["complete", "name"])
def test_an_interrupted_run_goes_on_and_leaves_only_whole_files(folder, tmp_path, monkeypatch, which):
    calls = []
    real = getattr(writing.Writer, which)

    def interrupted(self):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self)

    with monkeypatch.context() as patched:
        patched.setattr(writing.Writer, which, interrupted)
        with pytest.raises(KeyboardInterrupt):
            pack(folder, tmp_path / "packed")
    assert len(files(tmp_path / "packed")) == 2
    assert pack(folder, tmp_path / "packed").earlier == 2
    assert files(tmp_path / "packed") == files_of_a_whole_run(folder, tmp_path)


def files_of_a_whole_run(folder, tmp_path):
    pack(folder, tmp_path / "whole")
    return files(tmp_path / "whole")


def test_a_line_that_was_cut_is_made_again(folder, tmp_path):
    pack(folder, tmp_path / "packed")
    path = tmp_path / "packed" / journal.NAME
    path.write_bytes(path.read_bytes()[:-9])
    last = sorted(files(folder))[-1]
    (tmp_path / "packed" / last).unlink()
    assert pack(folder, tmp_path / "packed").earlier == 5


def test_a_source_that_has_changed_is_packed_again(folder, tmp_path):
    pack(folder, tmp_path / "packed")
    (folder / "cats/a.jpg").write_bytes(jpeg(9))
    assert pack(folder, tmp_path / "packed").earlier == 5
    assert pixels((tmp_path / "packed/cats/a.jpg").read_bytes()) == pixels(jpeg(9))


@pytest.mark.parametrize("place", [".", "below", "../source", ".."])
def test_it_never_writes_into_its_source(folder, place):
    with pytest.raises(UsageError, match="never written to"):
        sources.check_apart(str(folder), folder / place)


def test_a_link_to_the_source_is_the_source(folder, tmp_path):
    os.symlink(folder, tmp_path / "link")
    with pytest.raises(UsageError):
        sources.check_apart(str(folder), tmp_path / "link" / "packed")


def test_a_tar_may_be_packed_into_a_folder_beside_it_but_not_into_its_own(tmp_path):
    source = str(a_tar(tmp_path / "train.tar", {"x.jpg": jpeg(1)}))
    sources.check_apart(source, tmp_path / "packed")
    with pytest.raises(UsageError):
        sources.check_apart(source, tmp_path)


def test_a_folder_with_other_things_or_other_options_is_refused(folder, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with pytest.raises(PipebenchError, match="not empty"):
        pack(folder, tmp_path / "full")
    pack(folder, tmp_path / "packed")
    with pytest.raises(PipebenchError, match="other options"):
        pack(folder, tmp_path / "packed", segment=128)
    (tmp_path / "packed" / "cats" / "new.jpg").write_text("precious")
    (folder / "cats" / "new.jpg").write_bytes(jpeg(5))
    with pytest.raises(PipebenchError, match="not written by pack"):
        pack(folder, tmp_path / "packed")
    assert (tmp_path / "packed" / "cats" / "new.jpg").read_text() == "precious"


def test_what_cannot_be_read_is_left_out_and_said(folder, tmp_path):
    os.symlink("nowhere", folder / "lost.jpg")
    whole = a_tar(folder / "cut.tar", {f"{index}.jpg": jpeg(index) for index in range(3)}).read_bytes()
    (folder / "cut.tar").write_bytes(whole[: len(whole) // 2])
    result = pack(folder, tmp_path / "packed")
    assert [(bad.sample, bad.kind) for bad in result.failures] == [("cut.tar", "truncated"), ("lost.jpg", "vanished")]
    assert set(files(tmp_path / "packed")) == set(files(folder)) - {"cut.tar", "lost.jpg"}
    done = CliRunner().invoke(command, [str(folder), str(tmp_path / "again")], standalone_mode=False)
    assert done.return_value == 1 and "not packed: cut.tar" in done.output


def test_a_disk_that_is_full_is_an_error_with_a_remedy(folder, tmp_path, monkeypatch):
    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.Writer, "complete", full)
    with pytest.raises(PipebenchError, match="No space left") as caught:
        pack(folder, tmp_path / "packed")
    assert "goes on where it stopped" in caught.value.remedy
    assert files(tmp_path / "packed") == {}


def test_what_was_written_is_read_back(folder, tmp_path, monkeypatch):
    sums = itertools.count()
    monkeypatch.setattr(writing, "crc32", lambda data: next(sums))
    with pytest.raises(PipebenchError, match="does not hold what was written"):
        pack(folder, tmp_path / "packed")


def test_the_gain_comes_from_the_same_boxes_in_turns(tmp_path, monkeypatch):
    monkeypatch.undo()
    images = {name: jpeg(7, 512, 512) for name in ("before", "after")}
    for name, data in images.items():
        (tmp_path / name).write_bytes(data)
    before, after = (sources.Extent(str(tmp_path / name), 0, len(data)) for name, data in images.items())
    now = [0.0]
    cost = {"usual": 8.0, "before": 4.0, "after": 1.0}
    boxes = {name: [] for name in cost}

    def way(name):
        def call(data, box):
            boxes[name].append(box)
            now[0] += cost[name]

        return call

    monkeypatch.setattr(gain, "_usually", way("usual"))
    monkeypatch.setattr(gain, "_region", lambda which: way(("before", "after")[which]))
    monkeypatch.setattr(gain, "BUDGET_S", 1e9)
    found = gain.measured([(before, after)], lambda: now[0])
    assert (found.usual_s, found.before_s, found.after_s, found.images) == (8.0, 4.0, 1.0, 1)
    assert found.over_usual.speedup == 8.0 and found.over_before.speedup == 4.0
    assert boxes["usual"] == boxes["before"] == boxes["after"] and len(boxes["usual"]) == gain.ROUNDS + 1
    small = tmp_path / "small"
    small.write_bytes(jpeg(1, 256, 512))
    assert gain.measured([(sources.Extent(str(small), 0, small.stat().st_size), after)]) is None


def test_pairs_are_spread_over_the_data():
    pairs = gain.Pairs()
    for index in range(1000):
        pairs.add(index, -index)
    assert gain.IMAGES <= len(pairs.kept) < 2 * gain.IMAGES
    steps = {after - before for (before, _), (after, _) in zip(pairs.kept, pairs.kept[1:], strict=False)}
    assert len(steps) == 1 and pairs.kept[0] == (0, 0)


@pytest.mark.parametrize(
    ("size", "number"), [("1G", 10**9), ("500M", 500 * 10**6), ("1.5kB", 1500), ("20", 20), ("2 MB", 2 * 10**6)]
)
def test_sizes(size, number, monkeypatch):
    from pipebench.commands import pack as module

    assert module._bytes(size) == number
    for wrong in ("0", "x", "-1", "1T5", "", "0.1"):
        with pytest.raises(UsageError):
            module._bytes(wrong)


def test_the_summary_says_what_was_done(folder, tmp_path):
    from pipebench.results.packing import CropGain, Packing
    from pipebench.stats import Speedup

    speedup = Speedup(13.1, 12.8, 13.4, 0.96)
    done = Packing(
        "packed", 1203, 1200, 360_000_000, 358_900_000, 9.31, {"progressive": 2, "CMYK": 1}, 1203, 200, 44e6, (),
        CropGain(16, 256, 5.47e-3, 1.62e-3, 0.417e-3, speedup, Speedup(3.9, 3.8, 4.0, 0.96)),
    )  # fmt: skip
    said = layout.text(packing.report(done), width=80)
    for words in (
        "1,200 images packed without loss: 360 MB before, 359 MB after (-0.3 %)",
        "200 of them were finished by an earlier run",
        "copied unchanged: 3 images",
        "  2: progressive",
        "copied as they are: 1,203 other files",
        "13.1× (12.8–13.4)",
    ):
        assert words in " ".join(said.split("\n")) or words in said, said
    assert max(map(len, said.splitlines())) <= 80
    assert "no image was packed" in layout.text(packing.report(Packing("there", 0, 0, 0, 0, 0.1)))
