"""Places to write: looked at before the work, written whole, and no measurement ends because of its messages."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm
from repos import pipebench

COMMANDS = {
    "run": ["run", "--data", "tiny", "--stage", "decode", "--variant", "pillow", "--quick"],
    "study": ["study", "metrics"],
    "calibrate": ["calibrate"],
    "watch": ["watch"],
}


def shell(line, cwd):
    command = line.replace("pipebench", f"{sys.executable} -m pipebench", 1)
    return subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=240)


def on_a_full_disk(folder):
    """A file on a disk that is full: a file system of a few pages, if one may be mounted here."""
    (folder / "full").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder / "full"], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    (folder / "full" / "filling").write_bytes(bytes(4096))
    return folder / "full" / "r.json"


def in_a_read_only_folder(folder):
    (folder / "r").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder / "r"], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    return folder / "r" / "r.json"


def below_a_file(folder):
    (folder / "file").touch()
    return folder / "file" / "r.json"


def in_place_of_a_folder(folder):
    return folder


def a_device(folder):
    return "/dev/full"


PLACES = [in_a_read_only_folder, below_a_file, in_place_of_a_folder, a_device]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_written_is_said_before_the_work(command, place, tmp_path):
    (tmp_path / "train.py").write_text("print('trained')\n")
    script = ["train.py"] if command == "watch" else []
    try:
        done = pipebench(*COMMANDS[command], "--export-json", place(tmp_path), *script, cwd=tmp_path)
    finally:
        subprocess.run(["umount", tmp_path / "r"], capture_output=True)
    assert done.returncode in (1, 2) and done.stdout == "" and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 4, done.stderr


def test_calibrate_says_before_the_work_that_its_result_could_not_be_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "calibration").touch()  # a file where the folder would be
    done = pipebench("calibrate", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and len(done.stderr.splitlines()) == 2
    assert "cannot write" in done.stderr and "nothing has been started" in done.stderr


def test_an_old_report_stays_whole_where_the_disk_is_full(tmp_path):
    """A file can be made there, as the check before the run finds, but nothing can be written into it."""
    place = on_a_full_disk(tmp_path)
    try:
        (place.parent / "filling").rename(place)
        done = pipebench(*COMMANDS["run"], "--export-json", place, "--force", cwd=tmp_path)
        assert (done.returncode, place.read_bytes()) == (1, bytes(4096))
        assert "No space left on device" in done.stderr and "the file is as it was" in done.stderr
        assert [one.name for one in place.parent.iterdir()] == ["r.json"]
    finally:
        subprocess.run(["umount", place.parent], capture_output=True)


def test_a_disk_that_fills_up_meanwhile_leaves_the_last_whole_report(tmp_path):
    """It fills up as soon as there is a first report."""
    place = on_a_full_disk(tmp_path)
    filling = place.parent / "filling"
    try:
        filling.unlink()
        subprocess.run(["mount", "-o", "remount,size=1m", place.parent], check=True)
        command = [sys.executable, "-m", "pipebench", *COMMANDS["run"], "--stage", "crop", "--export-json", place]
        with warm.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
            while not place.exists() and process.poll() is None:
                time.sleep(0.01)
            with contextlib.suppress(OSError), filling.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            out, said = process.communicate(timeout=240)
        assert process.returncode == 1 and "decode/rgb" in out and "No space left on device" in said
        assert json.loads(place.read_text())["partial"] is True
        assert {one.name for one in place.parent.iterdir()} == {"r.json", "filling"}
    finally:
        subprocess.run(["umount", place.parent], capture_output=True)


@pytest.mark.parametrize("command", ["run", pytest.param("study", marks=pytest.mark.long)])
def test_messages_that_nobody_takes_do_not_end_a_measurement(command, tmp_path):
    line = [sys.executable, "-m", "pipebench", *COMMANDS[command], "--export-json", "r.json"]
    with open("/dev/full", "w") as full:
        done = warm.run(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, text=True, timeout=240)
    assert done.returncode == 0 and done.stdout
    assert not json.loads((tmp_path / "r.json").read_text())["partial"]


def test_watch_saves_where_its_text_goes_nowhere(tmp_path):
    (tmp_path / "train.py").write_text("print('trained')\n")
    line = [sys.executable, "-m", "pipebench", "watch", "--export-json", "w.json", "train.py"]
    with open("/dev/full", "w") as full:
        done = warm.run(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert json.loads((tmp_path / "w.json").read_text())["watched"]


@pytest.mark.slow
def test_a_reader_that_leaves_early_costs_the_text_and_nothing_else(tmp_path):
    line = f"pipebench {' '.join(COMMANDS['run'])} --export-json r.json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = shell(line, tmp_path)
    assert done.stdout[1:] in ("1\n", "0\n") and "Traceback" not in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["measurements"]


def test_a_full_standard_output_is_said(tmp_path):
    done = shell("pipebench run --list >/dev/full", tmp_path)
    assert done.returncode != 0 and "No space left on device" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_nothing_is_left_beside_a_report(tmp_path):
    done = pipebench(*COMMANDS["run"], "--export-json", "r.json", cwd=tmp_path)
    assert done.returncode == 0 and os.listdir(tmp_path) == ["r.json"]


def test_a_report_may_have_the_longest_name(tmp_path):
    name = "漢" * 83 + ".json"  # 254 bytes
    done = pipebench("show", Path(__file__).parents[1] / "results/saved/lab.json", "--export-json", name, cwd=tmp_path)
    assert (done.returncode, os.listdir(tmp_path)) == (0, [name]), done.stderr
