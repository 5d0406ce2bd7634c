"""The command itself: the script's own output and status pass through, whatever the script is."""

import json
import sys

import pytest
import warm


def _advise(*arguments, cwd):
    command = [sys.executable, "-m", "pipebench", "advise", *arguments]
    return warm.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)


@pytest.mark.slow
def test_a_script_without_a_loader_runs_as_always(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint('trained', sys.argv[1:])\nsys.exit(3)\n")
    done = _advise("--export-json", "out.json", "train.py", "--stop", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "trained ['--stop', 'x']\n")
    assert "No remedy was tried long enough for an advice." in done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["partial"] and found["advice"]["ended"] == "script-ended" and found["advice"]["findings"] == []


def test_wrong_use_is_told_before_anything_runs(tmp_path):
    (tmp_path / "out.json").write_text("{}")
    for arguments in ([], ["--budget", "1", "train.py"], ["--export-json", "out.json", "train.py"]):
        done = _advise(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "" and done.stderr
    assert (tmp_path / "out.json").read_text() == "{}"
