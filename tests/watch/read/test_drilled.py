"""From looks at a stack to the lines of a large row: which rows, which lines, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipebench.render import layout
from pipebench.render.watch_drilled import drilled
from pipebench.results.drilled import DrilledLine, DrilledRow, Runs
from pipebench.results.watched import StageResult
from pipebench.watch.launch.stacks import Fetching, Look, Looks
from pipebench.watch.read.decoding import read
from pipebench.watch.read.drilled import BIAS, drilled_rows, interval
from pipebench.watch.read.each_loader import stage_results
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.exclusive_time import REST, StageTimer, stages
from pipebench.watch.record.lines import Fault, FetchSums, LoaderFound, NewStage, ProcessStarted, StageName
from pipebench.watch.record.own_code import OURS, Place
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.worker import stack_place
from pipebench.watch.worker.stack_place import Teller

LOAD = Place("/home/me/data.py", "load_audio", 41, "soundfile.read")
MIX, PAD = Place("/home/me/data.py", "Clips.mix", 60), Place("/home/me/data.py", "Clips.mix", 61)


def _rows(looks: Sequence[Look], share: float = 0.98, name: str = "Clips.__getitem__", **shown: float) -> Any:
    kind = "collate" if "collate" in name else "getitem"
    started = ProcessStarted(10, "worker", 7, 1, 0, "fork")
    process = Process([started, NewStage(5, StageName(kind, name)), NewStage(6, StageName("decode", "load"))])
    run = Run([process], ShownTime(**shown), (1,))
    stage = StageResult(name, kind, 1, 100, 0.01, share)
    return drilled_rows(run, [stage], Looks({Fetching(10, 7, 1): list(looks)}), lambda file, line: f"  line {line}\n")


def _looks(counts: dict[Place | None, int], stage: int = 5) -> list[Look]:
    return [Look(at, stage, place) for place, count in counts.items() for at in range(count)]


def test_shares_are_of_all_looks_at_the_row() -> None:
    (row,) = _rows([*_looks({LOAD: 60, MIX: 36, None: 4}), *_looks({LOAD: 50}, stage=6)])
    assert (row.looks, row.unread) == (100, 4)
    assert [(one.function, one.line, one.calls, one.text, one.share) for one in row.lines] == [
        ("load_audio", 41, "soundfile.read", "line 41", 0.6),
        ("Clips.mix", 60, "", "line 60", 0.36),
    ]


def test_how_often_a_line_waits_for_a_lock_is_told_where_it_is_known() -> None:
    waiting = [one._replace(at_lock=at < 15) for at, one in enumerate(_looks({MIX: 60}))]
    (row,) = _rows([*waiting, *_looks({LOAD: 40, MIX: 10})])
    assert [(one.line, one.at_lock) for one in row.lines] == [(60, 0.25), (41, None)]


def test_small_lines_of_a_function_are_put_together() -> None:
    (row,) = _rows(_looks({LOAD: 92, MIX: 4, PAD: 4}))
    assert [(one.function, one.line, one.looks) for one in row.lines] == [("load_audio", 41, 92), ("Clips.mix", 0, 8)]


def test_a_line_that_calls_many_functions_for_a_little_is_one_line() -> None:
    cuts = [LOAD._replace(line=67, calls=f"pandas.{name}") for name in ("iloc", "take", "columns")]
    (row,) = _rows(_looks({LOAD: 89, cuts[0]: 3, cuts[1]: 4, cuts[2]: 3, PAD: 1}))
    found = [(one.line, one.calls, one.looks) for one in row.lines]
    assert found == [(41, "soundfile.read", 89), (67, "pandas.take", 10), (0, "", 1)]


def test_a_comprehension_and_its_line_are_one_line() -> None:
    """Until Python 3.11 a list comprehension has a frame of its own; generators have one in every version."""
    inside = MIX._replace(function="Clips.mix.<locals>.<genexpr>")
    (row,) = _rows(_looks({MIX: 36, inside: 15, LOAD: 43, PAD: 3, PAD._replace(function=inside.function): 3}))
    found = [(one.function, one.line, one.looks) for one in row.lines]
    assert found == [("Clips.mix", 60, 51), ("load_audio", 41, 43), ("Clips.mix", 61, 6)]


@pytest.mark.parametrize(
    ("share", "name", "rows"),
    [(0.21, "A.__getitem__", 1), (0.2, "A.__getitem__", 0), (0.9, "my_collate", 1), (0.9, "default_collate", 0)],
)
def test_only_a_large_row_of_the_users_is_drilled_into(share: float, name: str, rows: int) -> None:
    assert len(_rows(_looks({LOAD: 100}), share, name)) == rows


@pytest.mark.parametrize("own", [True, False])
def test_a_transform_is_drilled_into_if_it_is_the_users(own: bool) -> None:
    started = ProcessStarted(10, "worker", 7, 1, 0, "fork")
    run = Run([Process([started, NewStage(5, StageName("transform", "LogMel", own=own))])], ShownTime(), (1,))
    stage = StageResult("LogMel", "transform", 1, 100, 0.01, 0.9)
    assert len(drilled_rows(run, [stage], Looks({Fetching(10, 7, 1): _looks({MIX: 50})}))) == own


def test_records_of_earlier_versions_do_not_say_whose_a_transform_is(tmp_path: Path) -> None:
    file = tmp_path / "record"
    file.write_text('["ProcessStarted",{"pid":10,"role":"worker","at":7}]\n'
                    '["NewStage",{"number":5,"stage":["transform","LogMel",false,null]}]\n')  # fmt: skip
    assert [one.stage.own for one in read(file)[0] if isinstance(one, NewStage)] == [False]


def test_a_model_in_a_transform_runs_for_one_sample_where_it_does(tmp_path: Path) -> None:
    """A transform of a stream, or of a dataset that makes whole batches, may get several samples."""

    def title(*more: NewStage, **loader: Any) -> str:
        found = LoaderFound(1, "Clips", 1, 8, "fork", 2, models=["encoder"], **loader)
        worker = [ProcessStarted(10, "worker", 7, 1, 0, "fork"), NewStage(5, StageName("transform", "embed", own=True))]
        run = Run([Process([ProcessStarted(9, "script", 0), found]), Process([*worker, *more])], ShownTime(), (1,))
        place = Place("/home/me/data.py", "embed", 2, "torch.Module._wrapped_call_impl")
        lines = ["", "def embed(x):", "    return encoder(x)", *[""] * 200]
        stage, looks = (
            StageResult("embed", "transform", 1, 100, 0.01, 0.9),
            Looks({Fetching(10, 7, 1): _looks({place: 50})}),
        )
        (row,) = drilled_rows(run, [stage], looks, lambda _, at: lines[at])
        return row.lines[0].title

    assert title() == "the model for whole batches"
    assert not title(shards=0)
    assert not title(NewStage(6, StageName("getitem", "Clips.__getitems__")))


def test_too_few_looks_are_no_result() -> None:
    assert not _rows(_looks({LOAD: 19})) and _rows(_looks({LOAD: 20}))


def test_looks_outside_the_shown_time_do_not_count() -> None:
    (row,) = _rows(_looks({LOAD: 100}), begin=50, end=90)
    assert row.looks == 40


def test_the_interval_is_wilsons_and_the_measured_error() -> None:
    """Wilson's interval for 10 of 20 is 29.9 to 70.1 % (a published example)."""
    low, high = interval(10, 20)
    assert (low, high) == pytest.approx((0.2993 - BIAS, 0.7007 + BIAS), abs=1e-4)
    assert interval(20, 20)[1] == 1.0 and interval(0, 20)[0] == 0.0


SOURCE = """\
def __getitem__(self, i):
    with open(self.path) as f:
        boxes = json.load(f)
    return self.encoder(boxes[i])
"""


@pytest.mark.parametrize(
    ("line", "calls", "title"),
    [
        (3, "json.load", "the file read once"),
        (3, "json.x", "the file read once"),
        (3, "cv2.x", ""),
        (4, "torch.Module._wrapped_call_impl", "the model for whole batches"),
        (4, "", ""),
    ],
)
def test_a_line_that_is_known_to_be_slow_has_what_is_written_instead(line: int, calls: str, title: str) -> None:
    lines = ["", *SOURCE.splitlines(keepends=True), *[""] * 9]

    def drill(file: str, **more: Any) -> DrilledLine:
        script = Process([ProcessStarted(9, "script", 0), LoaderFound(1, "Clips", 1, 8, "fork", 2, **more)])
        worker = Process(
            [ProcessStarted(10, "worker", 7, 1, 0, "fork"), NewStage(5, StageName("getitem", "Clips.__getitem__"))]
        )
        stage = StageResult("Clips.__getitem__", "getitem", 1, 100, 0.01, 0.9)
        place = Place(file, "Clips.__getitem__", line, calls)
        looks = Looks({Fetching(10, 7, 1): _looks({place: 50})})
        (row,) = drilled_rows(Run([script, worker], ShownTime(), (1,)), [stage], looks, lambda _, at: lines[at])
        return row.lines[0]

    found = drill("/home/me/data.py", models=["encoder"])
    assert found.title == title and bool(found.how) == bool(title)
    assert not drill("/usr/lib/python3/site-packages/clips/data.py", models=["encoder"]).title  # not theirs to change
    if title:
        assert not drill("/home/me/data.py", models=[], shards=0).title  # a stream


def test_what_a_line_takes_of_a_sample_is_its_share_of_the_rows_time() -> None:
    """A read of an HDF5 file that is quick has the chunks that it needs."""
    lines = ["", "    x = self.file['x'][i]\n", *[""] * 9]
    place = Place("/home/me/data.py", "Clips.__getitem__", 1, "h5py.Dataset.__getitem__")
    looks = Looks({Fetching(10, 7, 1): _looks({place: 50, None: 50})})
    worker = [ProcessStarted(10, "worker", 7, 1, 0, "fork"), NewStage(5, StageName("getitem", "Clips.__getitem__"))]
    run = Run([Process(worker)], ShownTime(), (1,))

    def title(sample_s: float) -> str:
        stage = StageResult("Clips.__getitem__", "getitem", 1, 100, sample_s, 0.9)
        return drilled_rows(run, [stage], looks, lambda _, at: lines[at])[0].lines[0].title

    assert title(0.0021) == "chunks that hold what a sample reads"
    assert not title(0.0019)


def test_the_rows_of_a_neural_network_are_told_from_transforms() -> None:
    rows = {
        1: StageName("transform", "Conv2d (1 of 2)"),
        2: StageName("transform", "Flip"),
        3: StageName("decode", "Conv2d"),
    }
    sums = FetchSums(1, 0, 9, batches=9, samples=9, busy_ns=300, stages_ns={1: 100, 2: 100, 3: 100})
    worker = Process([ProcessStarted(10, "worker", 7, 1, 0, "fork"), *(NewStage(*one) for one in rows.items()), sums])
    script = Process(
        [ProcessStarted(9, "script", 0), LoaderFound(1, "Clips", 1, 8, "fork", 2, models=["Conv2d", "net"])]
    )
    found = stage_results(Run([script, worker], ShownTime(), (1,)), 1)
    assert {one.name: one.learned for one in found if one.kind == "transform"} == {
        "Conv2d (1 of 2)": True,
        "Flip": False,
    }
    assert not any(one.learned for one in found if one.kind == "decode")


def test_the_lines_as_text() -> None:
    long = Place(
        "/home/me/augmentations_of_images.py", "RandomAugmentations.apply_to_image", 1234, "torchvision.affine"
    )
    (row,) = _rows(_looks({LOAD: 50, long: 25, MIX: 9, OURS: 5, Place("/a\x1b.py", "f\x1b", 3): 10, None: 1}))
    assert layout.text([drilled(row, full=False)], width=80) == SHORT


SHORT = """\
Lines of Clips.__getitem__ (98 % of making samples), from 100 stack samples
line                                                       share   95 % interval
────────────────────────────────────────────────────────────────────────────────
load_audio (data.py:41) → soundfile.read                    50 %         32–68 %
Rando…_image (augment…ages.py:1234) → torchvision.affine    25 %         10–42 %
f\\x1b (a\\x1b.py:3): line 3                                  10 %          0–25 %
Clips.mix (data.py:60): line 60                              9 %          0–24 %
pipebench's own work in the row                              5 %          0–19 %
not readable                                                 1 %
"""


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize(
    ("function", "file", "calls", "text", "told"),
    [
        (
            "Events.__getitem__",
            "sqlite_events.py",
            "",
            'rows = self.db.execute("select * from events", (u,))',
            ": rows",
        ),
        ("RandomAugmentations.apply_to_image", "augmentations_of_images.py", "torchvision.affine", "", " → torch"),
        ("f" * 90, "g" * 90 + ".py", "", "return 1", ": re"),
        ("日本語の長い名前の関数" * 3, "日本語.py", "numpy.mean", "", " →"),
    ],
)
def test_a_narrow_page_keeps_the_whole_line_number(
    function: str, file: str, calls: str, text: str, told: str, width: int
) -> None:
    line = DrilledLine(f"/home/me/{file}", function, 1234, calls, text, 90, 0.9, 0.8, 1.0)
    row = DrilledRow(1, "Clips.__getitem__", "getitem", 0.98, 100, 0, (line,))
    shown = layout.text([drilled(row, full=False)], width=width)
    assert f":1234){told}" in shown and " 90 %" in shown


def test_the_text_of_a_line_matters_more_than_how_often_it_runs() -> None:
    text = "j = random.choice(pool); pool.remove(j); wrong.append(j)"
    line = DrilledLine("/home/me/pairs.py", "Pairs.__getitem__", 23, "", text, 90, 0.9, 0.8, 1.0)

    def shown(runs: Runs, width: int) -> str:
        row = DrilledRow(1, "Pairs.__getitem__", "getitem", 0.98, 100, 0, (replace(line, runs=runs),))
        return layout.text([drilled(row, full=False)], width=width)

    assert "(pairs.py:23), runs 20 times a sample: j = random.choice" in shown(Runs(20, "sample"), 140)
    assert "(pairs.py:23), 20×: j = random.choice…" in shown(Runs(20, "sample"), 80)
    assert "(pairs.py:23), more than 19,000×: j" in shown(Runs(19_481, "batch", "more than"), 80)


def _teller(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Teller, StageTimer, list[bool]]:
    told: list[bool] = []
    timer = StageTimer()
    teller = Teller(Recording(Settings(str(tmp_path)), "worker"), timer, 1)
    monkeypatch.setattr(teller, "_tell", lambda: told.append(True))
    return teller, timer, told


@pytest.mark.parametrize(
    ("kind", "name", "spent", "tells"),
    [
        ("getitem", "Clips.__getitem__", 21, True),
        ("getitem", "Clips.__getitem__", 20, False),
        ("collate", "my_collate", 50, True),
        ("collate", "default_collate", 90, False),
        ("decode", "ImageFile.load", 90, False),
        ("transform", "Resize", 90, False),
        ("transform", "LogMel", 21, True),
    ],
)
def test_a_process_tells_when_much_of_its_time_has_no_name(
    kind: str, name: str, spent: int, tells: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller, timer, told = _teller(tmp_path, monkeypatch)
    timer.sums[stages.number(kind, name, own=name == "LogMel")] = spent
    timer.sums[REST] = 100
    for _ in range(2):
        teller.after_batch(100)
    assert not told  # the first batches import modules and open files
    for _ in range(3):
        teller.after_batch(100)
    assert told == [True] * tells


def test_after_the_first_batches_each_sixteenth_is_looked_at(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    teller, timer, told = _teller(tmp_path, monkeypatch)
    for _ in range(64):
        teller.after_batch(100)
    timer.sums[stages.number("getitem", "Clips.__getitem__")] = 90
    for _ in range(15):
        teller.after_batch(100)
    assert not told
    teller.after_batch(100)
    assert told


def test_a_layout_that_is_not_recognised_is_a_note_and_nothing_is_told(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / stack_place.FOLDER).mkdir()
    recording = Recording(Settings(str(tmp_path)), "worker")
    timer = StageTimer()
    monkeypatch.setattr(stack_place, "_frame_layout", lambda memory: stack_place._index((1, 2), 64))
    stack_place._layout.cache_clear()
    teller = Teller(recording, timer, 1)
    timer.sums[stages.number("getitem", "Clips.__getitem__")] = 90
    for _ in range(4):
        teller.after_batch(100)
    assert recording.faults == 1 and not list((tmp_path / stack_place.FOLDER).iterdir())
    (fault,) = [one for one in read(Path(recording.file.path))[0] if isinstance(one, Fault)]
    assert fault.where == "telling where the stack lies" and "LayoutError" in fault.text
