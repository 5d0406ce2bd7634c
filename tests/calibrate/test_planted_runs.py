"""Planted scripts are run apart from the terminal: its Ctrl-C is for pipebench, which ends them."""

import os

from pipebench.calibrate import running

SAYS = "import json, os, sys\njson.dump(os.getpgrp(), open(sys.argv[1], 'w'))\n"


def test_a_plain_run_is_in_a_group_of_its_own(monkeypatch, tmp_path):
    (tmp_path / "says.py").write_text(SAYS)
    monkeypatch.setattr(running, "FOLDER", tmp_path)
    assert running.plainly("says.py") not in (os.getpgrp(), 0)
