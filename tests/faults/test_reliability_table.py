"""The table of faults in the documentation: every row names a test, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "reliability.md").read_text()
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]


def test_every_row_names_a_test_that_exists():
    assert len(ROWS) > 60
    for row in ROWS:
        fault, behaviour, test = (cell.strip() for cell in row.strip("|").split("|"))
        assert fault and behaviour, row
        found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", test)
        assert found, row
        assert re.search(rf"^def {found[2]}\(", (ROOT / found[1]).read_text(), re.MULTILINE), test


def test_what_is_not_held_is_said():
    assert TABLE.count("\n- ", TABLE.index("## Not held")) >= 5
