"""After a knock-out the weights are worth nothing: the process ends at once, and nothing of the script runs."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm

from pipebench.watch.launch import supervisor
from pipebench.watch.read.gather import gather
from pipebench.watch.record.lines import Fault
from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.recording import Settings
from pipebench.watch.record.trial_lines import TrialFailed, TrialWindow

SCRIPT = str(Path(__file__).parent / "scripts" / "saving.py")
BOOTSTRAP = str(Path(supervisor.__file__).with_name("bootstrap.py"))
HALF = {"knock_out": {"kind": "transform", "name": "Half"}}
PATIENCE_S = 120.0


def _lines(folder):
    return [line for process in gather(folder) for line in process.lines]


@pytest.mark.slow
@pytest.mark.parametrize("spoils", [True, False])
def test_the_process_ends_at_once_if_its_weights_are_spoiled(spoils, tmp_path):
    folder, later = tmp_path / "records", tmp_path / "records" / "order.later"
    folder.mkdir()
    give(str(folder), Order(1, 1, {}, window_s=0.02, edits=HALF if spoils else {}, discards=spoils))
    (folder / "order").rename(later)
    command = [
        sys.executable,
        BOOTSTRAP,
        Settings(str(folder), trial=True).encoded(),
        SCRIPT,
        str(tmp_path),
        str(later),
    ]
    with warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end and running.poll() is None:
                if {one.changed for one in _lines(folder) if isinstance(one, TrialWindow)} == {False, True}:
                    break
                time.sleep(0.1)
            give(str(folder), Order(2, leave=True))
            out, error = running.communicate(timeout=PATIENCE_S)
        finally:
            running.kill()
    assert (running.returncode, out, error) == (0, "ordered\n", "")
    lines = _lines(folder)
    assert not [one for one in lines if isinstance(one, TrialFailed | Fault)]
    assert {one.changed for one in lines if isinstance(one, TrialWindow)} == {False, True}
    served = (4, False) in eval((tmp_path / "seen").read_text())  # a first sample beside the index of another
    assert served is spoils
    assert (tmp_path / "saved").exists() is not spoils and (tmp_path / "at-exit").exists() is not spoils
