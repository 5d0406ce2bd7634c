"""The last sample of a worker is known, however the worker ends."""

import os
import signal

import pytest

from pipebench.watch.record.last_sample import PresentSample, last_sample, text_of


class Number:
    def __index__(self):
        return 41


class Mute:
    def __repr__(self):
        raise ValueError("no name")


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (9, "9"),
        (-3, "-3"),
        (Number(), "41"),
        ("a/b.jpg", "'a/b.jpg'"),
        ([4, 5], "[4, 5]"),
        (2**70, str(2**70)),
        ("é" * 500, None),
        (range(3), "range(0, 3)"),
        (([7] * 9, "a"), "([7, 7, 7, 7, 7, 7, 7, 7, 7], 'a')"),
    ],
)
def test_a_killed_process_leaves_its_sample(index, name, tmp_path):
    record = tmp_path / "1-2.spans"
    child = os.fork()
    if child == 0:
        present = PresentSample(str(record))
        present.begin()
        present.note(5)
        present.note(index)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    found = last_sample(record)
    assert found.inside and (found.name == name if name else found.name.startswith("'é"))


def test_between_two_batches(tmp_path):
    present = PresentSample(str(tmp_path / "1-2.spans"))
    assert last_sample(tmp_path / "1-2.spans") is None
    present.begin()
    present.note(5)
    present.note(Mute())
    present.end()
    assert last_sample(tmp_path / "1-2.spans") == ("5", False)
    present.remove()
    assert last_sample(tmp_path / "1-2.spans") is None and not list(tmp_path.iterdir())


def test_without_room_nothing_is_noted_and_nothing_fails(tmp_path):
    present = PresentSample(str(tmp_path / "nowhere" / "1-2.spans"))
    present.begin()
    present.note(5)
    present.remove()


@pytest.mark.parametrize("content", [b"", b"\xff" * 7, b"\xff" * 256, bytes(256)])
def test_garbage_names_no_sample(content, tmp_path):
    (tmp_path / "1-2.at").write_bytes(content)
    assert last_sample(tmp_path / "1-2.spans") is None


class Counted:
    told = 0

    def __repr__(self):
        Counted.told += 1
        return "one"


@pytest.mark.parametrize("kind", [list, tuple])
def test_only_as_much_of_many_indices_is_told_as_there_is_room_for(kind):
    Counted.told = 0
    assert len(text_of(kind([Counted()] * 10_000))) == 224 and Counted.told == 100
    assert text_of(Mute()) is None
