"""The stack of another process, read from outside: the functions and lines that it really stands in."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watching import PATIENCE_S

from pipebench.watch.launch import stacks
from pipebench.watch.launch.stacks import Fetching, StackReader
from pipebench.watch.record.lines import StackPlace
from pipebench.watch.record.own_code import OURS, Function, Place, own_place, owner, plain_name
from pipebench.watch.record.patches import HIDDEN
from pipebench.watch.record.record_file import encoded

USER, TORCH, LIBRARY = "/home/me/data.py", "/v/site-packages/torch/utils/data/fetch.py", "/v/site-packages/sounds/io.py"
BASE = Function(HIDDEN, "fetch", 1)

# A process as a worker is: it tells where its stack lies, enters a stage, and stands in a known line until it is asked.
WAITING = """
import json, os, re, sys
from pipebench.watch.record.exclusive_time import StageTimer
from pipebench.watch.record.patches import unseen
from pipebench.watch.worker.stack_place import place_of

timer = StageTimer()

def asked(match):
    # Wherever it is between its two calls, it stands in the same line.
    return os.write(1, b"in stage 5%c" % 10) and str(os.read(0, 1))

def größe():
    yield re.sub("a", asked, "a")

class Photos:
    def __getitem__(self, index):
        return [one for one in größe()]

@unseen
def fetch():
    timer.switch(5)
    Photos()[0]
    timer.switch(0)
    os.write(1, b"in no stage%c" % 10) and os.read(0, 1)

print(json.dumps(vars(place_of(timer, 1, 7))), flush=True)
fetch()
"""


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    script = tmp_path / "größe.py"
    script.write_text(WAITING)
    started = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(stacks.__file__).parents[3]), "PYTHONUTF8": "1"},
    )  # fmt: skip
    yield started, str(script)
    started.kill()
    started.communicate(timeout=PATIENCE_S)


def _told(process: subprocess.Popen[str], folder: Path) -> tuple[StackReader, str]:
    """A reader that knows where the process's stack lies, and what the process says next."""
    assert process.stdout is not None
    reader = StackReader(folder)
    (folder / stacks.FOLDER / "one").write_text(f'["StackPlace", {process.stdout.readline()}]')
    return reader, process.stdout.readline()


def test_a_look_finds_the_line_and_the_library_function_that_it_calls(waiting: Any, tmp_path: Path) -> None:
    process, script = waiting
    reader, said = _told(process, tmp_path)
    assert said == "in stage 5\n"
    reader.look()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "in no stage\n"
    reader.look()
    (looks,) = reader.found.of.values()
    assert [(one.stage, one.place) for one in looks] == [(5, Place(script, "asked", 11))]
    assert set(reader.found.of) == {Fetching(process.pid, 7, 1)}


def test_the_whole_stack_is_read_through_generators_and_c(waiting: Any, tmp_path: Path) -> None:
    process, script = waiting
    reader, _ = _told(process, tmp_path)
    reader.look()
    (stack,) = reader._stacks.values()
    found = [(one.name, one.line) for one in stack.functions() if one.file == script]
    assert found[:2] == [("asked", 11), ("größe", 14)]
    assert ("Photos.__getitem__", 18) in found and found[-1] == ("<module>", 28)


def test_looking_ends_when_the_process_is_gone(waiting: Any, tmp_path: Path) -> None:
    process, _ = waiting
    reader, _ = _told(process, tmp_path)
    reader.look()
    process.kill()
    process.wait(PATIENCE_S)
    reader.look()
    assert not reader._stacks and reader.found.refused is None
    assert [len(one) for one in reader.found.of.values()] == [1]


class _Fixed:
    """A memory of which every word is the same."""

    def __init__(self, word: int) -> None:
        self._word = word

    def bytes(self, address: int, length: int) -> bytes:
        return self._word.to_bytes(8, "little") * (length // 8 + 1)

    def word(self, address: int) -> int:
        return self._word


class _Refusing:
    def bytes(self, address: int, length: int) -> bytes:
        raise OSError(errno.EPERM, "Operation not permitted")

    def word(self, address: int) -> int:
        raise OSError(errno.EPERM, "Operation not permitted")


def _reader_of(memory: Any, folder: Path) -> StackReader:
    reader = StackReader(folder, lambda pid: memory)
    place = StackPlace(1, 7, 1, 64, [8], 0, 8, 16, 24, 32, 40, 48, 56, 40, 48, 1, 128, 4096, 32)
    (folder / stacks.FOLDER / "one").write_bytes(encoded(place))
    return reader


def test_what_cannot_be_read_counts_as_a_look_without_a_line(tmp_path: Path) -> None:
    """In this memory the stage's number is 5, and no code is found on the stack."""
    reader = _reader_of(_Fixed(4096 + 5 * 32), tmp_path)
    reader.look()
    assert [(one.stage, one.place) for one in reader.found.of[Fetching(1, 7, 1)]] == [(5, None)]


@pytest.mark.parametrize(("failures", "told"), [(0, True), (3, True), (4, False)])
def test_a_stack_that_changed_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, told: bool
) -> None:
    places = iter([ValueError, OSError(errno.EFAULT, "Bad address"), None, None][:failures])

    def own_place(functions: Any) -> Place | None:
        found = next(places, Place("train.py", "load", 3))
        if found is not None and not isinstance(found, Place):
            raise found
        return found

    monkeypatch.setattr(stacks, "own_place", own_place)
    reader = _reader_of(_Fixed(4096 + 5 * 32), tmp_path)
    reader.look()
    assert [one.place is not None for one in reader.found.of[Fetching(1, 7, 1)]] == [told]


def test_looks_become_rarer_and_stay_spread_over_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "MOST_LOOKS", 8)
    reader = _reader_of(_Fixed(4096 + 5 * 32), tmp_path)
    turns = iter(range(1000))
    monkeypatch.setattr(stacks, "perf_counter_ns", lambda: next(turns))
    for _ in range(100):
        reader.look()
    kept = [one.at for one in reader.found.of[Fetching(1, 7, 1)]]
    assert 4 <= len(kept) <= 8 and reader._every == 16
    assert len({id(one.place) for one in reader.found.of[Fetching(1, 7, 1)]}) == 1


def test_ever_new_files_are_kept_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_MOST_NAMES", 30)
    monkeypatch.setattr(stacks, "own_place", lambda functions: Place("train.py", "load", 3))
    reader, turns = _reader_of(_Fixed(4096 + 5 * 32), tmp_path), iter(range(1000))
    monkeypatch.setattr(stacks, "open_files", lambda pid: frozenset({"shard", f"picture {next(turns) % 50}"}))
    for _ in range(60):
        reader.look()
    files = [one.files for one in reader.found.of[Fetching(1, 7, 1)]]
    assert [one is not None for one in files] == [True] * 15 + [False] * 35 + [True] * 10
    assert files[50] is files[0], "what is equal is kept once"


def test_a_row_that_ends_meanwhile_has_no_line(tmp_path: Path) -> None:
    class Ends(_Fixed):
        asked = 0

        def word(self, address: int) -> int:
            self.asked += address == 128
            return 4096 if self.asked > 1 else super().word(address)

    reader = _reader_of(Ends(4096 + 5 * 32), tmp_path)
    reader.look()
    assert [(one.stage, one.place) for one in reader.found.of[Fetching(1, 7, 1)]] == [(5, None)]


def test_a_system_that_forbids_it_is_named_and_not_asked_again(tmp_path: Path) -> None:
    reader = _reader_of(_Refusing(), tmp_path)
    reader.look()
    assert "Operation not permitted" in str(reader.found.refused) and not reader._stacks


def test_whose_code_a_file_holds() -> None:
    assert owner(USER) == owner("<stdin>") == ""
    assert owner(LIBRARY) == "sounds" and owner("/v/dist-packages/six.py") == "six"
    assert owner(subprocess.__file__) == "subprocess" and owner(errno.__name__ + ".py") == ""
    assert owner("<frozen importlib._bootstrap>") == owner("<string>") == "generated code"
    assert owner(HIDDEN) == owner(stacks.__file__) == "pipebench"


def test_the_deepest_line_of_the_users_is_taken() -> None:
    inner, load, item = Function(LIBRARY, "Reader.read", 9), Function(USER, "load", 41), Function(USER, "item", 7)
    fetch, outside = Function(TORCH, "fetch", 50), Function(USER, "main", 99)
    assert own_place([inner, load, item, BASE, fetch, outside]) == Place(USER, "load", 41, "sounds.Reader.read")
    assert own_place([item, BASE, outside]) == Place(USER, "item", 7)
    left = Function("/v/pipebench/watch/launch/bootstrap.py", "_run_file", 30)
    assert own_place([item, left]) is None
    assert own_place([load, Function(LIBRARY, "each", 3), item, BASE]) == Place(USER, "load", 41)


def test_a_dataset_of_a_library_is_drilled_into_as_that_library() -> None:
    image, load = Function("/v/site-packages/PIL/Image.py", "Image.convert", 5), Function(LIBRARY, "load", 3)
    torch = Function("/v/site-packages/torch/utils/data/dataset.py", "Subset.__getitem__", 1)
    assert own_place([image, load, torch, BASE]) == Place(LIBRARY, "load", 3, "PIL.Image.convert")
    assert own_place([torch, BASE]) == Place(*torch)


def test_of_a_librarys_function_that_is_a_row_the_users_line_is_taken() -> None:
    inner, load = Function(LIBRARY, "_read", 9), Function(LIBRARY, "load", 3)
    item, outside = Function(USER, "Clips.__getitem__", 7), Function(TORCH, "fetch", 50)
    assert own_place([inner, load, BASE, item]) == Place(USER, "Clips.__getitem__", 7, "sounds.load")
    assert own_place([inner, load, BASE, outside]) == Place(LIBRARY, "_read", 9)
    getter = Function(LIBRARY, "Sounds.__getitem__", 3)  # of a library's dataset inside the user's
    assert own_place([inner, getter, BASE, item]) == Place(LIBRARY, "_read", 9)
    own = Function(USER, "own_filter", 20)
    assert own_place([own, load, BASE, item]) == Place(USER, "own_filter", 20)


def test_a_stack_that_does_not_reach_the_row_has_no_place() -> None:
    assert own_place([Function(USER, "load", 41)]) is None and own_place([]) is None


def test_our_own_work_is_not_the_users() -> None:
    assert own_place([BASE, Function(TORCH, "fetch", 50), BASE]) == OURS


def test_a_name_is_plain() -> None:
    assert plain_name("load.<locals>.<genexpr>") == "load" and plain_name("<lambda>") == "<lambda>"


def test_the_files_that_a_process_has_open(tmp_path: Path) -> None:
    name = tmp_path / "vocab.json"
    with open(name, "w"), open(os.devnull):
        found = stacks.open_files(os.getpid())
        assert found is not None and str(name) in found and os.devnull not in found
    assert str(name) not in (stacks.open_files(os.getpid()) or ())
    assert stacks.open_files(2**30) is None
