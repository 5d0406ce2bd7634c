"""The demonstration of docs/start.md: an unmodified script, its advice as a patch, plain runs that keep the promise."""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "start.md"


def _run(*command, cwd):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=cwd).stdout


@pytest.mark.timing
def test_the_patch_keeps_the_promise(tmp_path):
    """The samples sleep, so a busy machine moves the gain by little."""
    (script,) = re.findall(r"a file `remote.py`:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "remote.py").write_text(script)
    after = tmp_path / "after"
    options = ["--stop", "--budget", "40", "--patch", "fix.diff", "--export-json", "advice.json"]
    _run(sys.executable, "-m", "pipebench", "advise", *options, "--", "remote.py", "1000000", cwd=after)
    _run("git", "apply", "fix.diff", cwd=after)
    assert (after / "remote.py").read_text() != script
    found = json.loads((after / "advice.json").read_text())["advice"]
    chosen = found["findings"][found["best"]]
    promised = chosen["run"] or chosen["gain"]
    assert chosen["outcome"] == "gain" and promised["low"] > 2.0
    gains = [_step_ms(tmp_path / "before") / _step_ms(after) for _ in range(2)]
    assert promised["low"] <= median(gains) <= promised["high"], (promised, gains)


def _step_ms(folder):
    return float(_run(sys.executable, "remote.py", "300", cwd=folder).split()[0])
