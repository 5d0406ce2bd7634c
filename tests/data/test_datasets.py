"""Embedded datasets: built once, verified at every use, rebuilt when wrong, safe when two build at once."""

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from pipebench.data import datasets
from pipebench.errors import PipebenchError, UsageError
from pipebench.native import packing

COUNT = 5


def tiny(cache, **options):
    return datasets.load("tiny", **{"limit": COUNT, "cache": cache} | options)


def built(cache):
    (folder,) = (cache / "datasets").glob("tiny-*")
    return folder


def snapshot(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def inode(cache):
    return built(cache).stat().st_ino


def test_the_manifests():
    assert datasets.names() == ["photos", "synthetic", "tiny", "web"]


def test_building_is_deterministic(tmp_path):
    tiny(tmp_path / "a")
    tiny(tmp_path / "b")
    assert snapshot(built(tmp_path / "a")) == snapshot(built(tmp_path / "b"))


def test_the_packed_copy_has_the_same_samples_with_markers_in_their_images(tmp_path):
    plain, packed = tiny(tmp_path), datasets.load("tiny-packed", limit=COUNT, cache=tmp_path)
    assert packed.name == "tiny-packed" and packed.by_key().keys() == plain.by_key().keys()
    for key, sample in packed.by_key().items():
        before = plain.by_key()[key]
        assert sample.read() == packing.pack(before.read()) != before.read()
        assert sample.read_member("cls") == before.read_member("cls")
    assert datasets.image_bytes(packed) == sum(len(sample.read()) for sample in packed.samples)
    with pytest.raises(PipebenchError, match="does not exist"):
        datasets.load("nosuch-packed", cache=tmp_path)


def test_an_index_is_stable_whatever_the_count(tmp_path):
    few, more = tiny(tmp_path, limit=2), tiny(tmp_path, limit=4)
    assert [sample.read() for sample in few.samples] == [sample.read() for sample in more.samples[:2]]
    assert few.samples[0].read() == more.by_key()["000000"].read()


def test_more_than_the_default_can_be_asked_for(tmp_path):
    dataset = tiny(tmp_path, limit=70)
    assert len(dataset.samples) == 70
    assert [len(shard.keys) for shard in dataset.shards] == [64, 6]


def test_loose_files_shards_and_index_hold_the_same_bytes(tmp_path):
    dataset = tiny(tmp_path, limit=66)
    samples = dataset.by_key()
    for shard in dataset.shards:
        assert shard.complete
        with tarfile.open(shard.path) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}
        assert list(dict.fromkeys(name.partition(".")[0] for name in members)) == list(shard.keys)
        for key in shard.keys:
            sample = samples[key]
            assert sample.tar_key == key and set(sample.files) == set(sample.extents) == {"jpg", "cls"}
            for suffix, extent in sample.extents.items():
                loose = Path(sample.files[suffix]).read_bytes()
                placed = Path(extent.path).read_bytes()[extent.offset : extent.offset + extent.size]
                assert loose == placed == members[f"{key}.{suffix}"]


def test_a_shard_lists_as_the_index_says(tmp_path):
    embedded = tiny(tmp_path)
    listed = datasets.load(embedded.shards[0].path)
    assert [(s.key, s.image, s.extents, s.tar_key) for s in listed.samples] == [
        (s.key, s.image, s.extents, s.tar_key) for s in embedded.samples
    ]
    assert listed.shards == embedded.shards and not listed.problems


def test_a_second_use_builds_nothing(tmp_path):
    calls = []
    tiny(tmp_path, progress=lambda *call: calls.append(call))
    assert calls[0] == (0, COUNT, "building tiny") and calls[-1] == (COUNT, COUNT, "building tiny")
    first, calls[:] = inode(tmp_path), []
    tiny(tmp_path, progress=lambda *call: calls.append(call))
    assert inode(tmp_path) == first and not calls


def flip_a_byte(folder, file="000001.jpg"):
    path = next(folder.rglob(file))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


def flip_a_byte_of_the_shard(folder):
    flip_a_byte(folder, "*.tar")


def delete_a_file(folder):
    next(folder.rglob("000001.cls")).unlink()


def truncate_the_manifest(folder):
    path = folder / "manifest.sha256"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))


def empty_the_manifest(folder):
    (folder / "manifest.sha256").write_bytes(b"")


def change_the_index(folder):
    path = folder / "index.tsv"
    path.write_text(path.read_text().replace("512", "513", 1))


def put_a_fifo_in_place(folder):
    path = next(folder.rglob("000001.jpg"))
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil",
    [
        flip_a_byte, flip_a_byte_of_the_shard, delete_a_file, truncate_the_manifest, empty_the_manifest,
        change_the_index, put_a_fifo_in_place,
    ],
)  # fmt: skip
def test_what_is_wrong_is_rebuilt(tmp_path, spoil):
    before = tiny(tmp_path)
    whole, first = snapshot(built(tmp_path)), inode(tmp_path)
    spoil(built(tmp_path))
    assert tiny(tmp_path) == before
    assert snapshot(built(tmp_path)) == whole and inode(tmp_path) != first
    assert sorted(os.listdir(tmp_path / "datasets")) == [".lock", built(tmp_path).name]


def test_that_files_were_altered_is_said(tmp_path):
    said = set()
    tiny(tmp_path)
    flip_a_byte(built(tmp_path))
    tiny(tmp_path, progress=lambda done, total, what: said.add(what))
    assert said == {"building tiny again, because its files were altered"}


def test_a_photograph_that_was_altered_is_refused(tmp_path, monkeypatch):
    altered = tmp_path / "datasets"
    shutil.copytree(datasets.manifests(), altered)
    monkeypatch.setattr(datasets, "manifests", lambda: altered)
    photograph = altered / "photographs/honey-bee.jpg"
    photograph.write_bytes(photograph.read_bytes()[:-1] + b"?")
    with pytest.raises(PipebenchError) as caught:
        tiny(tmp_path / "cache")
    assert "honey-bee.jpg was altered" in caught.value.problem and "git checkout" in caught.value.remedy
    assert datasets.load("synthetic", limit=1, cache=tmp_path / "cache").samples  # it needs none


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def interrupt(done, total, what):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny(tmp_path, progress=interrupt)
    assert os.listdir(tmp_path / "datasets") == []
    assert len(tiny(tmp_path).samples) == COUNT


def test_what_a_killed_build_left_is_swept_after_a_day(tmp_path):
    old, recent = tmp_path / "datasets/.building-tiny-old", tmp_path / "datasets/.building-tiny-recent"
    for folder in (old, recent):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"x")
    os.utime(old, (0, 0))
    tiny(tmp_path)
    assert not old.exists() and recent.exists()


def test_two_processes_may_build_at_once(tmp_path):
    code = (
        "import sys; from pathlib import Path; from pipebench.data import datasets;"
        f"d = datasets.load('tiny', limit={COUNT}, cache=Path(sys.argv[1]));"
        "import hashlib; print(hashlib.sha256(b''.join(s.read() for s in d.samples)).hexdigest())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {builder.communicate(timeout=60)[0].strip() for builder in builders}
    assert [builder.returncode for builder in builders] == [0, 0]
    expected = hashlib.sha256(b"".join(sample.read() for sample in tiny(tmp_path).samples)).hexdigest()
    assert said == {expected}
    assert sorted(os.listdir(tmp_path / "datasets")) == [".lock", built(tmp_path).name]


def test_a_build_that_comes_second_keeps_the_first(tmp_path):
    def build_meanwhile(done, total, what):
        if done == 0:
            tiny(tmp_path)

    tiny(tmp_path, progress=build_meanwhile)
    assert len(list((tmp_path / "datasets").glob("tiny-*"))) == 1


def test_a_cache_that_cannot_be_written_to_is_the_users_to_mend(tmp_path):
    (tmp_path / "datasets").write_text("in the way")
    with pytest.raises(PipebenchError) as caught:
        tiny(tmp_path)
    assert "tiny cannot be built" in caught.value.problem and "PIPEBENCH_CACHE" in caught.value.remedy


def test_a_full_disk_is_the_users_to_mend(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PipebenchError, match="No space left on device"):
        tiny(tmp_path)
    assert os.listdir(tmp_path / "datasets") == []


def test_the_environment_names_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path / "chosen"))
    datasets.load("tiny", limit=1)
    assert built(tmp_path / "chosen").is_dir()


def test_a_limit_below_one_is_refused(tmp_path):
    with pytest.raises(
        PipebenchError, match=r"^A limit of 0 samples leaves nothing to measure\.\nGive a limit of at least 1\.$"
    ):
        tiny(tmp_path, limit=0)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(PipebenchError) as caught:
        datasets.load("fotos")
    assert isinstance(caught.value, UsageError)
    assert "fotos does not exist" in caught.value.problem and "photos, synthetic, tiny, web" in caught.value.remedy


@pytest.fixture(scope="module")
def bits(cache):
    """Facts of 24 photographs and 24 synthetic images."""
    return {name: datasets.describe(datasets.load(name, limit=24)) for name in ("photos", "synthetic")}


def test_photographs_have_the_bits_per_pixel_of_real_ones(bits):
    facts = bits["photos"]
    assert (facts.images, facts.described) == (24, 24)
    assert facts.mean_pixels == 800 * 533
    assert 1.7 < facts.bits_per_pixel < 2.3
    assert 0.3 < facts.bits_per_pixel_sd < 0.6


def test_synthetic_images_cost_what_the_photographs_do(bits):
    ratio = bits["synthetic"].bits_per_pixel / bits["photos"].bits_per_pixel
    assert 0.85 < ratio < 1.15
    assert bits["synthetic"].bits_per_pixel_sd > 0.2


def test_facts_are_computed_from_the_files(tmp_path):
    dataset = tiny(tmp_path)
    lengths = [len(sample.read()) for sample in dataset.samples]
    facts = datasets.describe(dataset)
    assert facts.mean_bytes == statistics.fmean(lengths)
    assert facts.bits_per_pixel == pytest.approx(8 * statistics.fmean(lengths) / (320 * 272))


def test_a_thumbnail_does_not_spoil_the_bits_per_pixel(tmp_path):
    """A file of 1×1 pixel is all header, thousands of bits for its pixel: bits and pixels are added up instead."""
    lengths = []
    for name, size in (("a", (640, 480)), ("b", (640, 480)), ("c", (1, 1))):
        Image.effect_noise(size, 40).save(tmp_path / f"{name}.jpg")
        lengths.append((tmp_path / f"{name}.jpg").stat().st_size)
    facts = datasets.describe(datasets.load(str(tmp_path)))
    assert facts.bits_per_pixel == pytest.approx(8 * sum(lengths) / (2 * 640 * 480 + 1))
    assert facts.bits_per_pixel < 10 and facts.bits_per_pixel_sd < 10
    (tmp_path / "c.jpg").unlink()
    facts = datasets.describe(datasets.load(str(tmp_path)))
    of_each = [8 * length / (640 * 480) for length in lengths[:2]]
    assert facts.bits_per_pixel_sd == pytest.approx(statistics.stdev(of_each))


def test_a_folder_that_has_the_name_of_an_embedded_dataset_is_pointed_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert datasets.shadowed("photos") is None
    (tmp_path / "photos").mkdir()
    assert "./photos" in datasets.shadowed("photos")
    assert datasets.shadowed("./photos") is None and datasets.shadowed("tiny") is None


def test_loading_imports_no_heavy_library(tmp_path):
    tiny(tmp_path)
    code = (
        "import sys; from pathlib import Path; from pipebench.data import datasets;"
        f"datasets.load('tiny', limit={COUNT}, cache=Path(sys.argv[1]));"
        "assert not {'numpy', 'PIL', 'torch'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
