"""The command line as a person meets it: help at once, errors with a remedy, data that is hostile, nothing lost."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm
from PIL import Image

from pipebench import terminal
from pipebench.data import datasets

HUGE = 30_000  # a side: 900 megapixels


def pipebench(*arguments, cwd=None, **environment):
    return warm.run(
        [sys.executable, "-m", "pipebench", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=240,
        text=True,
        errors="surrogateescape",
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["--version"], ["run", "--no-such"], ["show", "/no"]]
)
def test_help_and_errors_import_neither_torch_nor_numpy(arguments):
    code = (
        "import sys; sys.argv = ['pipebench', *sys.argv[1:]]\n"
        "from pipebench.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'rich', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["run", "--quick", "--rigorous"], 2, "exclude each other"),
        (["run", "--consumer", "fast"], 2, "neither images per second"),
        (["run", "--consumer", "0"], 2, "neither images per second"),
        (["run", "--consumer", "9", "--stage", "decode"], 2, "leave out"),
        (["run", "--consumer", "9", "--device", "simulated:9ms"], 2, "exclude each other"),
        (["run", "--stage", "nosuch"], 2, "the stages are read, decode"),
        (["run", "--data", "nosuch"], 2, "nosuch does not exist"),
        (["run", "--data", "no-*.tar"], 2, "No file fits"),
        (["run", "--variant", "nosuch"], 2, "pipebench run --list"),
        (["run", "--data", "/no/such/place", "--stage", "read"], 2, "/no/such/place"),
        (["nosuch"], 2, "there is no command 'nosuch'"),
    ],
)
def test_mistakes_are_answered_with_a_status_and_a_remedy(arguments, status, said):
    done = pipebench(*arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_list_names_every_task_and_marks_the_reference():
    done = pipebench("run", "--list")
    assert done.returncode == 0
    assert "decode/rgb: encoded bytes to the whole image, RGB uint8\n  * pillow " in done.stdout
    assert "    simplejpeg " in done.stdout


@pytest.mark.parametrize("arguments", [["run", "--list"], ["study"]])
def test_lists_fit_the_terminal_and_every_description_stays_in_its_column(arguments):
    done = pipebench(*arguments, COLUMNS="80")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    joined = " ".join(done.stdout.split())
    assert {"run": "nothing decoded.", "study": "batch 512, 12 workers, shards"}[arguments[0]] in joined


def test_an_error_fits_the_terminal_and_is_whole_without_one(monkeypatch):
    line = "pipebench: " + "word " * 20 + "/a/path-that-is-not-broken/" + "x" * 40
    monkeypatch.setattr(sys, "stderr", Terminal(True))
    monkeypatch.setenv("COLUMNS", "80")
    wrapped = terminal.in_width(line).splitlines()
    assert len(wrapped) == 3 and max(map(len, wrapped)) <= 80 and all(one[:2] == "  " for one in wrapped[1:])
    assert terminal.in_width("a remedy", "  ") == "  a remedy"
    monkeypatch.setattr(sys, "stderr", Terminal(False))
    assert terminal.in_width(line) == line


class Terminal(io.StringIO):
    def __init__(self, is_one):
        super().__init__()
        self.isatty = lambda: is_one


def test_an_existing_file_is_not_overwritten_unasked(tmp_path):
    place = tmp_path / "r.json"
    place.write_text("mine")
    done = pipebench("run", "--data", "tiny", "--stage", "decode", "--quick", "--export-json", place)
    assert (done.returncode, place.read_text()) == (2, "mine")
    assert "--force overwrites it" in done.stderr


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Two good images, and one of everything that can be wrong with a folder."""
    folder = tmp_path_factory.mktemp("hostile") / "data"
    (folder / "class").mkdir(parents=True)
    noise = Image.effect_noise((320, 300), 80).convert("RGB")
    noise.save(folder / "good.jpg")
    (folder / "class" / "\x1b[31m[").mkdir()
    noise.save(folder / "class" / "\x1b[31m[" / "x]\n.JPG", "JPEG")  # the path holds [/x]
    noise.save(os.fsencode(folder) + b"/caf\xe9.jpg", "JPEG")
    good = (folder / "good.jpg").read_bytes()
    (folder / "truncated.jpg").write_bytes(good[: len(good) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "garbage.jpg").write_bytes(os.urandom(5000))
    at = good.index(b"\xff\xc0") + 5
    (folder / "huge.jpg").write_bytes(good[:at] + HUGE.to_bytes(2, "big") * 2 + good[at + 4 :])
    (folder / "directory.jpg").mkdir()
    (folder / "dangling.jpg").symlink_to("nowhere.jpg")
    (folder / "loop.jpg").symlink_to("loop.jpg")
    (folder / "linked").symlink_to(".")
    os.mkfifo(folder / "fifo.jpg")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(folder)
        listening.bind("socket.jpg")
        os.chdir(here)
    noise.save(folder / "png.jpg", "PNG")
    noise.convert("L").save(folder / "grey.jpg")
    noise.convert("CMYK").save(folder / "cmyk.jpg")
    noise.save(folder / "progressive.jpg", progressive=True)
    return folder


@pytest.mark.slow
def test_bad_samples_are_counted_and_the_run_goes_on(hostile, tmp_path):
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in hostile.rglob("*"))
    place = tmp_path / "r.json"
    done = pipebench(
        "run", "--data", hostile, "--stage", "decode", "--stage", "crop", "--quick", "--export-json", place
    )
    assert done.returncode == 0, done.stderr
    root = json.loads(place.read_text())
    rows = {(one["task"], one["variant"]): one for one in root["measurements"]}
    pillow = rows["decode/rgb", "pillow"]
    assert pillow["samples_attempted"] == 16
    bad = {one["sample"] for one in root["bad_samples"] if one["variant"] == "pillow"}
    assert bad == {
        "truncated.jpg", "empty.jpg", "garbage.jpg", "huge.jpg", "directory.jpg", "dangling.jpg", "loop.jpg",
        "fifo.jpg", "socket.jpg",
    }  # fmt: skip
    assert pillow["samples_failed"] == len(bad)
    fast = rows["decode/rgb", "simplejpeg"]
    assert fast["skipped"] is None and fast["samples_unfit"] == 2  # PNG and CMYK
    names = {one["sample"] for one in root["bad_samples"]} | {done.stdout, done.stderr}
    assert not any("\x1b" in name for name in names)
    assert before == sorted((str(path), path.lstat().st_mtime_ns) for path in hostile.rglob("*"))


@pytest.mark.slow
def test_no_good_sample_is_exit_status_1(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bad.jpg").write_bytes(b"no image")
    done = pipebench("run", "--data", tmp_path / "data", "--stage", "decode", "--quick")
    assert done.returncode == 1
    assert "decode/rgb: no good sample" in done.stderr


def test_a_run_of_which_all_was_skipped_measured_nothing(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jpg")
    done = pipebench("run", "--data", tmp_path, "--stage", "read", "--variant", "tarfile", "--quick")
    assert done.returncode == 1
    assert "nothing was measured: every variant was skipped" in done.stderr
    assert " ".join(done.stdout.split()).count("no shards are made of your files") == 1


@pytest.mark.slow
def test_video_says_nothing_of_photographs():
    done = pipebench("run", "--stage", "video", "--variant", "opencv", "--quick")
    assert done.returncode == 0, done.stderr
    assert "photos" not in done.stdout and "photos" not in done.stderr


def test_a_saved_report_is_shown_again_in_every_format(tmp_path):
    place = tmp_path / "r.json"
    done = pipebench("run", "--data", "tiny", "--stage", "decode", "--quick", "--export-json", place)
    assert done.returncode == 0, done.stderr
    assert pipebench("show", place).stdout == done.stdout
    assert json.loads(pipebench("show", place, "--format", "json").stdout) == json.loads(place.read_text())
    assert "| variant |" in pipebench("show", place, "--format", "markdown").stdout


@pytest.mark.slow
def test_without_standard_error_there_is_no_progress_and_no_failure():
    command = f"{sys.executable} -m pipebench run --data tiny --stage decode --variant pillow --quick 2>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=240)
    assert done.returncode == 0 and b"decode/rgb" in done.stdout


def _measured(place):
    return place.exists() and json.loads(place.read_text())["measurements"]


@pytest.mark.slow
def test_ctrl_c_saves_what_was_measured_and_exits_130(tmp_path):
    place = tmp_path / "r.json"
    command = [sys.executable, "-m", "pipebench", "run", "--data", "tiny", "--export-json", str(place)]
    process = warm.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not _measured(place) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted; what was measured is in" in errors
    root = json.loads(place.read_text())
    assert root["partial"] is True
    assert root["measurements"][0]["readings_s"]


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        pytest.param(-10240, "incomplete shard", marks=pytest.mark.long),
        pytest.param(-60_000, "truncated", marks=pytest.mark.slow),
    ],
)
def test_a_shard_that_was_cut_is_named_and_what_it_holds_is_measured(tmp_path, cut, said):
    listed = datasets.load("tiny")
    whole = Path(listed.shards[0].path).read_bytes()
    last = max(extent.offset + extent.size for one in listed.samples for extent in one.extents.values())
    end = -(-last // 512) * 512 if cut == -10240 else last + cut
    (tmp_path / "cut.tar").write_bytes(whole[:end])
    place = tmp_path / "r.json"
    done = pipebench(
        "run", "--data", tmp_path / "cut.tar", "--stage", "read", "--stage", "decode", "--quick", "--export-json", place
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    root = json.loads(place.read_text())
    assert any("incomplete shard" in one["message"] for one in root["bad_samples"])
    read = [one for one in root["measurements"] if one["task"] == "read/image" and one["skipped"] is None]
    assert {one["variant"] for one in read} == {"tarfile", "tar-index", "webdataset"}
    assert all(one["readings_s"] for one in read)
