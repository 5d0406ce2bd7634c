"""Standard streams that are closed, and arguments that would act on a terminal."""

import json
import subprocess
import sys

import pytest
import repos
import warm
from made_up_costs import made

from pipebench.commands import plan
from pipebench.errors import PipebenchError
from pipebench.predict import planning
from pipebench.results import report
from pipebench.results.costs import Passport

ACTS = "x\x1b]52;c;eA==\x07\u202e\r\n::error::y"
SCRIPT = "import os\nos.system('echo to the first; echo to the second >&2')\n"


def in_shell(line, cwd):
    command = line.replace("pipebench", f"{sys.executable} -m pipebench", 1)
    return warm.run(["bash", "-c", command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("line", ["data", "watch --export-json w.json train.py"])
def test_a_closed_standard_output_is_said_before_the_work(line, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = in_shell(f"pipebench {line} >&-", tmp_path)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2, done.stderr
    assert "standard output is closed" in done.stderr and not (tmp_path / "w.json").exists()


def test_with_the_others_closed_no_file_gets_what_a_child_writes(tmp_path):
    (tmp_path / "train.py").write_text(
        SCRIPT + "import sys\nprint([os.readlink(f'/proc/self/fd/{n}') for n in (0, 2)])\n"
    )
    done = in_shell("pipebench watch --export-json w.json train.py <&- 2>&-", tmp_path)
    assert done.returncode == 0 and "['/dev/null', '/dev/null']" in done.stdout, done.stdout
    assert json.loads((tmp_path / "w.json").read_text())["watched"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["schema", ACTS],
        ["plan", "r.json", "--faster", ACTS],
        ["plan", "r.json", "--storage", ACTS],
        ["watch", "--", ACTS],
    ],
)
def test_an_argument_is_quoted_inert_and_on_one_line(arguments, tmp_path):
    done = repos.pipebench(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and r"\x1b]52" in done.stderr and "\n::" not in done.stderr
    assert all(line.isprintable() for line in done.stderr.splitlines()), done.stderr


def test_plan_refuses_figures_that_do_not_belong_together(tmp_path, monkeypatch):
    def simulated(passport, asked):
        raise OverflowError("the figures of no run")

    report.save(report.new(passport=Passport(made(step=0.01, workers=2), (), 2.0)), tmp_path / "p.json")
    monkeypatch.setattr(planning, "plan", simulated)
    with pytest.raises(PipebenchError, match="do not belong together"):
        plan.command.main([str(tmp_path / "p.json")], standalone_mode=False)


def test_plan_shows_a_batch_that_blocks_for_ages(tmp_path):
    costs = made(blocked=[0.1, 1e18], step=0.01, workers=2)
    report.save(report.new(passport=Passport(costs, (), 2.0)), tmp_path / "p.json")
    done = repos.pipebench("plan", "p.json", cwd=tmp_path)
    assert done.returncode == 0 and "Predicted, not tried: " in done.stdout and "(<0.001" in done.stdout, done
