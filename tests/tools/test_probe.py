"""The set-up's probe: a torch and a torchvision that do not belong together are named with what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[2] / "tools" / "probe.py"


def _probe(tmp_path, torchvision):
    (tmp_path / "torchvision.py").write_text(torchvision)
    code = (
        f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_path({str(PROBE)!r}, run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_a_pair_that_does_not_match_is_named_with_the_remedy(tmp_path):
    done = _probe(tmp_path, "raise RuntimeError('operator torchvision::nms does not exist')")
    assert done.returncode == 1
    assert "torch and torchvision do not match: operator torchvision::nms does not exist" in done.stderr
    assert "pip install --upgrade torch torchvision" in done.stderr


@pytest.mark.slow
def test_the_pair_that_is_installed_matches():
    assert subprocess.run([sys.executable, str(PROBE)], capture_output=True, timeout=120).returncode == 0
