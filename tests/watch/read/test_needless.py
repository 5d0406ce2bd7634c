"""Functions that gave each sample the same, or one sample the same several times: what is told of their lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import loader, result

from pipebench.render import layout
from pipebench.render.watch_drilled import all_drilled
from pipebench.render.watch_verdict import known_line
from pipebench.results.drilled import DrilledLine, DrilledRow, NeedlessCall, known
from pipebench.results.watched import StageResult
from pipebench.watch.launch.stacks import Fetching, Look, Looks
from pipebench.watch.read.drilled import drilled_rows
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.needless import needless_calls, needless_elsewhere, needless_line, with_needless
from pipebench.watch.record.lines import LoaderFound, NewStage, ProcessStarted, StageName
from pipebench.watch.record.own_code import Place
from pipebench.watch.record.sample_calls import FunctionCalls, SampleCalls

DATA, LIBRARY = "/home/me/data.py", "/env/lib/python3.11/site-packages/librosa/filters.py"
MS = 1_000_000


def _calls(**other: Any) -> FunctionCalls:
    plain: dict[str, Any] = {
        "file": DATA, "name": "Clips.bank", "first": 10, "last": 19, "at_file": DATA, "at_line": 30, "calls": 1,
        "again": 0, "spent_ns": 60 * MS, "again_ns": 30 * MS, "given": 7, "gave": 8, "result_bytes": 0,
        "several": False, "rough": False, "takes": 0,
    }  # fmt: skip
    return FunctionCalls(**plain | other)


def _samples(*each: list[FunctionCalls], sample: Any = None) -> list[SampleCalls]:
    first = SampleCalls(1, 99, 100 * MS, [])
    return [first, *(SampleCalls(1, sample or at, 100 * MS, found, 100) for at, found in enumerate(each, 1))]


def _run(lines: list[SampleCalls]) -> Run:
    script = Process([ProcessStarted(9, "script", 0), LoaderFound(1, "Clips", 2, 8, "fork", 2)])
    stage = NewStage(5, StageName("getitem", "Clips.__getitem__"))
    workers = [Process([ProcessStarted(10 + at, "worker", 7, 1, at, "fork"), stage, *lines[at::2]]) for at in range(2)]
    return Run([script, *workers], ShownTime(), (1,))


def _told(*each: list[FunctionCalls], **more: Any) -> list[str]:
    return [one.told.what for one in needless_calls(_run(_samples(*each, **more)), 1, [])]


def test_what_gave_the_same_in_three_samples_of_any_workers_is_told() -> None:
    assert _told([_calls()], [_calls()], [_calls()]) == ["each"]
    assert _told(*([_calls(takes=2)] for _ in range(3))) == ["arguments"]
    made = _calls(name="Bank.__init__")
    assert _told([made], [made], [made]) == ["object"]
    again = _calls(calls=4, again=2)
    assert _told(*([again._replace(given=at, gave=at)] for at in (1, 2, 3))) == ["before"]


@pytest.mark.parametrize(
    "other",
    [
        {"given": 1}, {"gave": 1}, {"given": 0}, {"gave": 0}, {"spent_ns": 2 * MS, "other": True},
        {"calls": 4, "gave": 9},
    ],
)  # fmt: skip
def test_what_differed_once_or_is_not_known_or_short_is_not(other: dict[str, Any]) -> None:
    everywhere = other.pop("other", False)
    last = _calls(**other)
    assert not _told(*([[last]] * 3 if everywhere else [[_calls()], [_calls()], [last]]))


def test_too_few_samples_or_one_sample_again_or_a_function_that_some_do_not_call_is_not() -> None:
    assert not _told([_calls()], [_calls()])
    assert not _told([_calls()], [_calls()], [_calls()], sample=4)
    assert not _told([_calls()], [_calls()], [_calls()], [_calls(name="other", given=0)])
    some = _calls(calls=5, again=1, given=0)
    assert not _told([some], [some], [some])


def _rows(lines: list[SampleCalls], *places: Place) -> Any:
    looks = Looks({Fetching(10, 7, 1): [Look(at, 5, place) for at, place in enumerate(places * 20)]})
    stage = StageResult("Clips.__getitem__", "getitem", 1, 100, 0.01, 0.9)
    run = _run(lines)
    rows = drilled_rows(run, [stage], looks, lambda _, at: f"    x = line({at})")
    (row,) = with_needless(rows, {1: needless_calls(run, 1, [stage])})
    return row


def _elsewhere(run: Run, stages: Any = (), rows: Any = ()) -> list[NeedlessCall]:
    return [*needless_elsewhere([needless_calls(run, 1, stages)], rows)]


def test_all_lines_of_the_function_are_told_together_and_not_the_rest_of_the_line_that_calls_it() -> None:
    inside, calling = Place(DATA, "Clips.bank", 15), Place(DATA, "Clips.__getitem__", 30)
    other = Place(DATA, "Clips.__getitem__", 31)
    row = _rows(_samples([_calls()], [_calls()], [_calls()]), inside, calling, other)
    assert {one.line: one.title != "" for one in row.lines} == {15: True, 30: False, 31: False}
    told = next(one for one in row.lines if one.line == 15)
    assert known_line(told) == (
        "change data.py:30 to a kept result. Clips.bank, called at data.py:30, gave the same in each of 3 samples. "
        "Call it once, when the dataset or transform is made, and keep what it gives; copy that where it is changed."
    )


_OTHERS = Place(DATA, "Clips.__getitem__", 30), Place(DATA, "Clips.__getitem__", 30, "librosa.stft")


def test_a_librarys_function_is_told_at_the_line_that_calls_it() -> None:
    mel = _calls(file=LIBRARY, name="mel", calls=2, again=1, given=0)
    row = _rows(_samples([mel], [mel], [mel]), Place(DATA, "Clips.__getitem__", 30, "librosa.mel"), *_OTHERS)
    assert [one.title != "" for one in row.lines] == [True, False, False]
    assert known_line(row.lines[0]).endswith(
        "to a single call. Of 6 calls of librosa.mel (data.py:30) in 3 samples, 3 gave what one before "
        "had given. Keep what it gives for as long as the sample is made, unless something changes it."
    )


def test_a_librarys_function_that_several_lines_call_is_told_at_each() -> None:
    mel = _calls(file=LIBRARY, name="mel", calls=2, again=1, given=0, several=True)
    places = (Place(DATA, "Clips.__getitem__", at, "librosa.mel") for at in (30, 31))
    row = _rows(_samples([mel], [mel], [mel]), *places)
    assert [one.title != "" for one in row.lines] == [True, True]


def test_what_has_its_time_in_other_rows_is_told_apart() -> None:
    samples = _samples(*([[_calls(spent_ns=30 * MS)]] * 3))
    run = _run(samples)
    (told,) = _elsewhere(run)
    assert (told.what, told.function, told.line, told.share, told.loader) == ("each", "Clips.bank", 30, 0.3, 1)
    assert not _elsewhere(run, [], [_rows(samples, Place(DATA, "Clips.bank", 15))])


CUT = """\
class Clips:
    def __getitem__(self, index):
        wave = read(self.files[index])
        mel = self.logmel(wave)
        start = int(draw() * (mel.shape[1] - self.frames))
        mel = mel[:, start:start + self.frames]
        return mel, self.labels[index]
"""


def _cut(source: str = CUT, **other: Any) -> list[NeedlessCall]:
    text = ["", *source.splitlines(keepends=True), *[""] * 200]
    mel = _calls(name="LogMel.__call__", first=90, last=99, at_line=4, **{"result_bytes": 1000, **other})
    each = ([mel._replace(given=at, gave=at)] for at in (1, 2, 3))
    return [one.told for one in needless_calls(_run(_samples(*each)), 1, [], lambda _, at: text[at])]


def test_a_result_of_which_only_a_part_is_kept() -> None:
    (told,) = _cut()
    assert (told.what, told.line, told.whole_bytes, told.kept_bytes) == ("cut", 4, 1000, 100)
    assert told.share == pytest.approx(0.6 * 0.9)  # a part is needed
    assert known_line(needless_line(told)).startswith(
        "change data.py:4 to the part cut out first. LogMel.__call__, called at data.py:4, gives 1.00 kB, of which a "
        "part is cut out: a whole sample has 100 B."
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mel = mel[:, start:start + self.frames]", "mel = resized(mel, self.frames)"),
        ("        start = int(draw() *", "        mel = mel - mel.mean()\n        start = int(draw() *"),
        ("start = int(draw() *", "start = int(draw(mel.max()) *"),
        ("        mel = self", "        mel, _ = self"),
        ("return mel,", "return mel, mel[:, 4:start],"),
    ],
)
def test_a_result_that_is_used_as_a_whole_is_needed(old: str, new: str) -> None:
    if "return" not in old:
        assert not _cut(CUT.replace(old, new))
    else:  # what is cut has the same name
        assert _cut(CUT.replace(old, new))


def test_a_result_that_is_hardly_larger_than_the_sample_is_needed() -> None:
    assert not _cut(result_bytes=299) and _cut(result_bytes=300)
    assert not _cut(at_file=LIBRARY)


def test_of_functions_that_call_each_other_the_outermost_is_told() -> None:
    outer, inner = _calls(), _calls(file=LIBRARY, name="mel", first=1, last=9, at_line=12, spent_ns=50 * MS)
    innermost = _calls(file=LIBRARY, name="hz", first=20, last=29, at_file=LIBRARY, at_line=5, spent_ns=40 * MS)
    each = [outer, inner, innermost]
    found = needless_calls(_run(_samples(each, each, each)), 1, [])
    assert [one.told.function for one in found] == ["Clips.bank"]


def test_a_repetition_that_takes_no_time_saves_nothing() -> None:
    again = [_calls(calls=3, again=2, again_ns=1000, given=at, gave=at) for at in (1, 2, 3)]  # a memo of its own
    assert not _told(*([one] for one in again))


def test_what_a_library_calls_cannot_be_changed() -> None:
    inner = _calls(file=LIBRARY, name="hz", at_file=LIBRARY)
    assert not _told([inner], [inner], [inner])


def test_a_rough_time_gives_no_figure_but_the_lines() -> None:
    rough = _calls(rough=True, spent_ns=MS)
    samples = _samples([rough], [rough], [rough])
    row = _rows(samples, Place(DATA, "Clips.bank", 15))
    assert row.lines[0].title and row.lines[0].needless.share == 0
    assert all(not one.share for one in _elsewhere(_run(samples)))


def test_its_share_is_of_batches_and_counts_what_it_saves() -> None:
    collate = StageResult("default_collate", "collate", 1, 100, 0.01, 0.5)
    samples = _samples([_calls()], [_calls()], [_calls()])
    (told,) = _elsewhere(_run(samples), [collate])
    assert told.share == pytest.approx(0.3)
    halved = NeedlessCall("before", "load", DATA, 30, False, 3, 6, 3, 0, 0, 0.5, 0.2, 1)
    ((share, *_),) = known([(0.4, needless_line(halved))])
    assert share == pytest.approx(0.2)


def test_what_no_look_found_is_told_once_with_what_to_do() -> None:
    """And what lines tell is not told again."""
    load = NeedlessCall("before", "load", DATA, 30, True, 3, 6, 3, 0, 0, 0.5, 0.3, 1)
    run = replace(result(loader()), needless=(load,), drilled=())
    shown = layout.text(list(all_drilled(run, {1}, full=False)), width=400)
    assert shown.strip() == (
        "Of 6 calls of load (data.py:30 and elsewhere) in 3 samples, 3 gave what one before had given. Without that, "
        "batches would take about 30 % less. Keep its result for as long as the sample is made."
    )
    line = needless_line(load, DrilledLine(DATA, "load", 15, "", "", 9, 0.4, 0.3, 0.5))
    row = DrilledRow(1, "load", "function", 0.5, 30, 0, (line,))
    shown = layout.text(list(all_drilled(replace(run, drilled=(row,)), {1}, full=False)), width=400)
    assert shown.count("gave what one before had given") == 1 and "about 30 % less" in shown
