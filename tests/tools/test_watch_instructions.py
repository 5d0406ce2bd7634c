"""How `tools/watch_instructions.py` reads counts: made-up totals of a script and its workers."""

import stat
import sys
from pathlib import Path

import pytest


def test_what_the_larger_data_adds_is_of_one_pass(tool):
    """Two passes: 100 million more in the script are 50 a pass, beside 450 in the workers of the first one."""
    program = tool.Program("timm", "made.py", "", "")
    million = 1_000_000
    small = {("timm", False): (900 * million, 300 * million), ("timm", True): (990 * million, 330 * million)}
    large = {("timm", False): (1000 * million, 750 * million), ("timm", True): (1100 * million, 785 * million)}
    assert tool.cells(program, small, large) == ["timm", "500", "90%", "+2.00%", "+1.00%", "+1.00%"]


def test_a_run_has_its_script_and_the_workers_of_the_first_pass(tool, tmp_path, monkeypatch):
    """A made-up `valgrind` writes the totals of five processes as they end: two workers of each pass, then the script.

    Between the passes, the numbers of processes have begun again.
    """
    fake = tmp_path / "valgrind"
    fake.write_text(
        '#!/bin/sh\nfor one in "$@"; do case $one in --cachegrind-out-file=*) folder=${one#*=};; esac; done\n'
        'folder=$(dirname "$folder")\n'
        'n=0; for pid in 99 100 3 4 98; do n=$((n + 1)); echo "summary: $n" > "$folder/$pid"; sleep 0.02; done\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = tool.Place(Path(sys.executable), tmp_path, None, tmp_path)
    assert tool.counted(place, tool.Program("timm", "made.py", "", ""), watched=False) == (5, 1 + 2)


def test_a_program_that_fails_ends_the_count(tool, tmp_path, monkeypatch):
    (tmp_path / "valgrind").write_text("#!/bin/sh\necho no such tool >&2\nexit 3\n")
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = tool.Place(Path(sys.executable), tmp_path, None, tmp_path)
    with pytest.raises(SystemExit, match="no such tool"):
        tool.counted(place, tool.Program("timm", "made.py", "", ""), watched=False)
