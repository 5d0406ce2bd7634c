"""The report of a watched command: which programs there were, the ranks, and the figures of one. To the letter."""

from dataclasses import replace
from pathlib import Path

import made_up
import pytest

from pipebench.render import watched
from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import LateInFew, RankRow, Ranks, SlowStage

GOLDEN = Path(__file__).parent / "golden"
MAIN = made_up.watched()
COMMAND = ("sh", "run.sh")
ONE = Program(101, "train.py --epochs 3", 0.0, 64.2, "ended")
FAILED = Program(102, "evaluate.py", 70.1, 3.3, "failed", "ValueError: no such file (evaluate.py:12)", watched=MAIN)
CUT = Program(103, made_up.HOSTILE, 71.0, 2.0, "cut", watched=MAIN)
RANKS = Ranks(
    of=2,
    rows=(RankRow(0, 101, 0.0012, 0.0102, 0.02, 0.1, 1280), RankRow(1, 102, 0.0212, 0.0101, 0.98, 4.1, 640)),
    steps=200,
    step_s=0.05,
    cost_s=4.2,
    cost_share=0.42,
    straggler=1,
    part="wait",
    behind_s=0.02,
    stage=SlowStage("Photos.read", "function", 0.0104, 0.0011),
    saved_share=0.4,
)


def _ranked(**more):
    programs = (
        replace(ONE, name="train.py", rank=0, ranks=2, watched=MAIN),
        replace(ONE, pid=102, name="train.py", rank=1, ranks=2, ended="cut"),
    )
    return WatchedCommand(("torchrun", "train.py"), 1, programs, 1, 1, ranks=RANKS, **more)


def _whole(command, width=80, **more):
    return watched.whole(MAIN, made_up.CALIBRATED, command, width=width, **more)


SEVERAL = WatchedCommand(COMMAND, 0, (ONE, FAILED, CUT), 0, 2, hidden=("python3 -I tool.py",))
RENDERED = {"command-several": SEVERAL, "command-ranks": _ranked()}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RENDERED)
def test_the_text_to_the_letter(name, width):
    """To accept a change of wording: delete tests/render/golden/NAME, run this, and read the new file."""
    path = GOLDEN / f"{name}-{width}.txt"
    found = _whole(RENDERED[name], width)
    if not path.exists():
        path.write_text(found)
        pytest.fail(f"{path.name} did not exist: read what was written")
    assert found == path.read_text()
    assert max(map(len, found.splitlines())) <= width


def test_ranks_fit_a_screen_unless_all_is_asked_for():
    usual = replace(MAIN, notes=())
    short = watched.whole(usual, made_up.CALIBRATED, _ranked(), width=80)
    assert len(short.splitlines()) <= 48, short
    assert _whole(_ranked(), full=True).count("Stages of loader 1") == 2  # both ranks


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "Next: find what rank 1 does for longer between two collectives"),
        ({"tokens": (900.0, 300.0)}, "Next: balance the batches, so that each rank has about as many tokens."),
        ({"fewer_cores": (1.0, 2.0)}, "Next: give rank 1 as many cores as the other rank may use."),
    ],
)
def test_a_rank_that_works_longer_has_its_own_next_move_and_not_that_of_its_loader(more, said):
    command = replace(_ranked(), ranks=replace(RANKS, part="work", stage=None, **more))
    found = " ".join(_whole(command).split())
    assert said in found and found.count("Next: ") == 1
    assert "Next: find what rank" not in " ".join(_whole(_ranked()).split())


@pytest.mark.parametrize(("part", "said"), [("wait", "which samples were slow."), ("work", "what it did there (a ")])
def test_a_rank_that_was_late_once_has_that_step_as_next_move(part, said):
    late = replace(RANKS, straggler=None, part=None, stage=None, late_in_few=LateInFew(1, 1, 3.9, part))
    found = " ".join(_whole(replace(_ranked(), ranks=late)).split())
    assert f"Next: find out about that step of rank 1, whose figures are above: {said}" in found
    assert found.count("Next: ") == 1


def test_what_a_rank_failed_with_comes_first():
    command = _ranked()
    failed = replace(command.programs[1], ended="failed", error="RuntimeError: no memory (train.py:7)", left_s=3.0)
    lines = _whole(replace(command, programs=(command.programs[0], failed))).splitlines()
    assert lines[0].startswith("train.py (rank 1, process 102) failed: RuntimeError: no memory")
    assert "".join(lines).count("no memory") == 1


def test_one_program_is_shown_as_a_script_is():
    one = WatchedCommand(COMMAND, 0, (ONE,), 0)
    head, _, rest = _whole(one).partition("\n\n")
    assert head == "train.py --epochs 3 (process 101) of the command loads data."
    assert rest.splitlines()[:17] == watched.whole(MAIN, None, width=80).splitlines()[:17]


def test_bound_is_not_advised_for_a_command():
    plain = replace(MAIN, next_move=None)
    assert "watch --bound" in watched.whole(plain, None)
    assert "--bound" not in watched.whole(plain, None, WatchedCommand(COMMAND, 0, (ONE,), 0))


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (0, "no Python process of the command was seen to import torch"),
        (1, "in the one Python process of the command that imported torch, no DataLoader was iterated"),
        (3, "in the 3 Python processes of the command that imported torch"),
    ],
)
def test_a_command_without_a_program_says_what_was_seen(others, said):
    found = " ".join(_whole(WatchedCommand(COMMAND, 0, others=others, hidden=("python -E x.py",))).split())
    assert found.startswith("Nothing was watched: ") and said in found
    assert "Not watched: python -E x.py." in found


def test_a_python_without_torch_is_named():
    one = WatchedCommand(COMMAND, 1, torchless=("/usr/bin/python3",))
    assert " ".join(_whole(one).split()).startswith(
        "Nothing was watched: the command's Python (/usr/bin/python3) has no torch. Is this the environment that"
    )
    assert "(/usr/bin/python3)" not in _whole(replace(one, others=1))


@pytest.mark.parametrize(
    ("others", "running", "said"),
    [
        (1, 1, "without one. It still ran when the command ended: let the command wait for it."),
        (3, 1, "without one. 1 of them still ran when the command ended: let the command wait for it."),
        (3, 2, "without one. 2 of them still ran when the command ended: let the command wait for them."),
    ],
)
def test_what_lived_on_before_it_iterated_anything_is_said(others, running, said):
    found = " ".join(_whole(WatchedCommand(COMMAND, 0, others=others, running=running)).split())
    assert said in found


def test_a_python_that_was_started_with_another_path_is_named_with_the_remedy():
    lost = ("train.py", "eval.py")
    for found in (WatchedCommand(COMMAND, 0, lost=lost), WatchedCommand(COMMAND, 0, (ONE,), 0, lost=lost)):
        said = " ".join(_whole(found, full=True).split())
        assert "Not watched: train.py and 1 more command. The start-up file of pipebench did not run there." in said
        assert "`PYTHONPATH=$PYTHONPATH:DIR`" in said and "was seen to import torch" not in said


def test_the_rank_that_ended_first_is_named_first():
    late, early = replace(CUT, pid=7, name="late.py", wall_s=9.0), replace(CUT, pid=8, name="early.py", wall_s=1.0)
    found = " ".join(_whole(WatchedCommand(COMMAND, 1, (ONE, late, early), 0)).split())
    assert found.index("early.py (process 8) was killed") < found.index("late.py (process 7) was killed")
    assert "late.py (process 7) was killed, or left by os._exit, after 9.00 s" in found


def test_names_from_a_command_are_inert():
    hostile = replace(CUT, error=made_up.HOSTILE, ended="failed")
    found = _whole(WatchedCommand(COMMAND, 0, (ONE, hostile), 0, hidden=(made_up.HOSTILE,)), full=True)
    assert "\x1b" not in found and "\u202e" not in found


def test_the_rank_that_was_killed_is_told_from_the_one_that_ended_afterwards():
    first = replace(ONE, name="train.py", pid=102, rank=1, ranks=2, ended="cut", watched=MAIN, left_s=10.0)
    first, other = replace(first, exit_status=-9), replace(first, pid=101, rank=0, left_s=10.25, exit_status=-15)
    said = " ".join(_whole(WatchedCommand(("torchrun",), 1, (other, first), 0, 0)).split())
    killed = "train.py (rank 1, process 102) was killed by SIGKILL after 64.2 s: its records have no end."
    ended = (
        "train.py (rank 0, process 101) was ended by SIGTERM, 250 ms after rank 1 was gone: its records have no end."
    )
    assert f"{killed} {ended}" in said
    lost = replace(other, ended="failed", error="RuntimeError: connection closed")
    said = " ".join(_whole(WatchedCommand(("torchrun",), 1, (lost, first), 0, 0)).split())
    assert f"{killed} train.py (rank 0, process 101) failed, 250 ms after rank 1 was gone: RuntimeError: conn" in said


def test_ends_on_several_machines_are_not_compared():
    """Each report counts from its own first program."""
    gone = replace(ONE, ended="cut", watched=MAIN, ranks=4, exit_status=-9, memory_ran_out=True)
    first, after = replace(gone, rank=0, left_s=50.0, host="node0"), replace(gone, rank=1, left_s=50.5, host="node0")
    there = replace(gone, rank=2, left_s=10.0, host="node1", report=1)
    ended = replace(there, rank=3, left_s=11.0, exit_status=-15)
    said = " ".join(_whole(WatchedCommand((), 1, (first, after, there, ended), 0)).split())
    assert said.count("after rank") == 2 and said.count("Memory ran out") == 2
    assert "on node0) was killed by SIGKILL after 64.2 s, 500 ms after rank 0 was gone" in said
    assert "(rank 2, process 101 on node1) was killed by SIGKILL after 64.2 s: its records have no end. Memory" in said
    assert "on node1) was ended by SIGTERM, 1.00 s after rank 2 was gone" in said


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (None, "was killed, or left by os._exit, after 64.2 s: its records have no end."),
        (3, "left by os._exit, or was replaced, with exit status 3 after 64.2 s: its records have no end."),
        (-15, "was killed by SIGTERM after 64.2 s: its records have no end."),
    ],
)
def test_how_a_program_ended_is_said_as_far_as_it_was_seen(status, said):
    cut = replace(ONE, ended="cut", watched=MAIN, left_s=64.2, exit_status=status)
    assert said in " ".join(_whole(WatchedCommand(COMMAND, 1, (cut, ONE), 0, 0)).split())


def test_of_the_first_rank_that_was_killed_it_is_said_that_memory_ran_out():
    first = replace(ONE, ended="cut", watched=MAIN, rank=1, ranks=2, left_s=10.0, exit_status=-9, memory_ran_out=True)
    other = replace(first, pid=101, rank=0, left_s=10.2)
    said = " ".join(_whole(WatchedCommand(("torchrun",), 1, (other, first), 0, 0)).split())
    assert said.count("its records have no end.") == 2
    assert said.count("its records have no end. Memory ran out, as the kernel counted: use fewer workers") == 1
