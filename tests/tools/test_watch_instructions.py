"""How `tools/watch_instructions.py` reads counts: made-up totals of a script and its workers."""

import stat
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    for name in ("watch_instructions", "watch_cost", "real_packages", "real_scripts", "real_sources"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import watch_instructions

    return watch_instructions


def test_what_the_larger_data_adds_is_of_one_pass(counting):
    """Two passes: 100 million more in the script are 50 a pass, beside 450 in the workers of the first one."""
    program = counting.Program("made up", "made.py", "", "")
    million = 1_000_000
    small = {("made up", False): (900 * million, 300 * million), ("made up", True): (990 * million, 330 * million)}
    large = {("made up", False): (1000 * million, 750 * million), ("made up", True): (1100 * million, 785 * million)}
    assert counting.cells(program, small, large) == ["made up", "500", "90%", "+2.00%", "+1.00%", "+1.00%"]


def test_a_run_has_its_script_and_the_workers_of_the_first_pass(counting, tmp_path, monkeypatch):
    """A made-up `valgrind` writes the totals of five processes, of which the third worker is of a later pass."""
    fake = tmp_path / "valgrind"
    fake.write_text(
        '#!/bin/sh\nfor one in "$@"; do case $one in --cachegrind-out-file=*) folder=${one#*=};; esac; done\n'
        'folder=$(dirname "$folder")\n'
        'n=0; for pid in 98 99 100 101 102; do n=$((n + 1)); echo "summary: $n" > "$folder/$pid"; done\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = counting.Place(Path(sys.executable), tmp_path, None, tmp_path)
    assert counting.counted(place, counting.Program("made up", "made.py", "", ""), watched=False) == (1, 2 + 3)


def test_a_program_that_fails_ends_the_count(counting, tmp_path, monkeypatch):
    (tmp_path / "valgrind").write_text("#!/bin/sh\necho no such tool >&2\nexit 3\n")
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = counting.Place(Path(sys.executable), tmp_path, None, tmp_path)
    with pytest.raises(SystemExit, match="no such tool"):
        counting.counted(place, counting.Program("made up", "made.py", "", ""), watched=False)
