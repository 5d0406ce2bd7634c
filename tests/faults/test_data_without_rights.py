"""Data that may not be read, by real rights; and a decoder that says nothing of a fault."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pipebench.data import listing
from pipebench.data.datasets import load
from pipebench.errors import SampleError
from pipebench.stages import decode

NOBODY = 65534


@pytest.fixture
def folder():
    """Two files and a folder, of which `b.jpg` and `c` have no rights at all."""
    made = Path(tempfile.mkdtemp(prefix="pipebench-rights-"))
    made.chmod(0o755)
    (made / "c").mkdir()
    for name in ("a.jpg", "b.jpg", "c/1.jpg"):
        (made / name).write_bytes(b"\xff\xd8\xff")
    (made / "b.jpg").chmod(0)
    (made / "c").chmod(0)
    yield made
    (made / "c").chmod(0o755)
    shutil.rmtree(made)


@contextlib.contextmanager
def without_roots_rights():
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_and_a_folder_without_rights_are_records_and_the_rest_is_listed(folder):
    with without_roots_rights():
        found = load(str(folder))
        with pytest.raises(SampleError, match="Permission denied") as refused:
            listing.read_file(str(folder / "b.jpg"))
    assert [one.key for one in found.samples] == ["a.jpg", "b.jpg"] and refused.value.kind == "unreadable"
    (record,) = found.problems
    assert record.sample == str(folder / "c") and "Permission denied" in record.message


def test_opencv_returns_none_for_a_broken_file_and_that_is_a_failure():
    pytest.importorskip("cv2")
    with pytest.raises(SampleError, match="returned None"):
        decode.opencv_decoder(*decode.opencv_flags())(b"\xff\xd8\xff" + bytes(100))
