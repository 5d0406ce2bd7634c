"""`pipebench pack` with names that no text has, places that cannot be written, and signals: by the real command."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from repos import pipebench

from pipebench.pack import journal, sources, working

NAMES = [b"caf\xe9.jpg", b"a\nb.jpg", b"\x1b[31m.jpg", b"-rf.jpg", b"n" * 251 + b".jpg", ("漢" * 83).encode() + b".jpg"]
INTERRUPTED = """
import signal, sys
from pipebench import cli
from pipebench.pack import writing
number = int(sys.argv.pop())
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` before the tests ignores it
writing.Writer.complete = lambda writer: signal.raise_signal(number)
sys.argv[1:] = ["pack", "source", "packed"]
cli.main()
"""


@pytest.fixture
def source(tmp_path):
    """Images that are large enough for the gain of a crop to be measured."""
    written = io.BytesIO()
    Image.new("RGB", (320, 288)).save(written, "JPEG")
    (tmp_path / "source").mkdir()
    for name in NAMES:
        with open(os.fsencode(tmp_path / "source") + b"/" + name, "wb") as file:
            file.write(written.getvalue())
    return tmp_path / "source"


@pytest.mark.slow
@pytest.mark.parametrize("shards", [(), ("--shards", "1M")])
def test_any_name_is_packed_and_known_again(shards, source, tmp_path):
    first = pipebench("pack", "source", "packed", *shards, cwd=tmp_path)
    assert (first.returncode, f"{len(NAMES)} images packed" in first.stdout) == (0, True), first.stderr
    here = {one for one in os.listdir(os.fsencode(tmp_path / "packed")) if one != os.fsencode(journal.NAME)}
    assert here == ({b"shard-000000.tar", b"index.json"} if shards else set(NAMES))
    again = pipebench("pack", "source", "packed", *shards, cwd=tmp_path)
    assert (again.returncode, "finished by an earlier run" in again.stdout) == (0, True), again.stderr


@pytest.mark.parametrize("place", ["/dev/full", "/dev/null/packed", "file/packed", "/proc/packed"])
def test_what_cannot_be_written_is_named_before_the_work(place, source, tmp_path):
    (tmp_path / "file").touch()
    done = pipebench("pack", "source", place, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{place}/" in done.stderr and "nothing has been started" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_file_that_is_not_whole(number, source, tmp_path):
    line = [sys.executable, "-c", INTERRUPTED, str(int(number))]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "packed") == [journal.NAME]


def test_two_packs_into_one_folder_the_second_refuses_and_a_dead_one_is_in_nobodys_way(source, tmp_path):
    holding = (
        "import signal\nfrom pathlib import Path\nfrom pipebench.pack.journal import Journal\n"
        "options = {'segment': 96, 'keep_tables': False, 'shard_bytes': None}\n"
        "with Journal(Path('packed'), options): print('holds', flush=True); signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", holding], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "holds\n"
        second = pipebench("pack", "source", "packed", cwd=tmp_path)
        first.kill()
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.splitlines()[0] == "pipebench: another process packs into packed"
    third = pipebench("pack", "source", "packed", cwd=tmp_path)
    assert third.returncode == 0, third.stderr


@pytest.mark.parametrize("name", ["a.jpg", "a.tar"])
def test_no_file_has_its_name_before_it_and_its_note_are_on_the_disk(name, tmp_path, monkeypatch):
    done = []

    def noted(what):
        real = getattr(os, what)
        monkeypatch.setattr(os, what, lambda *given: (done.append((what, kept(given[0]))), real(*given))[1])

    def kept(place):
        return Path(f"/proc/self/fd/{place}").resolve().name if isinstance(place, int) else Path(place).name

    for what in ("fsync", "replace"):
        noted(what)
    target = sources.Target(name, name.endswith(".tar"), 0, "", list)
    with journal.Journal(tmp_path / "packed", {}) as held:
        working.Packer(tmp_path / "packed", held, 96, False, lambda *_: None).run([target], 1)
    draft = next(one for what, one in done if what == "replace")
    assert done[-3:] == [("fsync", draft), ("fsync", journal.NAME), ("replace", draft)]
