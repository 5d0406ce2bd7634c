"""Lets any program that is watched, and has this folder on its import path, record as it does when it has run for long.

From its begin, no single iteration or batch has figures of its own, none of the first ones is followed from its worker
to its step, lines have the distance that they have after five seconds, and a short function loses its row after a few
calls instead of 2,000 (a worker of these programs makes 4 samples a batch). No sample is looked into for its calls, its
lines or its reads, and thread pools only at the end: of reads, looks take at most a 5,000th of the time once enough
are known, and of the others there is a fixed number. Rows are known after 8 batches, however short, also of workers
that wait for a core most of the time: where several share one, samples seem to be longer than they are, by half here.
"""

import sys

from pipebench.watch.record import pace, sampling
from pipebench.watch.stages import in_place
from pipebench.watch.worker import batch_sums, file_reads, line_counts, repeated_calls, split

for module, name in (
    (pace, "SINGLE"), (pace, "_OF_ITS_AGE"), (in_place, "_TRIED"), (repeated_calls, "_SAMPLES"),
    (line_counts, "_SAMPLES"), (file_reads, "_FIRST_NS"), (split, "_KNOWN"),
    (split, "_LATER"), (split, "_KNOWN_NS"), (split, "_LATER_NS"), (split, "_DISTURBED"),
    (split, "_DEAR"), (batch_sums, "_POOLS_NS"),
):  # fmt: skip
    getattr(module, name)  # one that moved would change nothing
pace.SINGLE = 2
pace.Pace.__init__.__defaults__ = (0, pace.SINGLE)
pace._OF_ITS_AGE = 1
_followed = sampling.followed
sampling.followed = lambda task, number_of_pass=0: _followed(task + 64 * (2**14 + 1), number_of_pass)
in_place._TRIED = 32
repeated_calls._SAMPLES = line_counts._SAMPLES = 0
file_reads._FIRST_NS = sys.maxsize
batch_sums._POOLS_NS = 0
split._KNOWN = split._LATER = 8
split._KNOWN_NS = split._LATER_NS = 0
split._DISTURBED = float("inf")  # the kernel tells of waits for a core by a clock that is not made slower
split._DEAR /= 2
