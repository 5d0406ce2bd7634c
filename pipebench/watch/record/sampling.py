"""Chooses the batches that are followed one by one, from their worker to the step that uses them.

Worker and script make the same choice from the numbers of the pass and the task, without communication. Batches are
followed in blocks of neighbours, because only among neighbours can one count how many batches lay ready.
"""

from __future__ import annotations

BLOCK = 64
_PASS_BITS = 3
_BLOCK_BITS = 4
_FIRST_PASSES = 1 << _PASS_BITS
STEP_BITS = 10  # of the steps of a rank, the first 1,024 are kept, and 512 of each doubling after that


def weight(place: int, bits: int) -> int:
    """How many places the chosen `place` stands for."""
    return 1 << max(0, place.bit_length() - bits)


def thinned(place: int, bits: int) -> bool:
    """Whether `place` is chosen: all places of up to `bits` binary digits, then half as many in each doubling."""
    return place & (weight(place, bits) - 1) == 0


def followed(task: int, number_of_pass: int = 0) -> bool:
    """Whether a batch is followed: the first 1,024 of a pass and 512 of each doubling after that, in blocks of 64.

    Of the passes, the first eight are followed and four of each doubling after that. The records therefore grow with
    the logarithm of the run's length.
    """
    block = task // BLOCK
    doublings = block.bit_length() - _BLOCK_BITS
    if doublings > 0 and block & ((1 << doublings) - 1):  # not `thinned`: this is asked several times for each batch
        return False
    return number_of_pass < _FIRST_PASSES or thinned(number_of_pass, _PASS_BITS)
