"""Dropping and filling the page cache, with the kernel's own word for it."""

import os

import pytest

from pipebench.host import page_cache


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    return str(path)


def test_a_filled_file_is_resident_and_a_dropped_one_is_not(file):
    page_cache.fill([file])
    assert page_cache.residency([file]) == 1.0
    page_cache.drop([file])
    resident = page_cache.residency([file])
    if resident == 1.0:
        pytest.skip("this file system keeps its pages (tmpfs does): cold is reported as not cold here")
    assert resident < 0.05


def test_an_empty_file_has_no_pages(tmp_path):
    (tmp_path / "empty").touch()
    assert page_cache.residency([str(tmp_path / "empty")]) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_residency_of_a_strangers_file_cannot_be_known():
    assert page_cache.residency(["/etc/passwd"]) is None
