"""What is looked at in the tests of looks at a loop."""

import threading
from types import SimpleNamespace


class Client:
    def report(self, at_work):
        at_work()


def made_up_recording():
    written = []
    return SimpleNamespace(write=written.append, written=written, on=True, before_stop=[], fault=print)


def seen_from_outside(looker):
    """A function that another thread's look meets."""

    def at_work():
        other = threading.Thread(target=looker._look)
        other.start()
        other.join()

    return at_work
