"""Watches every other epoch of a program, in an order by chance: see `sitecustomize`.

An epoch goes from one iteration of the program's first loader to the next. The file gets a line for each: whether it
was watched, the CPU seconds of the script and of its workers, how long it took, and when each step of an optimiser
ended. To begin and to end the recording, and to make the report, are in no epoch. An epoch is recorded as one of a long
run: see `settled`.
"""

import atexit
import json
import multiprocessing
import os
import random
import resource
import runpy
import time


def alternate(kind, file):
    plain, process = kind.__iter__, os.getpid()
    epochs = Epochs(file)

    def __iter__(loader):
        if os.getpid() == process and epochs.is_of_this(loader):
            epochs.next()
        return plain(loader)

    kind.__iter__ = __iter__
    atexit.register(lambda: os.getpid() == process and epochs.end())


class Epochs:
    def __init__(self, file):
        self.file, self.loader, self.block, self.pair, self.steps = file, None, None, [], None
        self.chance = random.Random(7)

    def is_of_this(self, loader):
        """Whether this is the loader that the epochs are of: the first one, or one over the same data set."""
        if self.loader is None:
            self.loader = id(loader.dataset)
        return self.loader == id(loader.dataset)

    def next(self):
        if self.steps is None:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            runpy.run_path(os.path.join(os.path.dirname(__file__), "..", "settled", "sitecustomize.py"))
            self.steps = []
            register_optimizer_step_post_hook(lambda *_: self.steps.append(time.perf_counter()))
        else:
            self.end()
        self.pair = self.pair or self.chance.sample((False, True), 2)
        if self.pair.pop():
            import pipebench

            self.block = pipebench.watching()
            self.block.__enter__()
        self.steps.clear()
        self.began = cpu_s(), time.perf_counter()

    def end(self):
        cpu, wall = (now - began for now, began in zip((cpu_s(), time.perf_counter()), self.began, strict=True))
        watched, self.block = self.block, None
        if watched is not None:
            watched.__exit__(None, None, None)
        line = {
            "watched": watched is not None,
            "seen": watched is not None and watched.result.iterations,
            "cpu_s": cpu,
            "wall_s": wall,
            "steps": [*self.steps],
        }
        with open(self.file, "a") as file:
            file.write(json.dumps(line) + "\n")


def cpu_s():
    """The CPU seconds of this process, of those that it has waited for, and of workers that live on."""
    of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in of) + sum(map(alive_s, multiprocessing.active_children()))


def alive_s(worker):
    with open(f"/proc/{worker.pid}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
