"""Notes what the iterations of any program take that has this folder on its import path.

With `STEPS_IN`, when each step of an optimiser ended: at the program's end, `STEPS_IN/<process>.json` gets these times,
in seconds of `time.perf_counter`. With `EPOCHS_IN`, its epochs are watched in turns: `EPOCHS_IN/epochs.jsonl` gets a
line for each (`alternating`).
"""

import importlib.util
import json
import os
import sys


class After:
    """Calls `then` with a module once it is imported."""

    def __init__(self, name, then):
        self.name, self.then = name, then

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module
        return spec


def note(folder):
    import atexit
    import time

    from torch.optim.optimizer import register_optimizer_step_post_hook

    ended, clock = [], time.perf_counter
    register_optimizer_step_post_hook(lambda *_: ended.append(clock()))

    def keep():
        if ended:
            with open(os.path.join(folder, f"{os.getpid()}.json"), "w") as file:
                json.dump(ended, file)

    atexit.register(keep)


def watch_in_turns(module):
    from alternating import alternate

    alternate(module.DataLoader, os.path.join(os.environ["EPOCHS_IN"], "epochs.jsonl"))


if "STEPS_IN" in os.environ:
    sys.meta_path.insert(0, After("torch", lambda _: note(os.environ["STEPS_IN"])))
if "EPOCHS_IN" in os.environ:
    sys.meta_path.insert(0, After("torch.utils.data.dataloader", watch_in_turns))
