"""The arithmetic of `tools/noise.py report`: how often whole runs were right."""

import statistics


def truth(base_rounds, head_rounds):
    """The true change of one benchmark and run, by the clock of the added work.

    `true` is the middle round's ratio of the fastest added work to the fastest call, because `pipebench ab` compares
    fastest readings. `call_change` is how much longer the call itself took beside the added work than it took in the
    base: 0 where the plant does not disturb what it is planted into.
    """
    shares = [one["least_more_ns"] / one["least_call_ns"] for one in head_rounds]
    calls = [h["least_call_ns"] / b["least_call_ns"] for b, h in zip(base_rounds, head_rounds, strict=True)]
    quartiles = statistics.quantiles(shares, n=4, method="inclusive") if len(shares) > 1 else shares * 3
    return {
        "true": quartiles[1], "true_from": quartiles[0], "true_to": quartiles[2], "true_in_first_round": shares[0],
        "true_of_sums": sum(one["more_ns"] for one in head_rounds) / sum(one["call_ns"] for one in head_rounds),
        "call_change": statistics.median(calls) - 1,
    }  # fmt: skip


def report(lines):
    raise NotImplementedError
