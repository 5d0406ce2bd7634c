"""How data is named: patterns, single images, what is no image; and that a large folder is listed fast."""

import os

import pytest
from test_listing import JPEG, keys, write, write_tar

from pipebench.data.datasets import load
from pipebench.errors import PipebenchError


def test_a_pattern_with_a_star_names_shards_or_images_in_the_order_of_their_names(tmp_path):
    for number in (10, 2, 1):
        write_tar(tmp_path / f"s-{number:02d}.tar", (f"{number}.jpg", JPEG))
    write(tmp_path, "a/2.jpg", "a/10.JPG", "b/1.png", "b/1.json")
    assert keys(load(str(tmp_path / "s-*.tar"))) == keys(load(str(tmp_path / "{s,t}-*.tar"))) == ["1", "2", "10"]
    images = load(str(tmp_path / "*" / "*.[jJp][pPn][gG]"))
    assert keys(images) == ["a/10.JPG", "a/2.jpg", "b/1.png"] and images.samples[0].read() == JPEG
    assert keys(load(str(tmp_path / "**" / "2.jpg"))) == keys(load(str(tmp_path / "a/2.jpg"))) == ["2.jpg"]
    with pytest.raises(PipebenchError, match=r"neither a folder, an image nor a \.tar"):
        load(str(tmp_path / "b" / "*"))
    write(tmp_path, "[1].jpg")  # what exists is no pattern
    assert keys(load(str(tmp_path / "[1].jpg"))) == ["[1].jpg"]


@pytest.mark.parametrize("name", ["train.csv", "x.npy", "sound.wav"])
def test_other_data_is_pointed_to_watch(tmp_path, name):
    write(tmp_path, name, data=b"PAR1")
    suffix = name.rpartition(".")[2]
    for path, says in {tmp_path / name: "neither a folder", tmp_path: f"it holds 1 .{suffix}"}.items():
        with pytest.raises(PipebenchError) as caught:
            load(str(path))
        assert says in caught.value.problem
        assert "`pipebench watch train.py` measures the script that reads it" in caught.value.remedy
        assert max(map(len, caught.value.remedy.splitlines())) <= 88  # where no terminal says how wide it is


def test_a_folder_of_shards_says_how_to_name_them(tmp_path):
    write_tar(tmp_path / "a.tar", ("a.jpg", JPEG))
    with pytest.raises(PipebenchError) as caught:
        load(str(tmp_path))
    assert f"'{tmp_path}/*.tar'" in caught.value.remedy
    assert keys(load(f"{tmp_path}/*.tar")) == ["a"]


def test_each_entry_of_a_large_folder_costs_the_file_system_nothing(tmp_path, monkeypatch):
    """50,000 files are listed in seconds because each needs no call but its share of reading the folder."""
    write(tmp_path, *(f"{number}.jpg" for number in range(30)))
    asked = []
    for name in ("stat", "open", "lstat"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, real=real, **rest: asked.append(args) or real(*args, **rest))
    assert len(load(str(tmp_path)).samples) == 30
    assert len(asked) < 10


@pytest.mark.slow
def test_50_000_files_are_listed(tmp_path):
    write(tmp_path, "0/0.jpg")
    for number in range(1, 50_000):
        (tmp_path / f"{number % 50}").mkdir(exist_ok=True)
        os.link(tmp_path / "0/0.jpg", tmp_path / f"{number % 50}/{number}.jpg")
    assert len(load(str(tmp_path)).samples) == 50_000
