"""Why nothing was tried, why trials ended, and why one change was not tried: the words for the codes."""

REFUSALS = {
    "iterable": "The dataset is iterable: its workers choose the samples, so two loaders cannot share them. With "
    "--yes-discard-weights, each reads the stream by itself.",
    "iterable-ranks": "The dataset is iterable, and the ranks must stay in step: nothing is tried.",
    "iterable-read-again": "The dataset is iterable and reads from storage: a second loader would find in the page "
    "cache what the first one has read.",
    "ranks": "This is one of several ranks, which wait for each other in every step, and not all of them can be "
    "reached: put `pipebench advise --` in front of what starts them all, on one machine.",
    "ranks-differ": "The ranks make their loaders in different ways, or iterate them first in another order, so they "
    "cannot try a change at the same batches.",
    "new-iterators": "The loop makes a new iterator in each step, so its iterations say little: keep one, and advise "
    "again.",
    "own-iterator": "The loader's class puts an iterator of its own around torch's, so its batches cannot be dealt.",
}
"""By the code of what is not possible on a loader at all."""

ENDED = {
    "script-ended": "The script ended before everything was tried; a longer training leaves time for the rest.",
    "budget": "The budget is too short to try everything: raise --budget.",
    "fault": "A fault of pipebench ended the trials.",
}
"""By the code of what ended the trials."""

NOT_TRIED = {
    "budget": "it needs more than the budget leaves",
    "no-pair": "no comparison with it was over in twice the time that the present loader needs",
    "no-memory": "its workers beside the present ones would take more than half of the free memory",
    "pass-length": "a pass has no known length",
    "script-ended": "the script ended first",
    "new-loader-each-pass": "the script makes its loader anew, and workers end with their loader",
    "shares-files": "the dataset reads a file or connection that the script has open, which workers would share",
    "no-main-guard": "workers would run the script again: what trains belongs below `if __name__ == '__main__':`",
    "passes-overlap": "the script begins a pass before the last one is over",
    "short-passes": "a pass is too short for windows",
    "of-script": "`advise` changes no code of yours",
    "iterable": "the dataset is iterable",
    "iterable-ranks": "the dataset is iterable",
    "iterable-read-again": "it would find the samples in the page cache",
    "iterable-undivided": "each worker would give all samples",
    "ranks": "the ranks wait for each other",
    "ranks-differ": "the ranks have different loaders",
    "own-iterator": "the loader has an iterator of its own",
    "ranks-apart": "the ranks are many batches apart",
    "workers-compute": "the workers compute also while they wait for their turn, so windows cannot tell",
    "own-process": "it would run the dataset in the script's own process, with what that has open",
    "other-thread": "another thread than the main one takes the batches",
    "compiled": "the model is compiled, which depends on the number of threads",
    "no-arrays": "the workers have no NumPy",
    "no-views": "its first batches show no small view of large memory that a copy could replace",
    "pads": "its crop pads, or an image is smaller than the crop",
    "no-workers": "the loader has no workers",
    "no-such-stage": "the workers do not have this stage where it can be replaced",
    "no-such-transforms": "its one Compose does not hold these transforms, in their place",
    "no-such-batch": "its collate function puts the images elsewhere",
    "no-such-resize": "its transforms do not begin with one Resize",
    "not-smaller": "its JPEGs are less than twice as large as the Resize makes them",
    "not-bytes": "its images are no bytes",
    "own-collate": "its collate function is not torch's",
    "holds-all": "its lru_cache holds all its results already",
    "not-anew": "its arguments differ from sample to sample",
    "no-jpegs": "no JPEG comes to the crop as Pillow has opened it",
    "not-repeatable": "its samples cannot be compared, or differ though their random numbers are the same",
    "samples-differ": "it would change the samples",
    "changed-in-place": "somebody changes its result in place",
    "no-keys": "its arguments are no numbers or names, which would tell a cache what to give",
    "no-place": "samples call it different numbers of times, and it gives different kinds of results",
    "no-rows": "its dataset does more than to take rows of arrays or tensors",
    "has-getitems": "its dataset gives whole batches already",
    "sets-state": "it also sets what other code reads later, which a cache would not do",
    "other-keys": "its arguments differ when a sample is made again, so a cache would not have them",
    "draws-numbers": "it draws random numbers",
    "differs-each-time": "it gives something else when it is called again, or what cannot be compared",
}
"""By the code of why a change was not tried, or was refused."""

DOES_NOT_APPLY = ("no-jpegs", "own-collate", "no-such-transforms", "no-views", "no-rows", "has-getitems", "not-anew")
"""What the workers found: no line, but with `--full`."""
