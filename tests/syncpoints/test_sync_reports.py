"""Sync points: lines, counts, loops, the text, what is refused, and the command."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch
import warm
from examining import DEVICE, mask, no_device, nothing_stays_patched, total, x  # noqa: F401

from pipebench.errors import PipebenchError, UsageError
from pipebench.host.named import named
from pipebench.render import layout, syncs, text
from pipebench.results import sync_points
from pipebench.results.report import load
from pipebench.syncpoints import examine

cuda = pytest.mark.cuda


def item():
    x.sum().item()


def _shown(report):
    """As a page shows it that is wide enough for every line."""
    return layout.text(syncs.parts(report), width=1000)


def listed(function, **options):
    """Operations a step by line number relative to the function's first line."""
    report = examine.examine(function, **options)
    first = function.__code__.co_firstlineno
    return {point.line - first: point.per_step for point in report.points}


def test_lines_and_counts():
    def step():
        for _ in range(3):
            x.sum().item()
        x.cpu(), x[mask]
        return x.sum()

    assert listed(step) == {2: 3, 3: 2}
    assert listed(step, iterations=1) == {2: 3, 3: 2}


def test_a_count_is_per_step():
    calls = []

    def step():
        calls.append(1)
        if len(calls) % 2:
            x.sum().item()

    assert total(step, iterations=4) == 0.5
    assert len(calls) == 4


def test_the_line_is_the_users_even_inside_a_library():
    def step():
        torch.distributions.Normal(x, x.abs() + 1, validate_args=True)

    assert listed(step) == {1: 2}


def test_backward_passes_and_hooks():
    weight = torch.randn(8, 8, requires_grad=True)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, grad):
            grad.cpu()
            return grad * 2

    def step():
        chosen = weight[mask]
        chosen.sum().backward()

    def custom():
        Double.apply(weight).sum().backward()

    assert listed(step) == {1: 1, 2: 1}
    assert total(custom) == 1
    assert examine.examine(custom).points[0].line == Double.backward.__code__.co_firstlineno + 2


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.NAdam])
@pytest.mark.parametrize("started", [False, True])
def test_optimisers_do_not_wait(kind, started):
    weight = torch.randn(4, requires_grad=True)
    optimiser = kind([weight], lr=0.1)

    def step():
        optimiser.zero_grad()
        weight.sum().backward()
        optimiser.step()

    if started:
        step()
    assert total(step) == 0


def test_gradient_clipping():
    weight = torch.nn.Parameter(torch.randn(4))
    weight.grad = torch.ones(4)
    assert total(lambda: torch.nn.utils.clip_grad_norm_([weight], 1.0)) == 0
    assert total(lambda: torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)) == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loaders_batches_are_host_data_and_its_own_work_does_not_count(workers):
    data = torch.utils.data.TensorDataset(torch.randn(6, 2))
    loader = torch.utils.data.DataLoader(
        data, batch_size=2, shuffle=True, num_workers=workers, multiprocessing_context="fork" if workers else None
    )
    with examine.syncs() as found:
        for (batch,) in loader:
            batch.sum().item()
            moved = batch.to(DEVICE)
            moved.sum().item()
            found.step()
    report = found.report()
    assert report.steps == 3
    assert [(point.per_step, point.operations[0].name.split(":")[0]) for point in report.points] == [
        (1, ".to()"),
        (1, ".item()"),
    ]


def test_a_loop_without_marks_is_one_step():
    with examine.syncs() as found:
        for _ in range(4):
            x.sum().item()
    assert found.report().per_step == 4
    assert found.report().function is None


def test_entries_after_the_last_mark_do_not_count():
    with examine.syncs() as found:
        for _ in range(2):
            x.sum().item()
            found.step()
        x.tolist()
    assert found.report().per_step == 1


def test_compiled_regions_are_not_inspected():
    def inner(value):
        return value.sum().item()

    compiled = torch.compile(inner, backend="eager")

    def step():
        compiled(x)
        x.cpu()

    report = examine.examine(step)
    assert [region.name.rpartition(".")[2] for region in report.not_inspected] == ["inner"]
    assert report.not_inspected[0].line == step.__code__.co_firstlineno + 1
    assert listed(step) == {2: 1}
    text = _shown(report)
    assert text.splitlines()[-1].startswith("not inspected: compiled region ")
    assert f":{report.not_inspected[0].line}" not in text


def test_the_text(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nx = torch.ones(4)\n\n\ndef step():\n"
        "    x.sum().item()\n    x.cpu(), x.tolist()\n    x[x > 0] = 0.0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "train", raising=False)
    import train

    assert _shown(examine.examine(train.step)) == (
        "4 sync points a step (would synchronise; no device here)\n"
        "train.py:7: 2 a step: 1× .cpu(): device to host; 1× .tolist()\n"
        "train.py:6: 1 a step: .item(): _local_scalar_dense (its result depends on values)\n"
        "train.py:8: 1 a step: x[mask] = number (one mask: CUDA fills and need not wait)\n"
    )


def test_a_hostile_path_is_inert(tmp_path, monkeypatch):
    folder = tmp_path / "a\x1b[31m\nb"
    folder.mkdir()
    script = folder / "odd.py"
    script.write_text("def step(x):\n    x.cpu()\n")
    scope = {}
    exec(compile(script.read_text(), str(script), "exec"), scope)
    text = _shown(examine.examine(lambda: scope["step"](x)))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2
    assert text.splitlines()[1].endswith("a\\x1b[31m\\nb/odd.py:2: 1 a step: .cpu(): device to host")


def test_a_report_is_plain_data():
    report = examine.examine(item)
    assert json.loads(json.dumps(dataclasses.asdict(report)))["per_step"] == 1


def test_nothing_to_list():
    text = _shown(examine.examine(lambda: torch.where(mask, x, 0.0)))
    assert text == "0 sync points a step (would synchronise; no device here)\n"


def test_results_are_those_of_the_function():
    seen = []

    def step():
        host = torch.tensor([1.0, 2.0])
        there = host.to("cuda")
        there += 1
        back = there.cpu()
        back += 1
        seen.append((host.tolist(), there.tolist(), back.tolist()))

    examine.examine(step, iterations=1)
    assert seen == [([1.0, 2.0], [2.0, 3.0], [3.0, 4.0])]


def test_a_device_that_is_not_there():
    with pytest.raises(PipebenchError, match="never waits for the CPU"):
        examine.examine(item, device="cpu")
    with pytest.raises(PipebenchError, match="no CUDA device"):
        examine.examine(item, device="cuda")


def test_a_function_that_fails():
    with pytest.raises(PipebenchError) as caught:
        examine.examine(lambda: 1 / 0, name="train:step")
    assert caught.value.problem == "train:step raised ZeroDivisionError: division by zero"


def test_a_function_that_leaves_the_interpreter_fails_too():
    with pytest.raises(PipebenchError, match="raised SystemExit: 5"):
        examine.examine(lambda: sys.exit(5))


async def later():
    x.tolist()


def one_by_one():
    yield x.tolist()


@pytest.mark.parametrize(("function", "kind"), [(later, "coroutine"), (one_by_one, "generator")])
def test_a_function_that_runs_nothing_when_called_is_refused(function, kind):
    with pytest.raises(PipebenchError, match=f"the call gave a {kind} and ran nothing"):
        examine.examine(function)


def test_a_torch_before_2_6_has_neither_accelerators_nor_stances(monkeypatch):
    """What such a torch itself does is for `make test-oldest`."""
    compiled = torch.compile(item, backend="eager")
    monkeypatch.delattr(torch, "accelerator", raising=False)
    monkeypatch.delattr(torch.compiler, "set_stance", raising=False)
    before = torch._C._dynamo.eval_frame.set_eval_frame
    report = examine.examine(lambda: (compiled(), x.cpu()))
    assert report.per_step == 1 and len(report.not_inspected) == 1
    assert torch._C._dynamo.eval_frame.set_eval_frame is before


def test_a_compiled_function_itself_is_placed_where_it_is_written():
    report = examine.examine(torch.compile(item, backend="eager"))
    (region,) = report.not_inspected
    assert (region.path, region.line) == (examine.examine(item).points[0].path, item.__code__.co_firstlineno)


MODULE = """
import torch
x = torch.ones(4)
print("imported")

def step():
    print("called")
    x.sum().item()
"""


def syncs_command(folder, *arguments):
    command = [sys.executable, "-m", "pipebench", "syncs", *arguments]
    return warm.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_command_prints_the_report_and_nothing_of_the_functions_own(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    done = syncs_command(tmp_path, "mine:step", "--steps", "2", "--fail-above", "0.5")
    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        "1 sync point a step (would synchronise; no device here)",
        "mine.py:8: 1 a step: .item(): _local_scalar_dense (its result depends on values)",
    ]
    assert done.stderr.splitlines() == ["imported", "called", "called"]


def test_the_command_saves_a_report_that_show_shows_again(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    done = syncs_command(tmp_path, "mine:step", "--export-json", "syncs.json")
    assert done.returncode == 0
    found = load(tmp_path / "syncs.json")
    assert found.sync_points is not None and found.sync_points.per_step == 1
    assert text.table(found) == done.stdout and "mine.py:8: 1 a step" in text.markdown(found)
    again = syncs_command(tmp_path, "mine:step", "--export-json", "syncs.json")
    assert again.returncode == 2 and "--force overwrites it" in again.stderr


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("raise RuntimeError('at once')", 1, "importing mine raised RuntimeError: at once"),
        ("def f(:", 1, "importing mine raised SyntaxError"),
        ("import sys; sys.exit(0)", 1, "importing mine raised SystemExit"),
        ("import nosuchlibrary", 1, "importing mine raised ModuleNotFoundError: No module named 'nosuchlibrary'"),
        ("x = 1", 2, "module 'mine' has no attribute 'step'"),
        ("step = 1", 2, "mine:step is not a function"),
    ],
)
def test_a_module_that_cannot_be_used_ends_in_two_lines(tmp_path, monkeypatch, code, status, said):
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(PipebenchError) as raised:
        named("mine:step", "without arguments")
    assert raised.value.problem.startswith(said)
    assert isinstance(raised.value, UsageError) == (status == 2)


def test_no_iterations():
    with pytest.raises(PipebenchError):
        examine.examine(item, iterations=0)


def test_importing_it_does_not_import_torch():
    code = "import sys, pipebench.syncpoints.examine; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_checked_report_as_text():
    points = (
        sync_points.SyncPoint(
            "train.py", 7, 2, (sync_points.Operation(".item()", 2, 0.0015),), confirmed=2, lost_s=0.0015
        ),
        sync_points.SyncPoint(
            "train.py", 9, 1, (sync_points.Operation("x[mask] = number", 1, 1e-6),), confirmed=0, lost_s=1e-6
        ),
    )
    assert _shown(sync_points.SyncReport("step", 3, 3, "NVIDIA X", None, points)) == (
        "3 sync points a step (NVIDIA X: the debug mode saw 2 waits a step, 1.50 ms lost)\n"
        "train.py:7: 2 a step: .item() [seen 2 times a step, 1.50 ms lost]\n"
        "train.py:9: 1 a step: x[mask] = number [not seen to wait, 1.00 µs lost]\n"
    )


@cuda
def test_the_debug_mode_confirms():
    there = x.cuda()

    def step():
        there.sum().item()
        there[there > 0] = 0.0
        there[there > 0] = there[0, 0]
        torch.tensor(1.0, device="cuda")

    report = examine.examine(step)
    first = step.__code__.co_firstlineno
    confirmed = {point.line - first: point.confirmed for point in report.points}
    assert report.device == torch.cuda.get_device_name()
    assert confirmed == {1: 1, 2: 0, 3: 1, 4: 1}
    assert all(point.lost_s > 0 for point in report.points)


@cuda
def test_a_function_that_uses_no_device_is_examined_as_if_it_did():
    assert examine.examine(item).unchecked == "it uses no device"
