"""What `pipebench pack` copies: links, earlier copies, tars of other types, and shards as others read them."""

import json
import os
import pathlib
import tarfile

import pytest
from click.testing import CliRunner
from test_pack import a_tar, files, folder, jpeg, members, no_timing, pack, pixels

from pipebench.commands.pack import command
from pipebench.errors import PipebenchError, UsageError
from pipebench.pack import gain, journal, sources

__all__ = ["folder", "no_timing"]  # fixtures


def test_links_to_folders_are_what_they_lead_to(folder, tmp_path):
    subset = tmp_path / "subset"
    (subset / "deep").mkdir(parents=True)
    os.symlink(folder / "cats", subset / "cats")
    os.symlink("../../source/dogs", subset / "deep" / "dogs")
    os.symlink("..", subset / "deep" / "around")
    os.symlink("itself", subset / "itself")
    result = pack(subset, tmp_path / "packed")
    assert set(files(tmp_path / "packed")) == {
        "cats/a.cls", "cats/a.jpg", "cats/b.JPG", "deep/dogs/c.jpg", "deep/dogs/d.jpg", "deep/dogs/e.png"
    }  # fmt: skip
    assert [bad.sample for bad in result.failures] == ["itself"] and not (tmp_path / "packed" / "cats").is_symlink()


@pytest.mark.parametrize("place", ["real/cats", "real/cats/packed"])
def test_it_never_writes_where_a_link_in_its_source_leads(folder, tmp_path, place):
    (tmp_path / "real" / "cats").mkdir(parents=True)
    os.symlink(tmp_path / "real" / "cats", folder / "more")
    with pytest.raises(UsageError, match="never written to"):
        sources.check_apart(str(folder), tmp_path / place)
    sources.check_apart(str(folder), tmp_path / "real" / "packed")


def test_a_folder_that_cannot_be_listed_is_an_error(folder, tmp_path, monkeypatch):
    listed = os.scandir

    def refused(path):
        if str(path).endswith("dogs"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PipebenchError, match="dogs cannot be listed: Permission denied"):
        sources.targets(str(folder))


def test_a_copy_can_be_packed_again(folder, tmp_path):
    pack(folder, tmp_path / "packed")
    result = pack(tmp_path / "packed", tmp_path / "again", segment=32)
    assert files(tmp_path / "again").keys() == files(folder).keys() and result.packed == 2
    noted = (tmp_path / "again" / journal.NAME).read_text()
    assert '"segment": 32' in noted and '"segment": 64' not in noted


def test_a_tar_keeps_the_contents_of_types_that_are_not_known(tmp_path):
    source = a_tar(tmp_path / "train.tar", {"0.jpg": jpeg(0), "1.jpg": jpeg(1), "2.txt": b"last"})
    data = bytearray(source.read_bytes())
    with tarfile.open(source) as tar:
        at = tar.getmember("1.jpg").offset
        header = tar.getmember("1.jpg").tobuf(tarfile.USTAR_FORMAT)
    unsigned = bytearray(header[:156] + b"Q" + header[157:])
    unsigned[148:156] = b"        "
    unsigned[148:156] = b"%06o\0 " % sum(unsigned)
    data[at : at + 512] = unsigned
    source.write_bytes(data)
    pack(source, tmp_path / "packed")
    with tarfile.open(tmp_path / "packed" / "train.tar") as tar:
        assert [one.name for one in tar] == ["folder", "0.jpg", "1.jpg", "2.txt"]
    assert members(tmp_path / "packed" / "train.tar")["2.txt"] == b"last"


def index(source, destination, size="1G"):
    done = CliRunner().invoke(command, [str(source), str(destination), "--shards", size], standalone_mode=False)
    assert done.exception is None, done.output
    return json.loads((destination / "index.json").read_text())["shardlist"]


def test_the_index_counts_the_samples_that_wids_finds(folder, tmp_path):
    for name in ("README", "cats/Makefile", "cats/a.seg.png"):
        (folder / name).write_bytes(b"no sample of its own")
    assert [row["nsamples"] for row in index(folder, tmp_path / "out")] == [5]


def test_samples_of_two_tars_are_two_samples(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        a_tar(tmp_path / "in" / f"{number}.tar", {"x.jpg": jpeg(number), "x.cls": b"%d" % number})
    rows = index(tmp_path / "in", tmp_path / "out")
    made = [members(tmp_path / "out" / row["url"]) for row in rows]
    assert [(row["nsamples"], one["x.cls"]) for row, one in zip(rows, made, strict=True)] == [(1, b"0"), (1, b"1")]
    assert [pixels(one["x.jpg"]) for one in made] == [pixels(jpeg(number)) for number in range(2)]


def test_an_image_that_pillow_cannot_open_does_not_end_the_run(folder, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(gain, "BUDGET_S", 0.0)
    data = jpeg(1)
    (folder / "cats" / "odd.jpg").write_bytes(data[:2] + b"\xff\x01" + data[2:])  # a marker that libjpeg passes over
    done = CliRunner().invoke(command, [str(folder), str(tmp_path / "out")], standalone_mode=False)
    assert done.exception is None and "3 images packed" in done.output and "on 2 images" in done.output


def test_a_single_image_is_no_source(folder):
    with pytest.raises(PipebenchError, match=r"a\.jpg is an image, and no folder"):
        sources.targets(str(folder / "cats" / "a.jpg"))


def test_a_signal_that_comes_as_a_file_is_opened_leaves_none(folder, tmp_path, monkeypatch):
    opened = pathlib.Path.open

    def interrupted(path, *mode):
        opened(path, *mode).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(pathlib.Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(folder, tmp_path / "packed")
    assert files(tmp_path / "packed") == {}
