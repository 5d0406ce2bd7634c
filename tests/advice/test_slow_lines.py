"""Lines that are known to be slow: which are found, and what their share of a sample's time can bring at most."""

from dataclasses import replace

import pytest
from made_up_trials import seen

from pipebench.remedies import slow_lines
from pipebench.results.account import Account, Cause
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import StageResult
from pipebench.watch.read.known_lines import Line, known


def _seen(*lines, wait_share=0.8, **more):
    """Each line calls what such a line does call, if nothing else is given. What is known of it is as in `watch`."""
    found = []
    for at, (text, share, *calls) in enumerate(lines):
        called = calls[0] if calls else _calls(text)
        line = DrilledLine("/home/me/train.py", "Clips.read", 7 + at, called, text, 100, share, share, share)
        what = known(Line(text, called, "Clips.read", "Clips.read", "function"))
        found.append(line if what is None else replace(line, title=what.title, how=what.how))
    figures = seen(wait_share, **more)
    row = DrilledRow(1, "Clips.read", "function", 0.9, 200, 0, tuple(found))
    return replace(figures, watched=replace(figures.watched, drilled=(row,)))


def _calls(text):
    known = {"loc[": "pandas._LocIndexer.__getitem__", "npz": "numpy.NpzFile.__getitem__", "deepcopy": "copy.deepcopy"}
    return next((one for part, one in known.items() if part in text), "")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("wave, rate = torchaudio.load(self.frame.iloc[index, 0])", "torchaudio.load"),
        ("image = cv2.imread(self.frame.path.iloc[index])", ""),  # in C
        ("return torch.tensor(soundfile.read(path)[0])", "soundfile.read"),
        ("return torch.tensor(cv2.imread(path))", ""),
        ("self.video.set(cv2.CAP_PROP_POS_FRAMES, self.places.find(name))", ""),
    ],
)
def test_a_line_that_is_slow_by_something_else_is_not_blamed(text, calls):
    assert slow_lines.propose(_seen((text, 0.6, calls)), []) is None


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("self.video.set(cv2.CAP_PROP_POS_FRAMES, number)", "frames read on, without seeking"),
        ("capture.set(CAP_PROP_POS_MSEC, 40 * number)", "frames read on, without seeking"),
        ("self.video.set(cv2.CAP_PROP_FRAME_WIDTH, 96)", None),
        ("row = self.frame.iloc[index]", "columns as arrays"),
        ("row = frame.loc[index, 'price']", "columns as arrays"),
        ("values = frame.loc[:, names]", None),  # columns
        ("wrong = np.random.choice(self.items, 20, replace=False)", "numbers drawn without a permutation"),
        ("wrong = np.random.choice(self.items, 20, replace=False, p=weights)", None),
        ("wrong = rng.choice(self.items, 20, replace=False)", None),
        ("wrong = np.random.choice(self.items, 20)", None),
        ("cut = np.load(f'{case}.npz', mmap_mode='r')['data']", "arrays in .npy files"),
        ("cut = np.load(f'{case}.npy', mmap_mode='r')", None),
        ("return torch.tensor(waves, dtype=torch.float32), labels", "tensors of arrays, not of lists"),
        ("return torch.FloatTensor(mels)", "tensors of arrays, not of lists"),
        ("return torch.zeros(len(samples), longest)", None),
        ("sample = copy.deepcopy(self.samples[index])", "no deep copy of a sample"),
        ("sample = dict(self.samples[index])", None),
    ],
)
def test_a_line_is_known_by_its_text(text, title):
    change = slow_lines.propose(_seen((text, 0.6)), [])
    assert (change and change.title) == title
    if change is not None:
        assert change.of_script and not change.settings and change.at.line == 7 and change.how
        assert change.predicted == pytest.approx(1 / (1 - 0.9 * 0.6))


def test_lines_of_one_kind_count_together_and_the_largest_kind_comes_first():
    rows = ("row = frame.iloc[index]", 0.2), ("next_row = frame.iloc[index + 1]", 0.4), ("deepcopy(sample)", 0.3)
    change = slow_lines.propose(_seen(*rows), [])
    assert change.title == "columns as arrays" and change.at.line == 8
    assert change.predicted == pytest.approx(1 / (1 - 0.9 * 0.6))


def test_beside_threads_that_wait_for_the_cores_of_workers_it_is_no_limit():
    line = ("row = self.frame.iloc[index]", 0.9)
    found = _seen(line, wait_share=0.4)
    assert slow_lines.propose(found, []).limit == "about 1.67×"
    waits = Account(60.0, (), (Cause("many-threads", 9.0, 5.0, 1),))
    beside = replace(found, watched=replace(found.watched, account=waits))
    assert slow_lines.propose(beside, []).limit == "about 1.67× or more"


def test_no_more_than_the_waits_can_be_saved():
    line = "row = frame.iloc[index]", 0.8
    assert slow_lines.propose(_seen(line, wait_share=0.3), []).predicted == pytest.approx(1 / 0.7)
    assert slow_lines.propose(_seen(line, wait_share=0.05), []) is None
    assert slow_lines.propose(_seen((line[0], 0.1)), []) is None
    alone = slow_lines.propose(_seen(line, wait_share=0.5, num_workers=0), [])
    assert alone.predicted == pytest.approx(1 / (1 - 0.9 * 0.8 * 0.5))


def test_a_generator_is_made_in_each_worker():
    """torch seeds np.random and random there, but no Generator that the workers have from the script's process."""
    line = "wrong = np.random.choice(self.items, 20, replace=False)", 0.6
    how = " ".join(slow_lines.propose(_seen(line), []).how)
    assert "in each worker, at its first sample" in how and "default_rng(torch.initial_seed())" in how
    assert "default_rng()" not in how


def test_a_file_that_is_tried_open_is_not_told_twice():
    """Where weights may be lost, `kept` tries it in the workers."""
    line = "with h5py.File(self.path) as f:", 0.6, "h5py.File.__init__"
    assert slow_lines.propose(_seen(line), []).title == "the file opened once in each worker"
    assert slow_lines.propose(replace(_seen(line), discards=True), []) is None
    assert slow_lines.propose(replace(_seen(("deepcopy(sample)", 0.6)), discards=True), []) is not None


def test_a_neural_network_in_rows_of_its_own_is_told():
    figures = _seen()
    parts = tuple(StageResult(f"Conv2d ({n} of 2)", "transform", 1, 10, 0.1, 0.3, learned=True) for n in (1, 2))
    figures = replace(figures, watched=replace(figures.watched, stages=parts))
    change = slow_lines.propose(figures, [])
    assert change.title == "the model for whole batches" and change.predicted == pytest.approx(1 / 0.4)
    plain = tuple(replace(one, learned=False) for one in parts)
    assert slow_lines.propose(replace(figures, watched=replace(figures.watched, stages=plain)), []) is None
