"""The report on what makes rounds vary: made-up rounds whose spread is known."""

import math
import random

import pytest


def line(place, head, waited=0.0, run=1.0):
    """A round in which the head takes `head` seconds, and waits `waited` seconds more."""
    read = [[[1.0, 0.0], [head + (waited or 0.0), waited]]] * 3
    parts_s = {"fork": 0.1, "build": 0.2, "read": 0.25, "leave": 0.05}
    return {"run": run, "load": 2.0, "benchmark": "read", "place": place, "parts_s": parts_s, "read": read}


def test_the_middle_pair_of_a_round_counts_with_and_without_its_waiting(tool):
    one = line("same", 1.0)
    one["read"] = [[[1.0, 0.0], [1.0, 0.0]], *[[[1.0, 0.0], [1.5, 0.5]]] * 4]
    assert tool.middle(tool.ratios(one, ready=True)) == pytest.approx(0.0)
    assert tool.middle(tool.ratios(one, ready=False)) == pytest.approx(0.405465)


def test_how_much_faster_a_side_is_that_has_just_read(tool):
    one = line("same", 1.0)
    one["read"] = [[[1.0, 0.0], [0.9, 0.0]], [[0.9, 0.0], [1.0, 0.0]]] * 3
    assert tool.just_read(one) == pytest.approx(-math.log(0.9))
    assert tool.middle(tool.ratios(one, ready=True)) == pytest.approx(0.0)


def test_rounds_whose_waiting_is_not_known_are_left_out(tool):
    found = tool.by_way([line("same", 1.1), line("same", 9.9, waited=None), line("own", 1.2)])
    assert [len(run) for ways in found["read"].values() for run in ways.values()] == [1, 1, 1, 1]


def test_a_report_in_full(tool):
    heads = (0.98, 0.99, 1.0, 1.01, 1.02)
    lines = [line("own", 1 + 5 * (head - 1)) for head in heads]
    lines += [line("same", head, waited=0.3 * (number == 0)) for number, head in enumerate(heads)]
    lines += [line("same", head + 0.1, run=2.0) for head in heads]
    assert tool.report(lines) == (
        "15 rounds of equal code from 2 pairs of servers; load 2.0 to 2.0, median 2.0\n"
        "\n"
        "standard deviation of a round's log(head / base), by its quartiles\n"
        "benchmark  own place, all time  same place, all time  same place, ready  the same, one median  rounds\n"
        "read                     7.4 %                 6.6 %              6.7 %                 6.7 %      10\n"
        "\n"
        "seconds of a round, median\n"
        "benchmark  fork  build  read  leave  pairs  faster who has just read\n"
        "read       0.10   0.20  0.25   0.05      3                    +0.0 %\n"
        "\n"
        "mean log(head / base) of each pair of servers (standard error), same place, ready\n"
        "benchmark              by pair of servers\n"
        "read       -0.01 (0.71) %  +9.52 (0.64) %\n"
        "further from 0 than 2 standard errors: 1 of 2\n"
        "what a pair of servers adds, as a standard deviation: 4.99 % (at most 4.99 %)\n"
    )


def test_what_servers_draw_is_found_beside_the_error_of_their_means(tool):
    rng = random.Random(3)
    for drawn in (0.0, 0.005, 0.01):
        every = [(rng.gauss(0, math.hypot(drawn, error)), error) for error in [0.002, 0.004, 0.008] * 200]
        likeliest, most = tool.apart(every)
        assert likeliest == pytest.approx(drawn, abs=0.001) and likeliest <= most < drawn + 0.002
