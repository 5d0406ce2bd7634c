"""The suite's second column: where pillow-simd cannot be built its rows are n/a with the reason, and the rest runs."""

import importlib.util
import os
from pathlib import Path

import pytest

from pipebench import asvbench
from pipebench.errors import PipebenchError
from pipebench.native import building

TOOL = Path(__file__).absolute().parents[2] / "tools" / "ensure_simd.py"


@pytest.fixture
def ensure(tmp_path, monkeypatch):
    """The tool with a cache of its own, and a build that fails for want of a header; counts the tries."""
    found = importlib.util.spec_from_file_location("ensure_simd", TOOL)
    tool = importlib.util.module_from_spec(found)
    found.loader.exec_module(tool)
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    tool.tries = 0

    def build(progress):
        tool.tries += 1
        raise PipebenchError("jpeglib.h is missing", "apt-get install libjpeg-dev")

    monkeypatch.setattr(building, "build_pillow_simd", build)
    monkeypatch.setattr(building, "pillow_simd_folder", lambda: None)
    return tool


def test_a_build_that_fails_stops_nothing_and_says_what_to_do(ensure, capsys):
    assert ensure.main() == 0
    said = capsys.readouterr().err
    assert "jpeglib.h is missing" in said and "apt-get install libjpeg-dev" in said and "n/a until then" in said


def test_it_is_not_tried_again_at_every_commit(ensure, tmp_path, capsys):
    assert (ensure.main(), ensure.main(), ensure.tries) == (0, 0, 1)
    assert capsys.readouterr().err.count("jpeglib.h is missing") == 2
    kept = tmp_path / "pillow-simd.failed"
    os.utime(kept, (0, 0))
    assert (ensure.main(), ensure.tries) == (0, 2)


def test_a_row_of_the_column_is_not_available_and_says_why(ensure, monkeypatch):
    ensure.main()
    monkeypatch.setenv("PIPEBENCH_PIL", "simd")
    with pytest.raises(NotImplementedError, match=r"(?s)build pillow-simd.*jpeglib\.h is missing"):
        asvbench._same_pillow("Pillow 13.0.0")
    with pytest.raises(NotImplementedError, match="does not use Pillow"):
        asvbench._same_pillow("OpenCV 5.0.0")
    asvbench._same_pillow("pillow-simd 12.1.1")
