"""How `tools/watch_instructions.py` reads counts: made-up totals of a script and its workers."""

import stat
import sys
from pathlib import Path

import pytest


def test_what_the_larger_data_adds_is_of_one_pass(tool):
    """50 million more in the script, which are of its last pass, and 450 in the workers of the first one."""
    program = tool.Program("timm", "made.py", "", "")
    million = 1_000_000
    small = {("timm", False): (900 * million, 300 * million), ("timm", True): (990 * million, 330 * million)}
    large = {("timm", False): (950 * million, 750 * million), ("timm", True): (1045 * million, 785 * million)}
    assert tool.cells(program, small, large) == ["timm", "500", "90%", "+2.00%", "+1.00%", "+1.00%"]


@pytest.mark.slow
def test_a_run_has_its_script_and_the_workers_of_the_first_pass(tool, tmp_path, monkeypatch):
    """A made-up `valgrind` writes the totals of five processes as they end: two workers of each pass, then the script.

    Between the passes, the numbers of processes have begun again.
    """
    fake = tmp_path / "valgrind"
    fake.write_text(
        '#!/bin/sh\nfor one in "$@"; do case $one in --callgrind-out-file=*) folder=${one#*=};; esac; done\n'
        'folder=$(dirname "$folder")\n'
        'n=0; for pid in 99 100 3 4 98; do n=$((n + 1)); echo "summary: $n" > "$folder/$pid"; sleep 0.02; done\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = tool.Place(Path(sys.executable), tmp_path, None, tmp_path)
    assert tool.counted(place, tool.Program("timm", "made.py", "", ""), watched=False) == (5, 1 + 2)


def test_what_depends_on_addresses_is_left_out(tool, tmp_path):
    """Also where another function calls it, which has its own costs and those of the call."""
    text = (
        f"version: 1\nevents: Ir\nfn=(1) main\n1 100\ncfn=(2) {tool.BY_ADDRESS}(_typeobject*)\ncalls=1 5\n2 47\n+1 3\n"
        "fn=(2)\n5 40\ncfn=(3) malloc\ncalls=1 9\n* 6\n-1 1\nfn=(3)\n9 6\nsummary: 150\n"
    )
    (tmp_path / "99").write_text(text)
    assert tool._total(tmp_path / "99") == 150 - 40 - 1


def test_a_program_that_fails_ends_the_count(tool, tmp_path, monkeypatch):
    (tmp_path / "valgrind").write_text("#!/bin/sh\necho no such tool >&2\nexit 3\n")
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = tool.Place(Path(sys.executable), tmp_path, None, tmp_path)
    with pytest.raises(SystemExit, match="no such tool"):
        tool.counted(place, tool.Program("timm", "made.py", "", ""), watched=False)
