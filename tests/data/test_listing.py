"""The user's own data: listed in order, never opened unless regular, inert in name, and honest about what is lost."""

import gzip
import io
import os
import shlex
import socket
import tarfile

import pytest
from in_memory import encoded_image
from soon import within

from pipebench.data import listing
from pipebench.data.datasets import describe, load
from pipebench.errors import PipebenchError, SampleError


@pytest.fixture(autouse=True)
def never_hangs():
    """A FIFO that is opened would block for ever: fail instead."""
    with within(20):
        yield


JPEG = encoded_image("JPEG", (16, 8))


def write(folder, *names, data=JPEG):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_tar(path, *members, format=tarfile.PAX_FORMAT):
    """A tar of (name, data) pairs and whole TarInfo objects."""
    with tarfile.open(path, "w", format=format) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return str(path)


def keys(dataset):
    return [sample.key for sample in dataset.samples]


def problems(dataset):
    return {sample.key: sample.problem.kind for sample in dataset.samples if sample.problem}


# --- folders


def test_a_folder_is_listed_in_the_order_of_bytes_with_every_suffix_of_torchvision(tmp_path):
    from torchvision.datasets.folder import IMG_EXTENSIONS

    assert ["." + suffix for suffix in listing.IMAGE_SUFFIXES] == list(IMG_EXTENSIONS)
    write(tmp_path, "b/2.JPG", "b/10.jpg", "a/z.WebP", "B.jpeg", "note.md", "a/deep/er/x.png")
    dataset = load(str(tmp_path))
    assert keys(dataset) == ["B.jpeg", "a/deep/er/x.png", "a/z.WebP", "b/10.jpg", "b/2.JPG"]
    assert dataset == load(str(tmp_path)) and not dataset.shards and not dataset.problems
    assert all(sample.read() == JPEG for sample in dataset.samples)
    assert keys(load(str(tmp_path), limit=2)) == keys(dataset)[:2]


def test_companions_share_the_stem(tmp_path):
    write(tmp_path, "a.JPG", "a.json", "a.TXT", "b.jpg", "a.b.json", "a.png")
    os.mkfifo(tmp_path / "b.cls")
    by_key = load(str(tmp_path)).by_key()
    assert by_key["a.JPG"].image == "jpg"
    assert set(by_key["a.JPG"].files) == {"jpg", "json", "txt"}
    assert set(by_key["a.png"].files) == {"png", "json", "txt"}
    assert set(by_key["b.jpg"].files) == {"jpg"}
    assert by_key["a.JPG"].read_member("txt") == JPEG


def test_what_is_not_a_regular_file_is_a_bad_sample_and_never_opened(tmp_path):
    write(tmp_path, "good.jpg", "elsewhere/target.png", "folder.jpg/inside.jpg")
    os.mkfifo(tmp_path / "fifo.jpg")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket.jpg"))
    (tmp_path / "device.jpg").symlink_to("/dev/zero")
    (tmp_path / "dangling.jpg").symlink_to("nowhere")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "link.jpg").symlink_to("elsewhere/target.png")
    dataset = load(str(tmp_path))
    assert problems(dataset) == {
        "dangling.jpg": "vanished", "device.jpg": "not-regular", "fifo.jpg": "not-regular",
        "folder.jpg": "not-regular", "loop.jpg": "unreadable", "socket.jpg": "not-regular",
    }  # fmt: skip
    by_key = dataset.by_key()
    assert by_key["link.jpg"].read() == by_key["good.jpg"].read() == JPEG
    with pytest.raises(SampleError, match="a FIFO"):
        by_key["fifo.jpg"].read()


def test_linked_folders_are_followed_but_entered_once(tmp_path):
    write(tmp_path, "data/z/1.jpg")
    write(tmp_path / "outside", "2.jpg")
    (tmp_path / "data/a").symlink_to("z")
    (tmp_path / "data/z/up").symlink_to("..")
    (tmp_path / "data/linked").symlink_to("../outside")
    assert keys(load(str(tmp_path / "data"))) == ["linked/2.jpg", "z/1.jpg"]


def test_a_folder_that_cannot_be_listed_is_a_record(tmp_path, monkeypatch):
    write(tmp_path, "a/1.jpg", "b/2.jpg")
    scandir = os.scandir

    def refuse_a(path):
        if str(path) == str(tmp_path / "a"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(listing.os, "scandir", refuse_a)
    dataset = load(str(tmp_path))
    (record,) = dataset.problems
    assert keys(dataset) == ["b/2.jpg"]
    assert (record.sample, record.kind) == (str(tmp_path / "a"), "unreadable")
    assert "Permission denied" in record.message
    with pytest.raises(PipebenchError, match="holds no image: the folder cannot be listed: Permission denied"):
        load(str(tmp_path / "a"))


def test_names_are_inert_and_unique(tmp_path):
    root = os.fsencode(tmp_path)
    (tmp_path / "[").mkdir()
    names = [b"new\nline.jpg", b"new\\nline.jpg", b"\x1b[31mred.jpg", b"\xff\xfe.jpg", b"[/x].jpg", "ü.jpg".encode()]
    for name in names:
        with open(os.path.join(root, name), "wb") as file:
            file.write(JPEG)
    dataset = load(str(tmp_path))
    assert sorted(keys(dataset)) == sorted(
        ["new\\nline.jpg", "new\\nline.jpg#2", "\\x1b[31mred.jpg", "\\xff\\xfe.jpg", "[/x].jpg", "ü.jpg"]
    )
    assert all(key.isprintable() for key in keys(dataset))
    assert all(sample.read() == JPEG for sample in dataset.samples)


def test_a_folder_without_images_says_what_it_looked_for(tmp_path):
    write(tmp_path, "readme.txt")
    with pytest.raises(PipebenchError) as caught:
        load(str(tmp_path))
    assert str(tmp_path) in caught.value.problem
    assert all("." + suffix in caught.value.remedy for suffix in listing.IMAGE_SUFFIXES)


@pytest.mark.parametrize(
    "names",
    [
        ("s0.tar", "s1.tar"), ("deep/er/s0.tar", "s1.tar"), ("s0.TAR", "s1.TAR"), ("s0.Tar", "d/s1.tar"),
        ("s[0].tar",), ("[a]/s0.tar", "[b]/s1.tar"), (".hidden.tar",),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("folder", ["plain", "a [b] c", "it's", "{a,b}", "*", "new\nline"])
def test_the_pattern_that_is_named_for_a_folder_of_tars_names_them(tmp_path, folder, names):
    for number, name in enumerate(names):
        (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_tar(tmp_path / folder / name, (f"{number}.jpg", JPEG))
    with pytest.raises(PipebenchError) as caught:
        load(str(tmp_path / folder))
    typed = caught.value.remedy.removeprefix("Name its shards: ").removesuffix(" (with the quotes).")
    if folder != "new\nline" or names != (".hidden.tar",):  # a path that cannot be typed, and no pattern fits
        assert len(load(*shlex.split(typed)).samples) == len(names)


def test_reading_tells_what_is_wrong(tmp_path):
    write(tmp_path, "gone.jpg", "swapped.jpg")
    write(tmp_path, "empty.jpg", data=b"")
    by_key = load(str(tmp_path)).by_key()
    (tmp_path / "gone.jpg").unlink()
    (tmp_path / "swapped.jpg").unlink()
    os.mkfifo(tmp_path / "swapped.jpg")
    for key, kind in {"gone.jpg": "vanished", "swapped.jpg": "not-regular", "empty.jpg": "empty"}.items():
        with pytest.raises(SampleError) as caught:
            by_key[key].read()
        assert caught.value.kind == kind
    assert describe(load(str(tmp_path))).described == 0


def test_a_file_that_turns_into_a_fifo_between_check_and_opening_does_not_block(tmp_path, monkeypatch):
    write(tmp_path, "a.jpg")
    regular = os.stat(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").unlink()
    os.mkfifo(tmp_path / "a.jpg")
    monkeypatch.setattr(listing.os, "stat", lambda path: regular)
    with pytest.raises(SampleError, match="a FIFO"):
        listing.read_file(str(tmp_path / "a.jpg"))


# --- shards


def test_members_are_grouped_as_webdataset_groups_them(tmp_path):
    path = write_tar(
        tmp_path / "s.tar",
        ("__meta__/x.jpg", b"x"), ("b/1.jpg", JPEG), ("b/1.SEG.png", b"s"), ("b/1.json", b"{}"),
        ("a/1.cls", b"7"), ("a/1.jpg", JPEG), ("nodot", b"x"), (".hidden", b"x"), ("2.thumb.jpg", JPEG),
        ("3.txt", b"x"),
    )  # fmt: skip
    dataset = load(path)
    assert keys(dataset) == ["b/1", "a/1", "2"]
    assert [sample.image for sample in dataset.samples] == ["jpg", "jpg", "thumb.jpg"]
    assert list(dataset.samples[0].extents) == ["jpg", "seg.png", "json"]
    assert dataset.by_key()["a/1"].read_member("cls") == b"7"
    assert [record.kind for record in dataset.problems] == ["no-image"]
    assert dataset.shards == (listing.Shard(path, ("b/1", "a/1", "2"), True),)


def test_keys_and_members_agree_with_webdataset(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    path = write_tar(tmp_path / "s.tar", ("a/0.jpg", JPEG), ("a/0.cls", b"1"), ("b.jpg", JPEG), ("c.d.jpg", JPEG))
    theirs = list(webdataset.WebDataset(path, shardshuffle=False))
    ours = load(path).samples
    assert [sample["__key__"] for sample in theirs] == [sample.tar_key for sample in ours]
    assert [sample[mine.image] for sample, mine in zip(theirs, ours, strict=True)] == [s.read() for s in ours]


def test_members_that_are_not_files_are_bad_samples(tmp_path):
    link, folder = tarfile.TarInfo("link.jpg"), tarfile.TarInfo("folder")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    folder.type = tarfile.DIRTYPE
    path = write_tar(tmp_path / "s.tar", folder, ("a.jpg", JPEG), link, ("b.jpg", JPEG), ("b.jpg", JPEG))
    assert problems(load(path)) == {"link": "not-regular", "b": "duplicate"}
    assert load(path).shards[0].keys == ("a", "link", "b")


def test_long_and_hostile_names(tmp_path):
    names = ["x" * 300, "new\nline", "\x1b]0;title\x07", "[/x]", "../../escape", "/absolute", "\udcff"]
    for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = write_tar(tmp_path / "s.tar", *[(name + ".jpg", JPEG) for name in names], format=format)
        dataset = load(path)
        assert len(dataset.samples) == len(names)
        assert all(key.isprintable() for key in keys(dataset))
        assert all(sample.read() == JPEG for sample in dataset.samples)
        assert dataset.samples[0].tar_key == names[0]
        assert os.listdir(tmp_path) == ["s.tar"]


def test_a_brace_pattern_names_shards_and_equal_keys_stay_apart(tmp_path):
    for number in range(3):
        write_tar(tmp_path / f"s-{number:03d}.tar", ("0.jpg", JPEG), ("1.jpg", JPEG))
    pattern = str(tmp_path / "s-{000..002}.tar")
    dataset = load(pattern)
    assert keys(dataset) == ["0", "1", "0#2", "1#2", "0#3", "1#3"]
    assert [sample.tar_key for sample in dataset.samples] == ["0", "1"] * 3
    assert [shard.keys for shard in dataset.shards] == [("0", "1"), ("0#2", "1#2"), ("0#3", "1#3")]
    cut = load(pattern, limit=3)
    assert keys(cut) == ["0", "1", "0#2"] and len(cut.shards) == 2


def test_a_shard_cut_inside_a_member(tmp_path):
    path = write_tar(tmp_path / "s.tar", ("a.jpg", JPEG), ("b.jpg", JPEG), ("b.cls", b"1"))
    before = load(path).samples[1]
    os.truncate(path, before.extents["jpg"].offset + 100)
    with pytest.raises(SampleError, match="truncated"):
        before.read()
    dataset = load(path)
    assert problems(dataset) == {"b": "truncated"} and not dataset.shards[0].complete
    assert dataset.samples[1].problem.message == "truncated: the shard ends inside this member"
    assert [record.kind for record in dataset.problems] == ["incomplete-shard"]
    assert dataset.samples[0].read() == JPEG


@pytest.mark.parametrize("extra", [0, 100])
def test_a_shard_cut_at_the_border_of_a_member_or_inside_a_header(tmp_path, extra):
    path = write_tar(tmp_path / "s.tar", ("a.jpg", JPEG), ("b.jpg", JPEG))
    os.truncate(path, load(path).samples[1].extents["jpg"].offset - tarfile.BLOCKSIZE + extra)
    dataset = load(path)
    assert keys(dataset) == ["a"] and not problems(dataset)
    assert dataset.shards == (listing.Shard(path, ("a",), False),)
    (record,) = dataset.problems
    assert (record.stage, record.sample, record.kind) == ("list", path, "incomplete-shard")
    assert "incomplete shard" in record.message


def test_garbage_after_members_is_a_record_and_garbage_alone_an_error(tmp_path):
    path = str(tmp_path / "s.tar")
    (tmp_path / "s.tar").write_bytes(whole_member(tmp_path) + b"garbage " * 500)
    dataset = load(path)
    assert keys(dataset) == ["a"] and not dataset.shards[0].complete and len(dataset.problems) == 1
    write(tmp_path, "g.tar", data=b"garbage " * 500)
    with pytest.raises(PipebenchError, match="no image"):
        load(str(tmp_path / "g.tar"))
    both = load(str(tmp_path / "{s,g}.tar"))
    assert keys(both) == ["a"] and len(both.problems) == 2


def whole_member(tmp_path):
    """The bytes of a tar up to the end of its only member."""
    path = write_tar(tmp_path / "whole.tar", ("a.jpg", JPEG))
    with open(path, "rb") as file:
        return file.read(512 + -(-len(JPEG) // 512) * 512)


def header(kind, size_field):
    """A USTAR header of the type `kind` whose size is the raw field `size_field`."""
    info = tarfile.TarInfo("b.jpg")
    info.type = kind
    raw = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    raw[124:136] = size_field
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE])
@pytest.mark.parametrize(
    "size_field",
    [b"\x80" + b"\x00" * 3 + b"\x7f" * 8, b"\xff" * 10 + b"\xf0\x00", b"77777777777\0", b"99999999999\0"],
    ids=["exabytes", "negative", "8-GiB", "not-octal"],
)
def test_impossible_sizes_neither_loop_nor_allocate(tmp_path, kind, size_field):
    write(tmp_path, "s.tar", data=whole_member(tmp_path) + header(kind, size_field) + b"x" * 512)
    dataset = load(str(tmp_path / "s.tar"))
    assert dataset.samples[0].read() == JPEG
    assert not dataset.shards[0].complete and len(dataset.samples) <= 2


def test_long_chains_of_long_names_do_not_end_the_listing(tmp_path):
    link = tarfile.TarInfo("././@LongLink")
    link.type, link.size = tarfile.GNUTYPE_LONGNAME, 512
    chain = (link.tobuf(tarfile.GNU_FORMAT) + b"x" * 512) * 3000
    write(tmp_path, "s.tar", data=whole_member(tmp_path) + chain)
    assert keys(load(str(tmp_path / "s.tar"))) == ["a"]


def test_compressed_tars_are_to_be_decompressed(tmp_path):
    for name in ("s.tar.gz", "s.tgz", "misnamed.tar"):
        (tmp_path / name).write_bytes(gzip.compress(whole_member(tmp_path)))
        with pytest.raises(PipebenchError) as caught:
            load(str(tmp_path / name))
        assert "compressed (gzip)" in caught.value.problem and "Decompress" in caught.value.remedy


def test_what_is_no_data_is_an_error(tmp_path):
    write(tmp_path, "note.md")
    os.mkfifo(tmp_path / "fifo.tar")
    write_tar(tmp_path / "empty.tar")
    write_tar(tmp_path / "s-0.tar", ("a.jpg", JPEG))
    for path, says in {
        "note.md": "neither a folder, an image nor a .tar", "fifo.tar": "a FIFO", "empty.tar": "holds no image",
        "missing": "does not exist", "missing/": "does not exist", "s-{0..1}.tar": "no such file",
        "s-{0..200000}.tar": "more than 100,000 files", "{": "is not a brace pattern", "*.webp": "No file fits",
    }.items():  # fmt: skip
        with pytest.raises(PipebenchError) as caught:
            load(str(tmp_path / path))
        assert says in caught.value.problem, path


def test_nothing_of_the_users_is_changed(tmp_path):
    write(tmp_path, "a/1.jpg", "a/1.json")
    path = write_tar(tmp_path / "a/s.tar", ("a.jpg", JPEG))

    def state():
        return {entry: (entry.stat().st_mtime_ns, entry.stat().st_size) for entry in tmp_path.rglob("*")}

    before = state()
    describe(load(str(tmp_path)))
    describe(load(path))
    assert state() == before
