"""Files that are opened again and again while samples are made: which they are, and which lines read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipebench.results.watched import StageResult
from pipebench.watch.launch.stacks import Fetching, Look, Looks
from pipebench.watch.read.drilled import drilled_rows
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.known_lines import Line, known
from pipebench.watch.read.known_table import AGAIN, AGAIN_MADE
from pipebench.watch.read.opened_again import open_at, opened_again
from pipebench.watch.record.lines import LoaderFound, NewStage, PassBegun, ProcessStarted, StageName
from pipebench.watch.record.own_code import Place

VOCAB, LOG = "/data/vocab.json", "/tmp/log.txt"
READS, REST = Place("/home/me/data.py", "Words.__init__", 2, "json.load"), Place("/home/me/data.py", "encode", 9)


def _looks(*files: Sequence[str]) -> list[Look]:
    return [
        Look(at, 5, READS if VOCAB in one else REST, frozenset((*one, LOG)) if one is not None else None)
        for at, one in enumerate(files)
    ]


def _run(passes: int = 1, name: StageName | None = None, **loader: Any) -> Run:
    found = LoaderFound(1, "Clips", 2, 8, "fork", 2, **loader)
    script = Process([ProcessStarted(9, "script", 0), found, *(PassBegun(1, n, 0) for n in range(passes))])
    worker = [ProcessStarted(10, "worker", 7, 1, 0, "fork"), *([NewStage(5, name)] if name else [])]
    return Run([script, Process(worker)], ShownTime(), (1,))


def _again(looks: list[Look], **run: Any) -> frozenset[str]:
    return opened_again(_run(**run), Looks({Fetching(10, 7, 1): looks}))[1]


def test_a_file_that_is_open_and_closed_in_turns_is_opened_anew() -> None:
    assert _again(_looks(*[(VOCAB,), ()] * 4)) == {VOCAB}
    assert not _again(_looks(*[(VOCAB,), ()] * 3))  # twice after the first time
    assert not _again(_looks(*[()] * 4, *[(VOCAB,)] * 9, *[()] * 4))  # once
    unread = Look(1, 5, None)
    assert not _again([one for look in _looks(*[(VOCAB,)] * 9) for one in (look, unread)])


def test_what_each_pass_of_a_worker_opens_once_is_as_it_should_be() -> None:
    looks = _looks(*[(VOCAB,), ()] * 5)
    assert not _again(looks, passes=5, persistent=True)
    assert _again(looks, passes=5) == {VOCAB}  # of one pass: each has workers of its own


def test_the_file_of_a_line_is_open_at_most_looks_at_it() -> None:
    looks = _looks((VOCAB,), (VOCAB,), (VOCAB,), (VOCAB,), ())
    assert open_at(looks, frozenset({VOCAB})) == VOCAB
    assert open_at(looks[1:], frozenset({VOCAB})) == ""
    assert open_at(looks, frozenset()) == "" and open_at([], frozenset({VOCAB})) == ""


def _known(text: str, calls: str = "", above: str = "", function: str = "Words.table", **more: Any) -> Any:
    lines = ["    def table(self, path):", *(f"        {one}" for one in above.splitlines())]
    return known(Line(text, calls, function, "encode", "transform", 16, lines, iterable=True, again=True, **more))


@pytest.mark.parametrize(
    ("text", "calls", "above"),
    [
        ("self.table = json.load(f)", "json.load", "with open(path) as f:"),
        ("stats = np.load(path)", "numpy.load", ""),
        ("stats = pickle.load(f)", "", "with open(path, 'rb') as f:"),
        ("table = json.loads(f.read())", "json.loads", "f = open(path)"),
        ("word, number = line.split()", "", "with open(path) as f:\n    for line in f:"),
        ("table = {word: at for at, word in enumerate(f)}", "codecs.decode", "with gzip.open(path, 'rt') as f:"),
    ],
)
def test_a_line_that_reads_such_a_file_is_known(text: str, calls: str, above: str) -> None:
    assert _known(text, calls, above) is AGAIN
    assert _known(text, calls, above, "Words.__init__") is AGAIN_MADE


@pytest.mark.parametrize(
    ("text", "calls", "above"),
    [
        ("x = f['images'][i]", "h5py.Dataset.__getitem__", "with h5py.File(path) as f:"),
        ("row = json.loads(f.readline())", "json.loads", "with open(path) as f:\n    f.seek(place)"),
        ("x = np.load(path, mmap_mode='r')[i]", "numpy.load", ""),
        ("part = pd.read_csv(path, skiprows=i, nrows=5)", "pandas.read_csv", ""),
        ("member = f.extractfile(name)", "tarfile.TarFile.extractfile", "with tarfile.open(path) as f:"),
        ("x = resized(x)", "cv2.resize", "with open(path) as f:"),
    ],
)
def test_a_line_that_reads_a_part_of_it_or_nothing_is_not(text: str, calls: str, above: str) -> None:
    assert _known(text, calls, above) not in (AGAIN, AGAIN_MADE)


def test_the_line_has_the_name_of_the_file() -> None:
    source = ["", "    def __init__(self, path):", "        self.table = json.load(open(path))", *[""] * 200]
    stage = StageResult("encode", "transform", 1, 100, 0.01, 0.9)
    run = _run(name=StageName("transform", "encode", own=True), shards=4)
    looks = Looks({Fetching(10, 7, 1): _looks(*[(VOCAB,), (VOCAB,), (VOCAB,), ()] * 10)})
    (row,) = drilled_rows(run, [stage], looks, lambda _, at: source[at])
    assert [(one.line, one.title, one.reread) for one in row.lines] == [
        (2, "the file read once", VOCAB),
        (9, "", ""),
    ]
