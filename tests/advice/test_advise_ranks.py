"""`advise` in front of a launcher: all ranks try each change at the same batches, and the training is kept."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipebench.watch.read.gather import gather
from pipebench.watch.record.trial_lines import TrialFailed, TrialWindow

SCRIPT = Path(__file__).with_name("scripts") / "in_ranks.py"
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
PATIENCE_S = 300
ADVISE = """
import json, sys
from pathlib import Path
from pipebench.advise.command import AdviseOptions, advise
from pipebench.commands.advise import saved_at
options = {**json.loads(sys.argv[1]), "records": Path(sys.argv[2])}
sys.exit(advise(AdviseOptions(command=True, **options), sys.argv[3:], saved_at(Path(sys.argv[2] + ".json"))))
"""


def _advised(folder, arguments, **options):
    records = folder / "records"
    records.mkdir()
    line = [sys.executable, "-c", ADVISE, json.dumps(options), str(records)]
    done = _ran([*line, sys.executable, *LAUNCH, str(SCRIPT), *arguments])
    found = json.loads((folder / "records.json").read_text())
    ranks = [one for place in records.iterdir() if place.is_dir() for one in gather(place) if one.of(TrialWindow)]
    return done, found["advice"], ranks


def _ran(line):
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ})


def _windows(rank):
    return {(one.order, one.pair, one.changed): one.taken for one in rank.of(TrialWindow)}


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "passes", "more"), [(9000, 1, []), (1200, 5, ["--rank-0-validates"])], ids=str)
def test_each_rank_trains_on_the_samples_of_a_plain_run_in_their_order(tmp_path, samples, passes, more):
    """Each process sees that its workers sleep 20 ms a batch, so more of them are tried, whatever the machine does."""
    plain, tried = tmp_path / "plain", tmp_path / "tried"
    for one in (plain, tried):
        one.mkdir()
    rest = [str(samples), str(passes), *more]
    assert _ran([sys.executable, *LAUNCH, str(SCRIPT), str(plain), *rest]).returncode == 0
    done, advice, ranks = _advised(tmp_path, [str(tried), *rest], budget_s=60.0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("has trained") == 2 and "a fault of pipebench" not in done.stderr
    for rank in ("0", "1"):
        assert (tried / rank).read_text() == (plain / rank).read_text()
    assert advice["ranks"] == 2 and "num_workers" in {one["change"]["remedy"] for one in advice["findings"]}
    assert not [line for one in ranks for line in one.of(TrialFailed)]
    first, second = map(_windows, ranks)
    both = first.keys() & second.keys()
    assert both and all(first[one] == second[one] for one in both)  # how many fit in the budget is the machine's matter
    assert abs(len(first) - len(second)) <= 1  # the training may end between them


@pytest.mark.slow
def test_all_ranks_leave_at_one_batch_when_the_advice_is_there(tmp_path):
    done, advice, ranks = _advised(tmp_path, [str(tmp_path), "100000", "1"], budget_s=10.0, stop=True)
    assert done.returncode == 0, done.stderr
    assert "has trained" not in done.stdout and advice["ended"] in ("done", "budget")
    lengths = {len((tmp_path / rank).read_text().splitlines()) for rank in ("0", "1")}
    assert len(lengths) == 1 and len(ranks) in (0, 2)  # a busy machine comes to no window within the budget


@pytest.mark.long
@pytest.mark.timing
def test_the_gain_of_a_job_is_that_of_its_plain_runs(tmp_path):
    """Workers sleep 20 ms a batch on both ranks: with more of them, the plain job is as much faster as it was told."""
    _, advice, _ = _advised(tmp_path, [str(tmp_path), "100000", "1"], budget_s=60.0, stop=True)
    best = advice["findings"][advice["best"]]
    workers = best["change"]["settings"]["num_workers"]
    changed = tmp_path / "changed.py"
    changed.write_text(SCRIPT.read_text().replace("num_workers=1", f"num_workers={workers}"))
    seconds = []
    for script, samples in itertools.product((SCRIPT, changed), (400, 4400)):
        began = time.monotonic()
        assert _ran([sys.executable, *LAUNCH, str(script), str(tmp_path), str(samples), "1"]).returncode == 0
        seconds.append(time.monotonic() - began)
    found = (seconds[1] - seconds[0]) / (seconds[3] - seconds[2])
    assert best["gain"]["low"] < found < best["gain"]["high"], (found, best["gain"])
