"""Reads without a lock that workers share: from which lines it is predicted, and how much that can bring."""

from dataclasses import replace

import pytest
from made_up_trials import seen

from pipebench.remedies import unlocked
from pipebench.results.account import Account, AccountRow, Cause


def _with_cause(figures, cause):
    account = Account(10.0, (AccountRow("wait-for-worker", 4.0, 1, 4.0),), (cause,))
    return replace(figures, watched=replace(figures.watched, account=account))


def _locked(text, saved=3.0, code="workers-blocked", **values):
    place = {"file": "read.py", "line": 40, "function": "Archive.window", "text": text, "at_line": 0.75}
    return Cause(code, saved, saved, 1, {"tried_workers": 8, "enough_workers": 4, **place, **values})


def _unlocked(cause, **how):
    return unlocked.propose(_with_cause(seen(0.5, **how), cause), [])


@pytest.mark.parametrize(
    "text",
    [
        "with self.lock:", "with self._read_lock:", "fcntl.flock(f, how)", "mutex.acquire()", "with Lock() as held:",
        "with self.locks[k], open(name) as file:", "self.semaphore.acquire(timeout=3)",
    ],
)  # fmt: skip
def test_reads_without_a_lock_that_workers_share_are_predicted(text):
    found = _unlocked(_locked(text))
    assert found.of_script and found.at.line == 40 and not found.settings


@pytest.mark.parametrize(
    ("saved", "workers", "values", "predicted"),
    [
        (1.0, 4, {}, 4 / 3),  # of the account's 4 s
        (3.9, 4, {}, 4.0),  # three of four workers wait at the line
        (3.9, 2, {}, 2.0),
        (3.9, 8, {"at_line": 0.5}, 2.0),
        (3.9, 4, {"cores_used": 1.0, "script_cores": 0.5}, 1.5),  # of two cores
    ],
)
def test_what_a_lock_costs_is_limited_by_workers_cores_and_their_time_at_it(saved, workers, values, predicted):
    found = _unlocked(_locked("with self.lock:", saved, **values), num_workers=workers)
    assert found.predicted == pytest.approx(predicted)


@pytest.mark.parametrize(
    "text",
    [
        "return self.blocks[k]", "time.sleep(0.1)", "self.clock.read()", "unlocked()", "", "with FileLock(name):",
        "env = lmdb.open(path, readonly=True, lock=False)", "sem = np.load(self.sem_paths[i])", "x = 1  # with lock:",
        "with open('lock'):", "conn = self.pool.acquire()", "with self.lock: x = self.f.read(n)", "with self.block:",
    ],
)  # fmt: skip
def test_a_line_that_waits_for_no_lock_asks_for_no_such_change(text):
    assert _unlocked(_locked(text)) is None


def test_a_lock_around_slow_storage_is_not_the_limit():
    assert _unlocked(_locked("with self.lock:", code="storage")) is None


def test_where_looks_show_that_workers_wait_for_one_another_no_trial_is_needed():
    place = {"file": "read.py", "line": 40, "function": "Archive.window", "text": "with self.lock:", "at_line": 0.75}
    found = unlocked.propose(_with_cause(seen(0.5, num_workers=4), Cause("shared-lock", 3.0, 3.0, 1, place)), [])
    assert found is not None and found.predicted == pytest.approx(4.0)


def test_without_a_trial_of_more_workers_a_lock_is_no_cause():
    cause = Cause("workers-blocked", 4.0, 4.0, 1, {"text": "with self.lock:"})
    assert unlocked.propose(_with_cause(seen(0.5), cause), []) is None
