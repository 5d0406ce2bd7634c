"""The line of a loop's own work on batches, and what is written in its place where that is known."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account
from pipebench.watch.read import slow_line as module
from pipebench.watch.read.in_loop import keeps_metric, needed_in_each
from pipebench.watch.read.known_arrays import NESTED
from pipebench.watch.read.known_table import KNOWN
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.slow_line import slow_line
from pipebench.watch.record.lines import LoopLooks
from pipebench.watch.record.trial_lines import LineLooks, PlaceLooks

SOURCE = """\
class Replay:
    def sample(self, n):
        p = self.weights / self.weights.sum()
        index = np.random.choice(len(p), n, p=p)
        return self.x[index]
""".splitlines(keepends=True)
DRAWS = LineLooks("a/replay.py", "Replay.sample", 4, "", 40)
SUMS = DRAWS._replace(line=3, looks=20)


def _text(file: str, line: int) -> str:
    return SOURCE[line - 1] if file == "a/replay.py" and 0 < line <= len(SOURCE) else ""


def test_a_line_that_is_known_is_told_with_what_is_written_instead() -> None:
    found = slow_line([DRAWS, SUMS], text=_text)
    assert (found["slow_line"], found["title"], found["line_share"]) == (
        4,
        "weights summed up once",
        pytest.approx(2 / 3),
    )
    assert "np.searchsorted" in str(found["how"]) and "worker" not in str(found["how"])


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([SUMS._replace(looks=40), DRAWS._replace(looks=10)], 3),  # too small a part is known
        ([SUMS._replace(looks=20), DRAWS._replace(looks=10), SUMS._replace(line=5, looks=20)], None),  # no half
        ([DRAWS._replace(looks=19)], None),
        ([], None),
    ],
)
def test_else_the_line_with_most_of_it_is_named(lines: list[LineLooks], line: int | None) -> None:
    found = slow_line(lines, text=_text)
    assert found.get("slow_line") == line and "title" not in found


def test_a_replay_buffer_of_lists_is_told_to_keep_arrays() -> None:
    makes = LineLooks("/home/me/replay.py", "Replay.sample", 3, "", 40)
    found = slow_line(
        [makes], text=lambda file, line: "return [torch.tensor(column) for column in columns]" * (line == 3)
    )
    assert (found["title"], found["slow_line"]) == ("tensors of arrays, not of lists", 3)
    assert "Convert what is kept once, when it is stored: np.asarray(x, dtype=np.float32)." in str(found["how"])


def test_what_only_holds_of_a_dataset_is_not_said() -> None:
    line = LineLooks("a/replay.py", "load", 1, "sentence_transformers.SentenceTransformer.encode", 40)
    assert "title" not in slow_line([line], text=lambda file, at: "z = encoder.encode(texts)\n" if at == 1 else "")


def test_the_next_step_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.slow_line, "__defaults__", (_text,))
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400}, workers=0, cpu=1000)
    place = PlaceLooks(62, ["Replay.sample"], 60, 40, 60 * 10**6, 55 * 10**6, True)
    run.lines.append(LoopLooks(0, "a/train.py", 50, [place], 40, early_lines=[DRAWS, SUMS]))
    account = run.account(1)
    told = next_move(move_of_run(None, account.causes, 1)) or ""
    assert told.startswith(
        "Next: change replay.py:4 (Replay.sample, 67 % of making batches) to weights summed up once. "
    )
    assert told.endswith("a tree of sums takes few operations for each.")


AVERAGE = """\
class EMA:
    def update(self, model):
        student = copy.deepcopy(model.state_dict())
        for name, value in teacher.items():
            teacher[name] = value * self.decay + student[name] * (1.0 - self.decay)
        self.model.load_state_dict(teacher)
""".splitlines(keepends=True)
COPIES = LineLooks("a/byol.py", "EMA.update", 3, "copy.deepcopy", 20)
MIXES = LineLooks("a/byol.py", "EMA.update", 5, "", 16)
LOADS = LineLooks("a/byol.py", "EMA.update", 6, "torch.Module.load_state_dict", 14)
INSTEAD = "an average of weights changed in place"


def _of_average(file: str, line: int) -> str:
    return AVERAGE[line - 1] if file == "a/byol.py" and 0 < line <= len(AVERAGE) else ""


@pytest.mark.parametrize(
    ("lines", "of", "found"),
    [
        ([COPIES, MIXES, LOADS], 0, (3, 0.72, INSTEAD)),  # lines that are slow by the same count together
        ([COPIES, MIXES, LOADS], 100, (3, 0.36, INSTEAD)),
        ([COPIES, MIXES, LOADS], 200, (None, None, None)),
        ([LOADS._replace(looks=40), COPIES._replace(looks=10)], 0, (6, 0.8, None)),
        ([COPIES._replace(looks=9)], 0, (None, None, None)),
        ([], 50, (None, None, None)),
    ],
)
def test_lines_that_are_slow_by_the_same_are_told_together(lines: list[LineLooks], of: int, found: object) -> None:
    told = slow_line(lines, text=_of_average, of=of)
    assert (told.get("slow_line"), told.get("line_share"), told.get("title")) == found


def _besides(function: str, *lines: LineLooks, models: int = 0) -> Planted:
    run = Planted()
    run.loader(**{**TRAINS, "other": 600}, cpu=1500)
    run.worker(busy=0.1, cpu=1.0)
    place = PlaceLooks(76, [function], 50, 50, 50_000_000, 49_000_000, own=1, models=models)
    run.lines.append(LoopLooks(1, "a/byol.py", 60, [place], besides=list(lines)))
    return run


def test_an_average_of_weights_is_not_to_come_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.slow_line, "__defaults__", (_of_average,))
    account = _besides("EMA.update", COPIES, MIXES, LOADS).account()
    text = said(account)
    assert "Work in the loop besides training took" in text and "less often" not in text
    assert "Most of it: EMA.update, called in byol.py:76. Inside, 72 % is byol.py:3 and lines like it." in text
    assert "Doing it at less cost could save at most 600 ms" in text
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith(f"Next: change byol.py:3 and lines like it (EMA.update, 72 % of this work) to {INSTEAD}. ")
    assert told.endswith("Copy buffers, too.")


def test_other_work_may_come_less_often_and_its_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.slow_line, "__defaults__", (_of_average,))
    sends = LineLooks("a/byol.py", "report", 6, "", 40)
    account = _besides("main.<locals>.report", sends, LOADS._replace(looks=10)).account()
    text = said(account)
    assert "Work in the loop besides training (callbacks, logging, metrics) took" in text
    assert "Inside, 80 % is byol.py:6. Doing it less often, or at less cost, could save about 600 ms" in text
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith("Next: do the work besides training (main.<locals>.report, called in byol.py:76) less often")
    assert "A model runs there" not in text
    (one,) = (one for one in _besides("helper", LOADS).account().causes if one.code == "callbacks")
    assert "slow_line" not in one.values  # that line is in another function


def test_a_model_that_runs_once_more_in_each_iteration_is_told() -> None:
    text = said(_besides("accuracy", models=50).account())
    assert (
        "Most of it: accuracy, called in byol.py:76. A model runs there, after the backward: for the same batch, the "
        "output of the first forward may do." in text
    )


@pytest.mark.parametrize(
    ("name", "needed", "metric"),
    [
        ("EMA.update", True, False),
        ("update_teacher", True, False),
        ("ModelEma.update", True, False),
        ("soft_update_target", True, False),
        ("AverageMeter.update", False, True),
        ("RunningScore.update", False, True),
        ("log_scalars", False, False),
        ("send_emails", False, False),
        ("Remarks.send", False, False),
    ],
)
def test_what_a_function_does_by_its_name(name: str, needed: bool, metric: bool) -> None:
    assert (needed_in_each(name), keeps_metric(name)) == (needed, metric)


def _of_no_loader(ns: int, cpu_ns: int, cores: int, function: str = "Replay.sample") -> Account:
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": 1400}, workers=0, cpu=1000)
    place = PlaceLooks(62, ["Replay.sample"] if function else [], 60, 40, ns, cpu_ns, True)
    run.lines.append(
        LoopLooks(0, "a/train.py", 50, [place], 40, early_lines=[SUMS._replace(function=function, looks=60)])
    )
    return run.account(cores)


@pytest.mark.parametrize(
    ("cores", "function", "told"),
    [
        (1, "Replay.sample", "(Replay.sample, replay.py:3). Now it takes 840 ms of the run, 100 % of it in that line."),
        (1, "", "(replay.py:3). Now it takes 840 ms of the run, 100 % of it in that line."),
        (4, "", "100 % of it in that line. Or make batches in the workers of a DataLoader (num_workers=1), beside the"),
    ],
)
def test_of_a_line_of_which_nothing_is_known_the_next_step_says_its_share(cores: int, function: str, told: str) -> None:
    account = _of_no_loader(60 * 10**6, 55 * 10**6, cores, function)
    said = next_move(move_of_run(None, account.causes, cores)) or ""
    assert said.startswith("Next: make batches at less cost (") and told in said and "core is free" not in said


def test_a_loop_that_waits_for_its_batches_has_no_line_to_make_cheaper() -> None:
    account = _of_no_loader(60 * 10**6, 10**6, 4)
    (cause,) = (one for one in account.causes if one.code == "prepare")
    assert "rests" in cause.values and "line_share" not in cause.values
    assert "let a source have each batch ready" in (next_move(move_of_run(None, account.causes, 4)) or "")


def test_two_loops_are_not_told_what_holds_of_a_function_of_numpy() -> None:
    source = ["def f(a):", "    for i in range(9):", "        for j in range(9):", "            a[i, j] = a[i, j] * 2"]
    line = LineLooks("x.py", "f", 4, "", 40)
    found = slow_line([line], text=lambda file, at: source[at - 1] + "\n" if 0 < at <= len(source) else "")
    assert found["how"] == " ".join(NESTED.how)


def test_a_title_says_one_thing_where_a_loop_makes_its_batches() -> None:
    said = {(one.title, one.alone or one.how) for one in (NESTED, *KNOWN) if one.alone or one.anywhere}
    assert len(said) == len({title for title, _ in said})
