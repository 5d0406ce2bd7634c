"""`pipebench pack` with names that no text has, places that cannot be written, and signals: by the real command."""

import io
import os
import signal
import subprocess
import sys

import pytest
from PIL import Image
from repos import pipebench

from pipebench.pack import journal

NAMES = [b"caf\xe9.jpg", b"a\nb.jpg", b"\x1b[31m.jpg", b"-rf.jpg", b"n" * 251 + b".jpg", ("漢" * 83).encode() + b".jpg"]
INTERRUPTED = """
import signal, sys
from pipebench import cli
from pipebench.pack import writing
number = int(sys.argv.pop())
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
