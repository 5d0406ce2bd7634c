"""When a process tree rests."""

import subprocess
import sys

from pipebench.host import process_tree


def rested(costs):
    """How long `rest` says that the tree was busy, if it spends `costs` in window after window."""
    clock, spent, left = [100.0], [0.0], iter(costs)

    def sleep(length):
        clock[0] += length
        spent[0] += next(left, 0.0)

    return process_tree.rest(lambda: spent[0], lambda: clock[0], sleep) - 100


def test_a_tree_that_rests_was_busy_until_the_call():
    assert rested([]) == rested([0.01]) == 0


def test_work_ahead_counts_until_its_last_window():
    assert round(rested([0.1, 0.2, 0.05]), 6) == 0.3


def test_a_tree_that_never_rests_is_left():
    assert process_tree.LONGEST_S <= rested([0.1] * 1000) < process_tree.LONGEST_S + 1


def test_the_tree_holds_children_that_live_and_that_ended():
    before = process_tree.cpu_s()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    after = process_tree.cpu_s()
    assert after > before
    waiting = [sys.executable, "-c", "sum(range(3_000_000)); print(flush=True); input()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert process_tree.cpu_s() > after
        assert process_tree.memory_bytes() > 0
        child.communicate(b"\n")
