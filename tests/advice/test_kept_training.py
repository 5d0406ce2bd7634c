"""With trials in it, a real script trains on the same samples in the same order, to the same weights, bit for bit."""

import sys
from pathlib import Path

import pytest
import warm

from pipebench.watch.launch import supervisor
from pipebench.watch.read.gather import gather
from pipebench.watch.record.lines import Fault
from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.recording import Settings
from pipebench.watch.record.trial_lines import LoaderMade, TrialFailed, TrialWindow

SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = str(SCRIPTS / "noting.py")
BOOTSTRAP = str(Path(supervisor.__file__).with_name("bootstrap.py"))


def _run(command, notes, *arguments):
    done = warm.run([sys.executable, *command, str(notes), *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return notes.read_text()


@pytest.mark.parametrize(
    ("workers", "persistent", "settings", "by"),
    [
        ("2", "0", {"num_workers": 3}, "windows"),
        pytest.param("0", "0", {"num_workers": 2}, "windows", marks=pytest.mark.slow),
        pytest.param("2", "1", {"num_workers": 1, "prefetch_factor": 3}, "windows", marks=pytest.mark.slow),
        pytest.param("2", "0", {"persistent_workers": True}, "passes", marks=pytest.mark.slow),
        pytest.param("2", "1", {"num_workers": 3}, "passes", marks=pytest.mark.slow),
    ],
)
def test_samples_order_and_weights_are_those_of_a_plain_run(workers, persistent, settings, by, tmp_path):
    arguments = (str(tmp_path / "records" / "order.later"), workers, persistent, "6")
    plain = _run([SCRIPT], tmp_path / "plain", *arguments)
    folder = tmp_path / "records"
    folder.mkdir()
    give(str(folder), Order(1, 1, settings, one_thread=True, by=by, window_s=0.02))
    (folder / "order").rename(folder / "order.later")
    tried = _run([BOOTSTRAP, Settings(str(folder), trial=True).encoded(), SCRIPT], tmp_path / "tried", *arguments)
    assert tried == plain
    lines = [line for process in gather(folder) for line in process.lines]
    assert not [one for one in lines if isinstance(one, TrialFailed | Fault)]
    assert {one.changed for one in lines if isinstance(one, TrialWindow)} == {False, True}
    made = next(one for one in lines if isinstance(one, LoaderMade))
    text = Path(SCRIPT).read_text().splitlines()
    assert made.file == SCRIPT and text[made.line - 1].strip().startswith("loader = DataLoader(")
    assert (made.batches, made.refusal, made.settings["num_workers"]) == (100, "", int(workers))


@pytest.mark.slow
@pytest.mark.parametrize(("persistent", "by"), [("0", "windows"), ("1", "passes")])
def test_arrays_that_cross_as_tensors_reach_the_script_as_they_were(persistent, by, tmp_path):
    script = str(SCRIPTS / "arrays.py")
    arguments = (str(tmp_path / "records" / "order.later"), "2", persistent, "5")
    plain = _run([script], tmp_path / "plain", *arguments)
    folder = tmp_path / "records"
    folder.mkdir()
    give(str(folder), Order(1, 1, {}, by=by, window_s=0.02, edits={"as_tensors": {}}))
    (folder / "order").rename(folder / "order.later")
    tried = _run([BOOTSTRAP, Settings(str(folder), trial=True).encoded(), script], tmp_path / "tried", *arguments)
    assert tried == plain
    lines = [line for process in gather(folder) for line in process.lines]
    assert not [one for one in lines if isinstance(one, TrialFailed | Fault)]
    assert {one.changed for one in lines if isinstance(one, TrialWindow)} == {False, True}
    made = next(one for one in lines if isinstance(one, LoaderMade))
    assert made.collate == ("collate", script, made.collate.line)
    assert Path(script).read_text().splitlines()[made.collate.line - 1].startswith("def collate(")


def _of_stream(text):
    """The batches of each pass, as the first number of each."""
    passes = text.split("end of a pass\n")[:-1]
    return [[int(line.split(",")[0][1:]) for line in one.splitlines()] for one in passes]


@pytest.mark.parametrize(
    ("settings", "persistent", "by"),
    [
        ({"prefetch_factor": 4}, "0", "windows"),
        pytest.param({"num_workers": 3}, "0", "windows", marks=pytest.mark.slow),
        pytest.param({"num_workers": 1}, "1", "windows", marks=pytest.mark.slow),
        pytest.param({"persistent_workers": True}, "0", "passes", marks=pytest.mark.slow),
    ],
)
def test_of_a_stream_the_script_gets_all_of_its_own_batches_and_others_between(settings, persistent, by, tmp_path):
    """The changed loader reads the stream by itself. Of three workers it is short, and the script's own goes on."""
    script = str(SCRIPTS / "streaming.py")
    arguments = (str(tmp_path / "records" / "order.later"), "2", persistent, "5")
    (plain, *_) = _of_stream(_run([script], tmp_path / "plain", *arguments))
    folder = tmp_path / "records"
    folder.mkdir()
    give(str(folder), Order(1, 1, settings, by=by, window_s=0.02, discards=True))
    (folder / "order").rename(folder / "order.later")
    tried = _of_stream(
        _run([BOOTSTRAP, Settings(str(folder), trial=True).encoded(), script], tmp_path / "tried", *arguments)
    )
    for one in tried:
        rest = iter(one)
        assert all(batch in rest for batch in plain)  # in their order
    assert any(len(one) > len(plain) for one in tried) is (by == "windows")
    lines = [line for process in gather(folder) for line in process.lines]
    assert not [one for one in lines if isinstance(one, TrialFailed | Fault)]
    windows = [one for one in lines if isinstance(one, TrialWindow)]
    assert {one.changed for one in windows} == {False, True}
    assert by == "windows" or {one.taken for one in windows} == {1}  # whole streams: their batches may be parts
    assert next(one for one in lines if isinstance(one, LoaderMade)).refusal == "iterable"


@pytest.mark.slow
@pytest.mark.parametrize("persistent", ["0", "1"])
def test_of_a_stream_that_is_uneven_the_script_gets_all_batches_too(persistent, tmp_path):
    """A worker whose stream is over leaves what it was asked for, and the others go on."""
    script, folder = str(SCRIPTS / "streaming.py"), tmp_path / "records"
    arguments = (str(folder / "order.later"), "2", persistent, "4", "1")
    (plain, *_) = _of_stream(_run([script], tmp_path / "plain", *arguments))
    folder.mkdir()
    give(str(folder), Order(1, 1, {"prefetch_factor": 3}, window_s=0.01, discards=True))
    (folder / "order").rename(folder / "order.later")
    tried = _of_stream(
        _run([BOOTSTRAP, Settings(str(folder), trial=True).encoded(), script], tmp_path / "tried", *arguments)
    )
    assert len(tried) == 4 and all(set(plain) <= set(one) for one in tried)
    lines = [line for process in gather(folder) for line in process.lines]
    failed = [one.problem for one in lines if isinstance(one, TrialFailed)]
    assert set(failed) <= {"workers-compute"}  # on a busy machine, they may not come to rest in time
    assert not [one for one in lines if isinstance(one, Fault)]
