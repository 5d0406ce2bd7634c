"""SQLite itself says whether a query of the user's compares all rows of its table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from titled import title_of

from pipebench.watch.read.known_files import INDEX, PLANNED, SCANS
from pipebench.watch.read.known_table import AGAIN
from pipebench.watch.read.query_plan import as_planned, plan

ROW = "row = self.db.execute('SELECT pcm FROM clips WHERE speaker = ? AND take = ?', (s, t)).fetchone()"


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., str]:
    def made(*more: str, name: str = "clips ?#é.db") -> str:
        file = tmp_path / name
        connection = sqlite3.connect(file)
        connection.execute("CREATE TABLE clips (speaker TEXT, take INTEGER, pcm BLOB)")
        for one in more:
            connection.execute(one)
        connection.commit()
        connection.close()
        return str(file)

    return made


@pytest.mark.parametrize(
    ("query", "index", "how"),
    [
        ("SELECT pcm FROM clips WHERE speaker = ? AND take = ?", "", "scan"),
        ("SELECT pcm FROM clips WHERE speaker = :name", "", "scan"),
        ("SELECT pcm FROM clips WHERE take > 3 ORDER BY speaker", "", "scan"),
        ("SELECT pcm FROM clips WHERE speaker = ? AND take = ?", "CREATE INDEX i ON clips(speaker, take)", "search"),
        ("SELECT pcm FROM clips WHERE rowid = ?", "", "search"),
        ("SELECT pcm FROM other WHERE id = ?", "", None),
        ("not a query ?", "", None),
    ],
)
def test_how_rows_are_found(query: str, index: str, how: str | None, database: Callable[..., str]) -> None:
    assert plan(query, database(*([index] if index else []))) == how


def test_other_files_are_no_databases(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("SELECT")
    (tmp_path / "broken").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    for file in (tmp_path / "text", tmp_path / "broken", tmp_path / "none", tmp_path):
        assert plan("SELECT 1 FROM a WHERE b = ?", str(file)) is None


def test_no_query_runs_and_nothing_is_written(database: Callable[..., str]) -> None:
    file = database("INSERT INTO clips VALUES ('a', 1, x'00')")
    before = Path(file).read_bytes(), sorted(Path(file).parent.iterdir())
    assert plan("DELETE FROM clips WHERE take = 1", file) == "scan"
    assert plan("SELECT 1; DROP TABLE clips", file) is None
    assert (Path(file).read_bytes(), sorted(Path(file).parent.iterdir())) == before


def test_a_line_is_told_for_certain_or_not_at_all(database: Callable[..., str]) -> None:
    scans = database()
    assert as_planned(INDEX, ROW, {scans, "/dev/null"}) is SCANS
    assert as_planned(INDEX, f"{ROW}; ).fetchone()", {scans}) is SCANS
    assert as_planned(INDEX, ROW, {database("CREATE INDEX i ON clips(speaker)", name="indexed.db")}) is None


@pytest.mark.parametrize("statement", ["rows = db.execute(QUERY, (s,))", "rows = (", "rows = cursor.fetchone()", ""])
def test_of_a_query_that_is_not_written_there_nothing_more_is_known(
    statement: str, database: Callable[..., str]
) -> None:
    assert as_planned(INDEX, statement, {database()}) is INDEX
    assert as_planned(INDEX, ROW, set()) is INDEX
    assert as_planned(AGAIN, ROW, {database(name="other.db")}) is AGAIN


def test_two_databases_that_say_otherwise_leave_it_open(database: Callable[..., str]) -> None:
    both = {database(), database("CREATE INDEX i ON clips(speaker)", name="indexed.db")}
    assert as_planned(INDEX, ROW, both) is INDEX


def test_a_line_that_does_more_with_its_rows_is_told_where_it_scans(database: Callable[..., str]) -> None:
    more = f"{ROW}; return pickle.loads(row[0])"
    assert title_of(more) == title_of(ROW) == "an index on the columns of WHERE"
    assert title_of(f"{ROW}; return torch.frombuffer(bytearray(row[0]), dtype=torch.float32)")
    assert title_of(f"{ROW}; return decode(row[0])") is None
    assert as_planned(PLANNED, more, {database()}) is SCANS
    assert as_planned(PLANNED, more, set()) is None
    assert as_planned(PLANNED, more, {database("CREATE INDEX i ON clips(speaker)", name="indexed.db")}) is None
