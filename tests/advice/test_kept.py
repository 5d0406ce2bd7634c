"""What each sample builds or opens anew with the same arguments is kept, if the samples stay the same."""

import collections
import functools
import os
import pickle
import random
import runpy
import sqlite3
import sys
import types
import zipfile
import zipfile as archives  # a second name of a module
from dataclasses import replace

import numpy as np
import pytest
import small_worker
import torch
from made_up_trials import seen
from PIL import Image

from pipebench.remedies import kept, slow_lines
from pipebench.results.drilled import DrilledLine, DrilledRow, NeedlessCall
from pipebench.watch.record.trial_lines import LoaderMade
from pipebench.watch.trial.edits import Refused

FILE = os.path.abspath(__file__)


class Window:
    """Something that takes long to build."""

    built = 0

    def __init__(self, length, kind="hann"):
        Window.built += 1
        self.values = np.hanning(length)


class Counter:
    def __init__(self, first):
        self.count = first

    def next(self):
        self.count += 1
        return self.count


class Windows:
    def __getitem__(self, index):
        window = Window(8, kind="hann")
        assert isinstance(window, Window)
        return torch.from_numpy(window.values) * index


class Plain:
    def __init__(self):
        self.values = np.hanning(8)


class Twice(Plain):
    def __init__(self):
        Plain.__init__(self)
        self.values = 2 * self.values


class Plains:
    def __getitem__(self, index):
        return torch.from_numpy(Plain().values + Twice().values) * index


class Counts:
    def __getitem__(self, index):
        return Counter(0).next()


class Own:
    def __getitem__(self, index):
        return Window(index + 4).values


class Zipped:
    def __init__(self, file):
        self.file = file

    def __getitem__(self, index):
        with zipfile.ZipFile(self.file) as archive:
            assert isinstance(archive, zipfile.ZipFile)
            return archive.read(f"{index}.txt")


class Rows:
    def __init__(self, file):
        self.file = file

    def __getitem__(self, index):
        rows = sqlite3.connect(self.file)
        try:
            return rows.execute("select value from data where number = ?", (index,)).fetchone()[0]
        finally:
            rows.close()


class Jitter:
    """What it changes by is drawn when it is built."""

    def __init__(self, most):
        self.angle = random.uniform(-most, most)


class Jittered:
    def __getitem__(self, index):
        return Jitter(0.3).angle + index


class Bars:
    """Prices, of which one is called as a method that ends an object."""

    def __init__(self, name):
        self.open, self.close = np.arange(5.0), np.arange(5.0) + 1


class Prices:
    def __getitem__(self, index):
        return float(Bars("x").close.sum()) * index


class Old(Window):
    def __init__(self, length):
        super(Old, self).__init__(length)  # noqa: UP008


class Olds:
    def __getitem__(self, index):
        return Old(8).values.sum() * index


class Stack:
    def __init__(self, file):
        self.file = file

    def __getitem__(self, index):
        with Image.open(self.file) as pages:
            pages.seek(index)
            return pages.getpixel((0, 0))


def _fetched(dataset, name, batches, told=None):
    edit = kept.edit(name, FILE)
    return small_worker.fetched(dataset, edit, batches, told=told)


def test_an_object_of_a_class_is_built_once_for_its_arguments_and_then_the_class_is_as_before():
    plain = Window
    told, batches = [], [[1, 2], [3, 4], [5, 6]]
    before = [[Windows()[one] for one in batch] for batch in batches]
    Window.built = 0
    found = _fetched(Windows(), "Window", batches, told)
    assert all(torch.equal(*pair) for pairs in zip(found, before, strict=True) for pair in zip(*pairs, strict=True))
    assert Window.built == 2 * 2 + 1  # two samples of the first batch, twice, to compare; then one for all
    assert [one.largest for one in told] == [0.0] and Window is plain


def test_an_archive_stays_open_though_each_sample_closes_it(tmp_path, monkeypatch):
    opened = []
    real = zipfile.ZipFile.__init__
    monkeypatch.setattr(zipfile.ZipFile, "__init__", lambda self, *args: opened.append(args) or real(self, *args))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(6):
            archive.writestr(f"{number}.txt", str(number) * 100)
    opened.clear()
    found = _fetched(Zipped(tmp_path / "a.zip"), "zipfile.ZipFile", [[0, 1], [2, 3], [5, 4]])
    assert [one[:1] for batch in found for one in batch] == [b"0", b"1", b"2", b"3", b"5", b"4"]
    assert len(opened) == 5 and zipfile is archives


def test_a_connection_of_a_class_in_c_stays_open(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as rows:
        rows.execute("create table data (number integer, value integer)")
        rows.executemany("insert into data values (?, ?)", [(one, one * one) for one in range(6)])
    rows.close()
    assert _fetched(Rows(tmp_path / "a.db"), "sqlite3.connect", [[0, 1], [4, 5]]) == [[0, 1], [16, 25]]
    assert isinstance(sqlite3.connect(":memory:"), sqlite3.Connection)


@pytest.mark.parametrize(
    ("dataset", "name", "reason"),
    [
        (Counts(), "Counter", "samples-differ"),  # it counts on
        (Own(), "Window", "not-anew"),
        (Jittered(), "Jitter", "draws-numbers"),  # samples are compared with the same random numbers
        (Windows(), "Elsewhere", "no-such-stage"),
    ],
)
def test_what_has_a_state_or_other_arguments_each_time_is_not_kept(dataset, name, reason):
    with pytest.raises(Refused, match=reason):
        _fetched(dataset, name, [[1, 2, 3]])


def test_a_batch_of_one_sample_is_made_again_to_compare():
    plain = Windows()[3]
    assert all(torch.equal(one, plain) for (one,) in _fetched(Windows(), "Window", [[3], [3]]))
    with pytest.raises(Refused, match="samples-differ"):
        _fetched(Counts(), "Counter", [[3], [4]])


def test_a_value_that_is_called_close_stays_and_a_class_may_name_itself():
    assert _fetched(Prices(), "Bars", [[1, 2], [3]]) == [[15.0, 30.0], [45.0]]
    found = _fetched(Olds(), "Old", [[1, 2], [3]])
    assert found == [[Olds()[1], Olds()[2]], [Olds()[3]]]


def test_a_lock_that_is_kept_is_released():
    class Lock:
        held = 0

        def __enter__(self):
            self.held += 1

        def __exit__(self, *_):
            self.held -= 1

    lock = kept._left_open(Lock())
    with lock:
        assert lock.held == 1
    assert lock.held == 0


class Archive:
    """Its end closes more than `close`."""

    def __init__(self, number=3):
        self.number = number

    def close(self):
        self.number = 0

    def __exit__(self, *_):
        self.number = 0


@pytest.mark.parametrize("found", [Archive(), collections.deque([3])])
def test_what_is_left_open_may_be_a_part_of_a_sample_that_is_sent(found):
    """A class written in C has an object of ours around it."""
    opened = kept._left_open(found) if isinstance(found, Archive) else kept._Open(found)
    sent = pickle.loads(pickle.dumps(opened))
    assert type(sent) in (Archive, collections.deque)
    assert getattr(sent, "number", 3) == 3 and type(opened) is not type(sent)
    opened.close()
    assert getattr(opened, "number", 3) == 3


def test_a_connection_that_stays_open_counts_as_one():
    assert kept._left_open(sqlite3.connect(":memory:")) and not kept._Open([])


def test_the_pages_of_an_image_stay_open_though_its_end_calls_no_close(tmp_path):
    pages = [Image.new("L", (8, 8), one) for one in range(6)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    assert _fetched(Stack(tmp_path / "a.tif"), "Image.open", [[1, 2], [5, 4]]) == [[1, 2], [5, 4]]


def test_a_spawned_worker_looks_up_names_elsewhere_than_in_its_main_module(tmp_path, monkeypatch):
    """As `multiprocessing` makes it: the module shows a copy of the names on which its functions run."""
    script = tmp_path / "train.py"
    script.write_text(
        "class Slow:\n    built = []\n    def __init__(self, size):\n        self.built.append(size)\n"
        "class Data:\n    def __getitem__(self, index):\n        Slow(3)\n        return index\n"
    )
    main = types.ModuleType("__mp_main__")
    vars(main).update(runpy.run_path(str(script), run_name="__mp_main__"))
    monkeypatch.setitem(sys.modules, "__mp_main__", main)
    edit = kept.edit("Slow", str(script))
    assert small_worker.fetched(main.Data(), edit, [[1, 2], [3, 4]]) == [[1, 2], [3, 4]]
    assert len(main.Slow.built) == 2 * 2 + 1


def _line(text, share, line=7):
    return DrilledLine(FILE, "read", line, "", text, 100, share, share, share)


def _seen(*lines, worker_share=0.8, **more):
    row = DrilledRow(1, "__getitem__", "getitem", worker_share, 200, 0, lines)
    figures = seen(0.5, **more)
    return replace(figures, discards=True, watched=replace(figures.watched, drilled=(row,)))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("with zipfile.ZipFile(self.file) as archive:", "zipfile.ZipFile"),
        ("mel = torchaudio.transforms.MelSpectrogram(16000)(wave)", "torchaudio.transforms.MelSpectrogram"),
        ("rows = sqlite3.connect(path)", "sqlite3.connect"),
        ("return np.sqrt(values)", None),
        ("for one in self.reopen(path):", None),
        ("rows = pandas.read_csv(Path(self.root) / name)", None),  # a path costs nothing
        ("image = decode(path)  # not Image.open(path)", None),
        ("rows = read('Table(1)', zipfile.ZipFile(path))", "zipfile.ZipFile"),
        ("with self.Reader(path) as one, shelf[0].open(path) as two:", None),  # no names of the module
        ("with self.lock, zipfile.ZipFile(path) as archive:", "zipfile.ZipFile"),
    ],
)
def test_a_line_that_takes_much_of_the_time_names_what_is_built_there(text, name):
    change = kept.propose(_seen(_line("pass", 0.1), _line(text, 0.6)), [])
    assert (change and change.edits["kept"]) == (name and {"name": name, "file": FILE})
    if change is not None:
        assert change.predicted == pytest.approx(1 / (1 - 0.8 * 0.6)) and change.discards
        assert change.title == f"{name} kept" and any(f"return {name}(*arguments" in one for one in change.how)


def test_what_takes_little_or_what_was_tried_is_not_proposed():
    line = _line("Window(8)", 0.6)
    assert kept.propose(_seen(_line("Window(8)", 0.1)), []) is None
    assert kept.propose(_seen(line, worker_share=0.2), []) is None
    assert kept.propose(_seen(line, num_workers=0), []) is None
    assert kept.propose(replace(_seen(line), discards=False), []) is None
    assert kept.propose(_seen(line), [object()]) is None


def test_what_a_function_gets_decides_what_it_gives():
    """Numbers that are equal and of different types are different arguments."""
    keeper = kept._Keeper()
    call = functools.partial(keeper.serve, lambda *args, **named: [args, named])
    assert call((1,), {}) is call((1,), {}) and call((1,), {}) is not call((1.0,), {})
    assert call((1,), {"a": 2}) is not call((1, 2), {}) and keeper.again == 2  # not of the other types
    assert call(([1],), {}) is not call(([1],), {})
    assert call(((1,),), {}) is not call(((True,),), {})


def test_the_latest_ones_are_kept_as_in_the_lines_that_the_user_writes():
    keeper = kept._Keeper()
    for number in (*range(kept._MOST), 0, kept._MOST):
        keeper.serve(lambda one: [one], (number,), {})
    assert keeper.again == 1 and len(keeper.kept) == kept._MOST
    assert [keeper.serve(lambda one: [one], (number,), {}) for number in (0, 1)] == [[0], [1]] and keeper.again == 2


def test_the_lines_that_the_user_writes_run_with_named_arguments():
    space = {"Window": Window}
    _, *lines, last = kept._how("Window")
    exec("\n".join(lines), space)
    first, again = (space["kept"](1, 8, kind="hann") for _ in range(2))
    assert first is again and isinstance(first, Window) and first is not space["kept"](2, 8, kind="hann")
    assert "close" in last


def _within(function, share, text="self.bank[m, b] = weight"):
    return DrilledLine(FILE, function, 7, "", text, 100, share, share, share)


def test_a_class_that_takes_long_to_build_is_kept_where_it_is_called(tmp_path):
    data = tmp_path / "data.py"
    data.write_text("import models\n\ndef read(wave):\n    return models.Mel()(wave)\n\nloader = DataLoader(wave)\n")
    made = LoaderMade(1, str(data), 6, 6, 9, 25, "main", 10)
    lines = _within("Mel.__init__", 0.3), _within("Mel.__init__", 0.2), _within("read", 0.5)
    change = kept.propose(replace(_seen(*lines), made=made), [])
    assert change.edits["kept"] == {"name": "models.Mel", "file": str(data)} and change.at.line == 4
    assert change.predicted == pytest.approx(1 / 0.6)
    for function in ("main.<locals>.Mel.__init__", "Mel.forward", "__init__", "Base.__init__"):
        assert kept.propose(replace(_seen(_within(function, 0.9)), made=made), []) is None
    assert kept.propose(replace(_seen(_within("Mel.__init__", 0.1)), made=made), []) is None


def test_a_subclass_may_call_the_class_by_name():
    (found, _) = _fetched(Plains(), "Plain", [[1, 2], [3]])
    assert torch.equal(found[1], 2 * torch.from_numpy(np.hanning(8) + 2 * np.hanning(8)))


@pytest.mark.parametrize(
    ("what", "function", "text", "name"),
    [
        ("each", "mel_bank", "    bank = mel_bank()", "mel_bank"),
        ("arguments", "mel_bank", "    bank = mel_bank(16000, 512)", "mel_bank"),
        ("each", "librosa.mel", "    bank = librosa.filters.mel(sr=16000)", "librosa.filters.mel"),
        ("object", "torchaudio.Resample", "    return Resample(8, 4)(wave)", "Resample"),
        ("each", "Clips.bank", "    bank = self.bank()", None),  # a method
        ("before", "load", "    x = load(path), load(path)", None),
        ("cut", "mel", "    x = mel(wave)", None),
        ("each", "mel_bank", "    bank = tables[0].mel_bank(16000)", None),
    ],
)
def test_a_call_that_gave_each_sample_the_same_is_kept(what, function, text, name, tmp_path):
    file = tmp_path / "data.py"
    file.write_text(f"def sample():\n{text}\n")
    told = NeedlessCall(what, function, str(file), 2, False, 3, 3, 2, 900, 90, 1.0, 0.6, 1)
    figures = replace(seen(0.5), discards=True)
    figures = replace(figures, watched=replace(figures.watched, needless=(told,)))
    change = kept.propose(figures, [])
    assert (change and change.edits["kept"]) == (name and {"name": name, "file": str(file)})
    other = slow_lines.propose(figures, [])  # what cannot be tried is told
    assert (other is None) == (name is not None)
    if other is not None:
        assert other.how[0].startswith(
            ("Clips.bank, called", "Of 3 calls", "mel, called at data.py:2, gives", "mel_bank,")
        )
    small = replace(figures, watched=replace(figures.watched, needless=(replace(told, share=0.1),)))
    assert kept.propose(small, []) is None
