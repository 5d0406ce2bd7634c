"""The files that pipebench wrote for itself, with anything in them: used as they are, or refused in one line."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pipebench.data import datasets
from pipebench.errors import PipebenchError, SampleError
from pipebench.pack import journal

QUICK = settings(max_examples=150, deadline=None)
CELLS = some.one_of(
    some.text(max_size=12), some.integers().map(str), some.sampled_from(["jpg", "cls", "0", "-1", "a/../b"])
)
LINES = some.lists(some.lists(CELLS, min_size=4, max_size=7).map("\t".join), max_size=5).map("\n".join)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = some.fixed_dictionaries(
    {"name": VALUES, "signature": VALUES, "size": VALUES}, optional={"counts": VALUES, "more": VALUES}
)


def sealed(folder, index):
    """A built folder whose digests fit, whatever its index says."""
    folder.joinpath("index.tsv").write_bytes(index)
    line = f"{hashlib.sha256(index).hexdigest()}  index.tsv\n"
    seal = hashlib.sha256(line.encode()).hexdigest()
    folder.joinpath("manifest.sha256").write_text(f"{line}# sha256 of the lines above: {seal}\n")


@QUICK
@given(some.one_of(some.binary(max_size=200), LINES.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_index_is_a_data_set_or_none(index):
    with TemporaryDirectory() as name:
        sealed(Path(name), index)
        found = datasets._built("tiny", Path(name))
        for sample in found.samples if found else ():
            try:
                sample.read()
            except SampleError:
                continue


@QUICK
@given(some.binary(max_size=300))
def test_any_list_of_digests_is_verified_or_not(content):
    with TemporaryDirectory() as name:
        (Path(name) / "manifest.sha256").write_bytes(content)
        assert datasets._built("tiny", Path(name)) is None


@QUICK
@given(some.one_of(some.binary(max_size=200), some.lists(ENTRIES | VALUES, max_size=3).map(json.dumps).map(str.encode)))
def test_any_journal_of_pack_is_read_or_refused(content):
    options = {"segment": 96}
    for before in (b"", json.dumps(options).encode() + b"\n"):
        with TemporaryDirectory() as name:
            (Path(name) / journal.NAME).write_bytes(before + content.replace(b"}, {", b"}\n{").strip(b"[]") + b"\n")
            try:
                with journal.Journal(Path(name), options) as found:
                    pass
            except PipebenchError:
                continue
            assert all(isinstance(entry, journal.Entry) for entry in found.entries.values())


def test_a_journal_that_nests_without_end_is_refused(tmp_path):
    (tmp_path / journal.NAME).write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(PipebenchError, match="is not what pack wrote"):
        journal.Journal(tmp_path, {})
