"""`pipebench check`: every kind of finding on a real file, nothing on good ones, and bounded in memory and text."""

import io
import os
import sys
import tarfile
import threading

import numpy as np
import pytest
from broken import FILES, JPEG, PNG, encoded, turned, write
from click.testing import CliRunner
from PIL import Image, ImageOps

from pipebench import terminal
from pipebench.check import decoding, kinds, whole
from pipebench.commands.check import command
from pipebench.data import datasets
from pipebench.data.listing import Dataset, Sample
from pipebench.errors import SampleError
from pipebench.render import layout, text
from pipebench.results import report
from pipebench.results.check import Found
from pipebench.task import Variant

PAIR, LONELY = (("jpg", JPEG), ("json", b"{}")), ("x.json", b"{}")
DECODERS = decoding.installed(("pillow", "opencv", "simplejpeg"))  # without torch


def check(path, decoders=DECODERS, progress=lambda done, total, what: None):
    return whole.check(datasets.load(str(path)), decoders, progress)[0]


def names(found):
    return {one.kind: {f.name for f in one.found} for one in found.findings}


def write_tar(path, *members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return check(write(tmp_path_factory.mktemp("broken"), FILES))


def test_every_kind_is_found_on_its_file_and_on_no_other(broken):
    assert names(broken) == {
        "truncated": {"cut.jpg"},
        "empty": {"empty.jpg"},
        "not-an-image": {"page.jpg", "pointer.jpg"},
        "extension": {"png.jpg"},
        "damaged": {"extraneous.jpg", "made_up.jpg"},
        "orientation": {"upside_down.jpg", "side.jpg"},
        "cmyk": {"cmyk.jpg"},
        "deep": {"deep.png"},
        "grey": {"grey.jpg"},
        "palette": {"palette.png"},
        "transparent": {"clear.png"},
        "animated": {"moving.webp"},
    }
    details = {f.name: f.detail for one in broken.findings for f in one.found}
    assert details["page.jpg"] == "HTML" and "Git LFS" in details["pointer.jpg"]
    assert "extraneous bytes" in details["extraneous.jpg"] and details["png.jpg"] == "PNG"
    assert (broken.looked, broken.harmful) == (len(FILES), 10) and broken.does_harm


def test_good_files_are_no_finding(tmp_path):
    found = check(write(tmp_path, {"a.jpg": JPEG, "b.png": PNG, "c.webp": encoded("WEBP"), "d.bmp": encoded("BMP")}))
    assert found.findings == () and not found.does_harm and found.harmful == 0


def test_notes_alone_do_no_harm(tmp_path):
    found = check(write(tmp_path, {"grey.jpg": FILES["grey.jpg"]}))
    assert names(found) == {"grey": {"grey.jpg"}} and not found.does_harm


def decoders(**changes):
    """Pillow, and decoders that change its pixels."""
    (pillow,) = decoding.installed(("pillow",)).built
    others = [
        (Variant("decode/rgb", name, lambda workload: None), lambda given, change=change: change(pillow[1](given)))
        for name, change in changes.items()
    ]
    return decoding.Decoders((pillow, *others))


def test_a_decoder_that_disagrees_is_said_with_how_much(tmp_path):
    write(tmp_path, {"a.jpg": JPEG})
    found = check(tmp_path, decoders(same=lambda pixels: pixels, swapped=lambda pixels: pixels[:, :, ::-1]))
    (one,) = found.findings
    assert (one.kind, one.effect) == ("disagree", "changes")
    assert one.found[0].detail.startswith("swapped: it differs from the reference by ")


@pytest.mark.parametrize("lacking", [MemoryError("no memory"), ImportError("partially initialized")])
def test_what_the_machine_lacks_says_nothing_of_an_image(tmp_path, lacking):
    def fails(pixels):
        raise lacking

    write(tmp_path, {"a.jpg": JPEG})
    assert check(tmp_path, decoders(fails=fails)).findings == ()


@pytest.mark.parametrize("orientation", range(2, 9))
def test_a_decoder_that_turns_an_image_is_no_disagreement_and_the_file_is_good(tmp_path, orientation):
    """Pillow itself says what turned means. What differs after turning is a disagreement."""

    def turning(pixels):
        image = Image.fromarray(pixels)
        image.getexif()[0x0112] = orientation
        return np.asarray(ImageOps.exif_transpose(image))

    write(tmp_path, {"a.jpg": turned(orientation)})
    found = check(tmp_path, decoders(honours=turning))
    (one,) = found.findings
    assert (one.kind, one.found[0].detail) == ("orientation", f"orientation {orientation}; honours turns it")
    assert (one.effect, found.does_harm, found.harmful) == ("note", False, 0)
    if orientation > 4:  # the shape alone shows that it was turned
        worse = check(tmp_path, decoders(swaps=lambda pixels: turning(pixels)[:, :, ::-1]))
        (detail,) = (one.found[0].detail for one in worse.findings if one.kind == "disagree")
        assert detail.startswith("swaps: turned as its EXIF says, it differs from the reference") and worse.does_harm


def test_a_tar_is_checked_for_members_and_keys(tmp_path):
    members = [(f"{n:02d}.{suffix}", data) for n in range(12) for suffix, data in (("jpg", JPEG), ("json", b"{}"))]
    members.remove(("05.json", b"{}"))
    write_tar(tmp_path / "a.tar", *members, ("lonely.json", b"{}"))
    write_tar(tmp_path / "b.tar", ("00.jpg", PNG), ("00.json", b"{}"))
    whole_tar = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "c.tar").write_bytes(whole_tar[: len(whole_tar) - 10240 + 512])
    found = check(tmp_path / "*.tar")
    details = {(one.kind, f.name): f.detail for one in found.findings for f in one.found}
    assert details["lacks", "05"] == "no .json"
    assert ("extension", "00#2") in details
    assert any(kind == "no-image" for kind, _ in details)


def test_a_key_that_comes_again_in_a_shard_is_found_and_one_of_another_shard_is_its_own(tmp_path):
    """webdataset makes one sample of neighbours with one key, and never of members of two shards."""
    for name in ("a.tar", "b.tar"):
        write_tar(tmp_path / name, *((f"{n}.{suffix}", data) for n in range(3) for suffix, data in PAIR))
    assert check(tmp_path / "*.tar").findings == ()
    path = write_tar(tmp_path / "c.tar", *((f"{n}.{suffix}", data) for n in (0, 1, 0) for suffix, data in PAIR))
    (one,) = check(tmp_path / "*.tar").findings
    assert (one.kind, one.effect, one.found) == ("same-key", "changes", (Found("0#4", f"again in {path}"),))
    limited = datasets.load(str(path), limit=2)
    assert whole.check(limited, DECODERS, lambda done, total, what: None)[0].findings == ()


def test_a_shard_that_was_cut_is_found(tmp_path):
    path = write_tar(tmp_path / "a.tar", ("a.jpg", JPEG), ("b.jpg", JPEG))
    os.truncate(path, 512 + -(-len(JPEG) // 512) * 512 + 512 + 20)
    assert names(check(path)) == {"incomplete-shard": {str(path)}, "cut-member": {"b"}}


def test_what_is_no_file_is_found_and_never_opened(tmp_path):
    write(tmp_path, {"good.jpg": JPEG})
    os.mkfifo(tmp_path / "fifo.jpg")
    (tmp_path / "link.jpg").symlink_to("nowhere")
    assert names(check(tmp_path)) == {"unreadable": {"fifo.jpg", "link.jpg"}}


def test_a_file_too_large_to_be_an_image_is_not_read(tmp_path, monkeypatch):
    write(tmp_path, {"a.jpg": JPEG})
    os.truncate(tmp_path / "a.jpg", whole.MOST_BYTES + 1)
    monkeypatch.setattr("pipebench.data.listing.Sample.read", lambda self: pytest.fail("it was read"))
    assert names(check(tmp_path)) == {"too-large": {"a.jpg"}}


def test_hostile_names_are_inert(tmp_path):
    write(tmp_path, {"\x1b[31mred\n.jpg": b"", "[/x]\u202egpj.jpg": b""})
    shown = text.table(report.new(check=check(tmp_path)), width=80, full=True)
    assert "\x1b" not in shown and "\u202e" not in shown and "\\x1b[31mred\\n.jpg" in shown


def test_an_interrupt_keeps_what_is_known(tmp_path):
    write(tmp_path, {f"{number:02d}.jpg": b"" for number in range(60)})

    def interrupt(done, total, what):
        if done == 5:
            raise KeyboardInterrupt

    found, complete = whole.check(datasets.load(str(tmp_path)), DECODERS, interrupt, threads=1)
    assert not complete and found.looked == 5 and found.findings[0].count == 5
    shown = text.table(report.new(check=found, partial=True), width=400)
    assert "5 of 60 images break or change training; only the first 5 of 60 were looked at (interrupted)." in shown


def said(found, **more):
    return " ".join(text.table(report.new(check=found), width=400, **more).splitlines()[0].split(": ", 1)[1:])


def test_the_verdict_counts_what_the_list_below_it_counts(tmp_path):
    members = [(f"{n:02d}.{suffix}", data) for n in range(20) for suffix, data in (("jpg", JPEG), ("json", b"{}"))]
    members.remove(("05.json", b"{}"))
    write_tar(tmp_path / "a.tar", *members)
    lacking = check(tmp_path / "a.tar")
    assert (said(lacking), lacking.harmful) == ("1 of 20 images break or change training.", 1)
    write_tar(tmp_path / "b.tar", *((f"{one}.{suffix}", data) for one in (0, 1, 0) for suffix, data in PAIR), LONELY)
    both = check(tmp_path / "*.tar")  # it lacks a file, it has the key of another, and a shard has one without an image
    assert (said(both), both.harmful) == ("2 of 23 images and 1 shard or folder break or change training.", 2)
    assert sum(one.count for one in both.findings if one.effect != "note") == both.harmful + both.places
    write_tar(tmp_path / "c.tar", ("a.jpg", JPEG), LONELY)
    assert said(check(tmp_path / "c.tar")) == "1 image, each good alone, but 1 shard or folder breaks training."


def test_a_sample_with_two_faults_counts_once(tmp_path):
    found = check(write_tar(tmp_path / "a.tar", ("a.jpg", JPEG), ("b.jpg", JPEG), ("a.jpg", b"")))
    assert (len(found.findings), found.harmful, found.places) == (2, 1, 0)


def test_the_verdict_says_that_a_limit_left_images_out(tmp_path):
    write(tmp_path, {f"{number:02d}.jpg": JPEG for number in range(26)})
    write_tar(tmp_path / "a.tar", *((f"{number}.jpg", JPEG) for number in range(4)))
    write_tar(tmp_path / "b.tar", ("b.jpg", JPEG))

    def limited(path, limit):
        return said(whole.check(datasets.load(str(path), limit=limit), DECODERS, lambda done, total, what: None)[0])

    none = "none that breaks or changes training"
    assert limited(tmp_path, 3) == f"3 images, {none}; only the first 3 of 26 were looked at."
    assert limited(tmp_path / "*.jpg", 3) == f"3 images, {none}; only the first 3 of 26 were looked at."
    assert limited(tmp_path / "a.tar", 3) == f"3 images, {none}; only the first 3 of 4 were looked at."
    assert limited(tmp_path / "*.tar", 3) == f"3 images, {none}; only the first 3 were looked at."
    assert limited(tmp_path, 26) == limited(tmp_path, 99) == f"26 images, {none}."


def test_names_are_kept_up_to_a_bound_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(kinds, "KEPT", 3)
    findings = kinds.Findings()
    kind = next(iter(kinds.of_images))
    for number in range(10):
        findings.add(kind, whole.Found(f"{number}.jpg"))
    (one,) = findings
    assert one.count == 10 and [found.name for found in one.found] == ["0.jpg", "1.jpg", "2.jpg"]


def test_images_wait_for_the_memory_that_others_hold():
    room, order = decoding.Room(budget=1200), []
    with room.of(60):
        waiting = threading.Thread(target=lambda: [order.append("in") for _ in [0] if _enter(room, 10**9)])
        waiting.start()
        waiting.join(0.05)
        order.append("out")
    waiting.join(5)
    assert order == ["out", "in"] and not waiting.is_alive()


def _enter(room, pixels):
    with room.of(pixels):
        return True


def test_the_text_fits_a_screen_whatever_is_found(broken):
    shown = text.table(report.new(check=broken), width=80).splitlines()
    assert len(shown) <= 30 and max(map(len, shown)) <= 80
    for one in broken.findings:
        assert any(one.what in line for line in shown), one.what
    everything = text.table(report.new(check=broken), width=80, full=True)
    for one in broken.findings:
        assert all(found.name in everything for found in one.found)
    assert layout.text([]) == "\n"


def test_what_libraries_write_is_lost_and_what_we_say_is_not(capfd):
    with terminal.libraries_silenced():
        os.write(2, b"Corrupt JPEG data\n")
        sys.stderr.write("looking\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "looking\nafter\n"


def test_the_command_lists_saves_and_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "installed", lambda: DECODERS)
    write(tmp_path / "data", {"good.jpg": JPEG, "empty.jpg": b""})
    asked = [str(tmp_path / "data"), "--export-json", str(tmp_path / "r.json")]
    done = CliRunner().invoke(command, asked, standalone_mode=False)
    assert done.return_value == 1 and "break or change training" in " ".join(done.output.split())
    assert report.load(tmp_path / "r.json").check.findings[0].kind == "empty"
    (tmp_path / "data/empty.jpg").unlink()
    assert CliRunner().invoke(command, asked[:1], standalone_mode=False).return_value == 0


def test_a_saved_check_is_shown_again(broken, tmp_path):
    report.save(made := report.new(check=broken), tmp_path / "r.json")
    loaded = report.load(tmp_path / "r.json")
    assert loaded.check == broken
    assert text.table(loaded) == text.table(made)


def test_run_notices_what_names_and_members_tell(tmp_path):
    write(
        tmp_path,
        {f"{n:02d}.{suffix}": b"{}" if suffix == "json" else JPEG for n in range(12) for suffix in ("jpg", "json")},
    )
    (tmp_path / "03.json").unlink()
    (tmp_path / "04.jpg").write_bytes(PNG)
    found = whole.noticed(datasets.load(str(tmp_path)))
    assert {one.kind: one.found[0].name for one in found} == {"lacks": "03.jpg", "extension": "04.jpg"}


def test_run_reads_no_image_of_a_table_to_notice_something():
    class Unread:
        path = "a.parquet"

        def read(self):
            pytest.fail("it was read")

    assert whole.noticed(Dataset("a.parquet", (Sample("a/000000", "jpg", {}, {}, cell=Unread()),))) == ()


@pytest.mark.parametrize(("kind", "found"), [("corrupt", [("damaged", "strict: no")]), ("unsupported", [])])
def test_what_a_decoder_refuses_is_damaged_unless_it_is_not_made_for_it(tmp_path, kind, found):
    def refuse(pixels):
        raise SampleError(kind, "no")

    write(tmp_path, {"a.jpg": JPEG})
    assert [(one.kind, one.found[0].detail) for one in check(tmp_path, decoders(strict=refuse)).findings] == found
