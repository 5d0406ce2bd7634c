"""Both sides are asked what they return. The sides run in this process, each with a module of its own."""

import itertools
import sys

import pytest

from pipebench.compare import looking, round_process
from pipebench.errors import PipebenchError
from pipebench.results.comparison import Outputs
from pipebench.runner import RunnerDied, RunnerFailed

LOADER = """
import functools, random, time
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset

class Made(Dataset):
    transform = None
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return torch.full((3, 4, 4), index, dtype=torch.uint8), index

def work(image):
    return image.float() / 255

class Step:
    calls = 0
    memo = {}
    def __call__(self, image):
        Step.calls += 1
        STEP

def make_transform():
    return Step()

def make_loader(transform=None):
    return DataLoader(Made(), batch_size=4)
"""
STEPS = {
    "base": "return work(image)",
    "half": "return work(image[:, ::2, ::2])",
    "wrong": "return work(image).roll(1) + work(image)",
    "dtype": "return work(image).double()",
    "memo": "key = int(image[0, 0, 0])\n        if key not in self.memo:\n"
    "            self.memo[key] = work(image)\n        return self.memo[key]",
    "stale": "self.memo.setdefault(0, work(image))\n        return self.memo[0]",
    "augmented": "return work(image) * random.random() * np.random.rand() * torch.rand(1)",
    "unseeded": "return work(image) + torch.from_numpy(np.random.default_rng().random((3, 4, 4), np.float32))",
    "late": "return work(image) if Step.calls < 60 else work(image) + 1",
    "broken": "raise ValueError('no')",
}
IDENTITY = "transform/own/all"


class InProcess:
    """A side whose requests are answered at once. A fork imports its module anew, as if in a fresh process."""

    folder = ""

    def __init__(self, name):
        self.name, self._answers, self._own = name, [], {"loader": f"{name}:make_loader"}
        self._own["transform"] = f"{name}:make_transform"
        self.asked, self.read, self.died = [], [], False

    def send(self, method, *arguments):
        self.asked.append(method)
        self.read += arguments[1:] if method == "reading" else ()
        if method == "fork":
            sys.modules.pop(self.name, None)
            self._side, method = round_process.Side(self._own), "begin"
        self._answers.append((getattr(self._side, method), arguments))

    def receive(self):
        if self.died:
            raise RunnerDied("the process ended")
        call, arguments = self._answers.pop()
        try:
            return call(*arguments)
        except Exception as error:
            raise RunnerFailed(str(error)) from error

    def leave(self):
        self.asked.append("leave")

    def recover(self):
        self._answers.clear()


@pytest.fixture
def side(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    numbers = itertools.count()

    def make(step):
        name = f"side_{step}_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(LOADER.replace("STEP", STEPS[step]))
        return InProcess(name)

    return make


def look(side, base, head, readings=0):
    what = looking.Look(IDENTITY, {}, ("own",), readings)
    return looking.look([side(base), side(head)], what, lab=False)


@pytest.mark.parametrize(
    ("head", "state", "kind"),
    [
        ("base", "same", None),
        ("half", "changed", "shape"),
        ("wrong", "changed", "values"),
        ("dtype", "changed", "dtype"),
        ("memo", "changed", "cached"),
        ("stale", "changed", "values"),
        ("unseeded", "changed", "unrepeatable"),
    ],
)
def test_what_a_commit_changed_is_found(side, head, state, kind):
    found = look(side, "base", head)
    assert (found.state, found.difference and found.difference.kind) == (state, kind)


def test_random_augmentations_are_the_same_after_the_same_seed(side):
    assert look(side, "augmented", "augmented").state == "same"


def test_the_unrepeatable_side_is_named(side):
    assert look(side, "unseeded", "base").sides == ("base",)
    assert look(side, "unseeded", "unseeded").sides == ("base", "head")


def test_what_changes_after_many_calls_is_found_at_the_end(side):
    assert look(side, "base", "late").state == "same"
    assert look(side, "base", "late", readings=10).state == "changed"


class Row:
    identity, keys, calls, head_calls, live = IDENTITY, ("own",), 3, 1, True

    def __init__(self, readings):
        self.rounds, self.outputs, self.failed = [((1.0, 1.0),) * readings], None, None


def test_a_benchmark_is_looked_at_before_and_after_its_rounds(side):
    servers, row, said = [side("base"), side("late")], Row(10), []
    looking.look_at_all([row], servers, {}, False, lambda done, of, what: said.append(what))
    assert row.outputs == Outputs("same")
    looking.look_at_all([row], servers, {}, False, lambda done, of, what: said.append(what))
    assert (row.outputs.state, row.outputs.at_end) == ("changed", True)
    assert [set(server.read) for server in servers] == [{3}, {1}]  # each side's own number of calls, as in the rounds
    before = len(servers[0].asked)
    looking.look_at_all([row], servers, {}, False, lambda done, of, what: said.append(what))
    assert len(servers[0].asked) == before and said == ["comparing outputs"] * 3


def test_a_benchmark_that_cannot_be_looked_at_has_a_reason(side):
    assert look(side, "broken", "broken") == Outputs("unknown", reason="no")


def test_the_side_that_failed_is_named_unless_both_failed_alike(side):
    found = look(side, "base", "broken")
    assert found.reason.startswith("side_broken_") and found.reason.endswith(": no")
    assert look(side, "broken", "broken").reason == "no"
    servers = [side("broken"), side("broken")]
    servers[1].name = servers[0].name = "one commit on both sides"
    assert looking.look(servers, looking.Look(IDENTITY, {}, ("own",)), lab=False).reason == "no"


def test_a_pipebench_that_does_not_show_outputs_is_named(side, monkeypatch):
    monkeypatch.setattr(round_process.ONE_PASS, "of_call", lambda call: None)
    found = look(side, "base", "base")
    assert found.state == "unknown" and "the pipebench of side_base_" in found.reason


def test_a_server_that_died_stops_the_comparison(side):
    servers = [side("base"), side("base")]
    servers[1].died = True
    row = Row(1)
    with pytest.raises(PipebenchError, match="the process ended in transform/own/all"):
        looking.look_at_all([row], servers, {}, False, lambda *_: None)
    assert row.failed == "the process ended"


def test_the_tolerance_of_the_lab_is_that_of_its_task():
    """One level of rounding in one pixel is within the tolerance of a decoder; a swap of channels is not."""
    import numpy as np

    class Answers:
        folder = name = ""

        def __init__(self, value):
            self.value, self._last = value, None

        def send(self, method, *arguments):
            self._last = method

        def receive(self):
            return [self.value] if self._last == "values" else None

        def leave(self): ...

    image = np.random.default_rng(0).integers(90, 160, (32, 32, 3), np.uint8)
    near = image.copy()
    near[4, 4] += 1
    what = looking.Look("decode/rgb/pillow", {}, ("a",))
    assert looking._within([Answers(image), Answers(near)], what)
    assert not looking._within([Answers(image), Answers(image[..., ::-1].copy())], what)
    step = looking.Look("step/small/eager", {}, ("a",))
    assert not looking._within([Answers(1.0), Answers(1.0)], step)
