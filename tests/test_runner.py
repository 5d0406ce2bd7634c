"""A live child does what this process does, and its death costs only its own rows."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import IDENTITY, WORKLOAD, first_keys

from pipebench import stage
from pipebench.lab.fresh import FreshRunner
from pipebench.lab.timing import Plan, measure
from pipebench.runner import ChildRunner, LocalRunner, RunnerDied, Runners
from pipebench.task import RunnerSpec, Task, Variant, Work


@pytest.fixture(scope="module")
def child():
    runner = ChildRunner(RunnerSpec("plain"))
    yield runner
    runner.close()


def test_a_child_makes_the_same_outputs_and_does_the_same_work(child):
    local, keys = LocalRunner(), first_keys(2)
    for runner in (local, child):
        assert runner.prepare(IDENTITY, WORKLOAD).library.startswith("Pillow")
    for key in keys:
        (ours,), (theirs,) = (runner.attempt(IDENTITY, WORKLOAD, (key,)) for runner in (local, child))
        assert (ours.output == theirs.output).all()
    assert local.arm(IDENTITY, WORKLOAD, keys) == child.arm(IDENTITY, WORKLOAD, keys)
    seconds, code = child.reading(IDENTITY, 2)
    assert seconds > 0 and code is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ChildRunner, FreshRunner])
def test_an_interruption_before_an_answer_is_read_leaves_no_traceback_in_the_child(kind, tmp_path):
    with open(tmp_path / "errors", "w+b") as errors:
        runner = type("Heard", (kind,), {"_errors": errors})(RunnerSpec("one"))
        runner._send("echo", 1)
        assert runner._pipe.poll(60)
        runner.close()
    assert (tmp_path / "errors").read_text() == ""


def test_ctrl_c_is_the_parents_to_handle(child):
    os.kill(child.pid, signal.SIGINT)
    assert child.prepare(IDENTITY, WORKLOAD).skip_code is None


def test_a_childs_path_comes_first_and_its_environment_is_its_own(tmp_path):
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").write_text("import os; raise ImportError('not here: ' + os.environ['MARK'])")
    runner = ChildRunner(RunnerSpec("other", path=lambda: Path(tmp_path), environment=(("MARK", "x"),)))
    assert runner.prepare(IDENTITY, WORKLOAD).skip_reason.startswith("not here: x")
    runner.close()
    assert "MARK" not in os.environ and str(tmp_path) not in sys.path
    assert getattr(sys.modules.get("PIL"), "__file__", None) != str(tmp_path / "PIL" / "__init__.py")


def test_a_child_that_dies_says_how():
    runner = ChildRunner(RunnerSpec("brief"))
    runner.prepare(IDENTITY, WORKLOAD)
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(RunnerDied, match="the brief process was killed by SIGKILL"):
        runner.reading(IDENTITY, 1)


def test_a_death_in_mid_measurement_costs_only_that_row():
    task = next(one for one in stage.tasks() if one.id == "decode/rgb")
    spec = RunnerSpec("doomed")
    pillow = stage.reference("decode/rgb")
    doomed = Variant(task.id, "opencv", stage.find("decode/rgb/opencv")[1].build, runner=spec)
    with Runners() as runners:

        def kill_at_the_second_round(done, total, what):
            if "timing" in what and done == 2:
                os.kill(runners.of(doomed).pid, signal.SIGKILL)

        plan = Plan(rounds=6, budget_s=60, reading_s=0.0)
        first, second = measure(
            task, [pillow, doomed], WORKLOAD, runners=runners, plan=plan, progress=kill_at_the_second_round
        ).measurements
    assert len(first.readings_s) == 6 and first.failed is None
    assert second.failed == "RunnerDied: the doomed process was killed by SIGKILL"
    assert len(second.readings_s) == 2


def test_threads_are_those_of_a_worker():
    import cv2
    import torch

    runner = LocalRunner()
    cv2.setNumThreads(-1)
    default = cv2.getNumThreads()
    for name, threads in (("opencv", 1), ("opencv-threads-0", 1), ("opencv-threads-default", default)):  # 0 runs as 1
        identity = f"crop/resized-224/{name}"
        runner.prepare(identity, WORKLOAD)
        runner.arm(identity, WORKLOAD, first_keys(1))
        runner.reading(identity, 1)
        assert torch.get_num_threads() == 1
        assert cv2.getNumThreads() == threads


def test_memory_at_the_end_of_the_heap_is_mapped_before_outputs_that_stay_alive_are_timed(monkeypatch):
    """A heap that grows gets each batch new pages, which took ten times as long as collating it."""
    done = []
    given = Task(
        "t/t", "", lambda workload: [("a",)], lambda workload, keys: [None], lambda output, given: None,
        lambda output, expected, variant: None, lambda given, output: Work(1, 0, 0), lambda workload: 1, alive=2,
    )  # fmt: skip
    known = {f"t/t/{name}": Variant("t/t", name, lambda workload: lambda given: done.append("call")) for name in "vw"}
    local = LocalRunner(find=lambda identity: (given, known[identity]))
    for one in known:
        local.prepare(one, WORKLOAD)
        local.arm(one, WORKLOAD, ("a",))
    monkeypatch.setattr("pipebench.runner.map_free_memory", lambda: done.append("touch"))

    def made(one):
        del done[:]
        local.reading(one, 2)
        return done[:]

    fresh = ["touch", "call", "call", "call"]
    assert made("t/t/v") == fresh and made("t/t/v") == ["call", "call"]
    assert made("t/t/w") == fresh and made("t/t/v") == fresh
    local.arm("t/t/v", WORKLOAD, ("a",))
    assert made("t/t/v") == fresh


_TOUCHED = """
from resource import RUSAGE_SELF, getrusage
from pipebench.host.heap import map_free_memory
from pipebench.runner import LocalRunner
LocalRunner()
map_free_memory()
before = getrusage(RUSAGE_SELF).ru_minflt
kept = b"2" * (12 << 20)
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""


def test_what_is_allocated_after_the_touch_is_in_pages_that_are_mapped():
    """In a process of its own, as a reading has it: what other tests have left in a heap is not the matter here."""
    done = subprocess.run([sys.executable, "-c", _TOUCHED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300  # of 3,072 pages
