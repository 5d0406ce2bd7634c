"""Sync points: what is listed, what is not, and the known misses and false alarms of docs/sync-points.md."""

import dataclasses
import io
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import pipebench
from pipebench.errors import PipebenchError
from pipebench.watch import syncs

DEVICE = torch.device("cpu")  # what a script's variable holds on a machine without a device
DOCS = Path(pipebench.__file__).parents[1] / "docs" / "sync-points.md"
cuda = pytest.mark.cuda


def listed(function, **options):
    """Operations a step by line number relative to the function's first line."""
    report = syncs.examine(function, **options)
    first = function.__code__.co_firstlineno
    return {point.line - first: point.per_step for point in report.points}


def total(function, **options):
    return syncs.examine(function, **options).per_step


x = torch.randn(8, 8)
mask = x > 0
index = torch.arange(3)
number = torch.zeros(())


def assigned(target, where, value):
    target = target.clone()
    target[where] = value


WAITS = {
    "item": lambda: x.sum().item(),
    "float": lambda: float(x.sum()),
    "bool": lambda: bool(mask.any()),
    "int": lambda: int(index[0]),
    "range": lambda: range(index[1]),
    "in": lambda: 1.0 in x,
    "cpu": lambda: x.cpu(),
    "to-cpu": lambda: x.to("cpu"),
    "to-cpu-keyword": lambda: x.to(device="cpu", dtype=torch.float64),
    "to-host-tensor": lambda: x.to(torch.tensor([1.0])),
    "tolist": lambda: x.tolist(),
    "numpy": lambda: x.numpy(),
    "asarray": lambda: np.asarray(x),
    "repr": lambda: repr(x),
    "format": lambda: f"{x.sum():.2f}",
    "mask": lambda: x[mask],
    "mask-tuple": lambda: x[:, mask[0]],
    "mask-assigned": lambda: assigned(x, mask, torch.ones(8, 8)[0, 0]),
    "mask-assigned-number": lambda: assigned(x, mask, 0.0),
    "list-index": lambda: x[[0, 1]],
    "host-index": lambda: x[torch.tensor([0, 1])],
    "scalar-index": lambda: x[index[1]],
    "nonzero": lambda: torch.nonzero(x),
    "where-alone": lambda: torch.where(mask),
    "unique": lambda: torch.unique(index),
    "unique-consecutive": lambda: torch.unique_consecutive(index),
    "masked-select": lambda: x.masked_select(mask),
    "equal": lambda: torch.equal(x, x),
    "allclose": lambda: torch.allclose(x, x),
    "bincount": lambda: torch.bincount(index),
    "repeat-interleave": lambda: torch.repeat_interleave(index, index),
    "one-hot": lambda: torch.nn.functional.one_hot(index),
    "histc": lambda: torch.histc(x),
    "normal": lambda: torch.normal(x, x.abs()),
    "inverse": lambda: torch.linalg.inv(torch.eye(3)),
    "masked-fill-tensor": lambda: x.masked_fill(mask, number),
    "tensor-to-device": lambda: torch.tensor(2.0).to(DEVICE),
    "tensor-to-cuda": lambda: torch.tensor(2.0).to("cuda"),
    "tensor-cuda": lambda: torch.tensor(2.0).cuda(),
    "tensor-on-device": lambda: torch.tensor(2.0, device=DEVICE),
    "tensor-on-that-device": lambda: torch.tensor(2.0, device=x.device),
    "new-tensor": lambda: x.new_tensor([1.0, 2.0]),
    "numpy-to-device": lambda: torch.from_numpy(np.ones(3)).to(DEVICE),
    "as-tensor-on-device": lambda: torch.as_tensor(np.ones(3), device=DEVICE),
    "copy-from-host": lambda: torch.empty(3).copy_(torch.tensor([1.0, 2.0, 3.0])),
    "copy-to-host": lambda: torch.empty(3, device="cpu").copy_(torch.empty(3), non_blocking=True),
    "assigned-host": lambda: assigned(x, 0, torch.tensor([1.0] * 8)),
    "synchronize": lambda: torch.cuda.synchronize(),
}

PASSES = {
    "factories": lambda: torch.full((3,), 2.0) + torch.zeros(3) + torch.arange(3),
    "where": lambda: torch.where(mask, x, 0.0),
    "masked-fill": lambda: x.masked_fill(mask, 0.0),
    "integer-index": lambda: x[index],
    "integer-assigned": lambda: assigned(x, index, 1.0),
    "slice-assigned": lambda: assigned(x, slice(2), 1.0),
    "to-dtype": lambda: x.to(torch.float64),
    "to-device": lambda: x.to(DEVICE),
    "to-cuda": lambda: x.to("cuda"),
    "to-tensor": lambda: x.to(index),
    "host-tensor": lambda: torch.tensor([1.0, 2.0]).sum().item(),
    "host-numpy": lambda: torch.from_numpy(np.ones(3)).tolist(),
    "host-buffer": lambda: torch.frombuffer(bytearray(4), dtype=torch.uint8).tolist(),
    "host-constructor": lambda: torch.Tensor([1.0, 2.0]).tolist(),
    "host-stack": lambda: torch.stack([torch.tensor(1.0), torch.tensor(2.0)]).sum().item(),
    "host-collate": lambda: torch.utils.data.default_collate([np.ones(3), np.ones(3)]).tolist(),
    "host-scalar-beside": lambda: x * torch.tensor(2.0),
    "host-stays": lambda: torch.tensor([1.0]).to("cpu"),
    "host-mask": lambda: x[torch.tensor([True, False] * 4)],
    "host-factory": lambda: torch.zeros(3, device="cpu").tolist(),
    "host-device-read": lambda: torch.tensor([1.0], device=torch.tensor(1.0).device),
    "pinned-copy": lambda: torch.tensor([1.0]).pin_memory().to(DEVICE, non_blocking=True),
    "non-blocking-to-cpu": lambda: x.to("cpu", non_blocking=True),
    "on-cuda": lambda: torch.randn(3, device="cuda").add(1),
    "output-size": lambda: torch.repeat_interleave(index, index, output_size=3),
    "one-hot": lambda: torch.nn.functional.one_hot(index, 3),
    "histc-range": lambda: torch.histc(x, min=0, max=1),
    "inverse-ex": lambda: torch.linalg.inv_ex(torch.eye(3)),
    "assert-async": lambda: torch._assert_async(mask.any() | True),
    "nonzero-static": lambda: torch.nonzero_static(x, size=3),
    "multinomial": lambda: torch.multinomial(x.abs(), 1),
    "shape": lambda: (x.shape[0], len(x), x.numel(), x.device, x.is_cuda),
    "copied-tensor": lambda: x.detach().clone(),
}

_HOST = "cpu"
_rate = torch.tensor(0.1)


with mock.patch.object(torch.cuda, "synchronize", lambda: None):
    from torch.cuda import synchronize


def wrapped(tensor):
    """A Python function that torch treats as one of its own, like those of torch.nn.functional."""
    if torch.overrides.has_torch_function_unary(tensor):
        return torch.overrides.handle_torch_function(wrapped, (tensor,), tensor)
    return tensor.cpu()


def threaded():
    thread = threading.Thread(target=lambda: x.sum().item())
    thread.start()
    thread.join()


def loaded():
    file = io.BytesIO()
    torch.save(torch.ones(3), file)
    file.seek(0)
    return torch.load(file)


DOCUMENTED = {
    "miss-pageable-non-blocking": (0, lambda: torch.tensor([1.0]).to(DEVICE, non_blocking=True)),
    "miss-cpu-in-a-variable": (0, lambda: x.to(_HOST)),
    "miss-host-beside-device": (0, lambda: x[0] * torch.tensor([1.0] * 8)),
    "miss-unpickled": (0, lambda: loaded().to(DEVICE)),
    "miss-saved": (0, lambda: torch.save(x, io.BytesIO())),
    "miss-imported-synchronize": (0, lambda: synchronize()),
    "miss-inside-torch-function": (0, lambda: wrapped(x)),
    "miss-own-thread": (0, threaded),
    "miss-is-available": (0, lambda: x.sum().item() if torch.cuda.is_available() else None),
    "alarm-masked-number": (1, lambda: assigned(x, mask, 0.0)),
    "alarm-zero-dimensional-index": (1, lambda: assigned(x, index[1], 1.0)),
    "alarm-host-tensor-from-before": (1, lambda: _rate.item()),
    "alarm-numpy-work": (1, lambda: torch.zeros(3).numpy()),
}


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    """Whatever an examination patches is as before, and no mode is left on."""
    from torch.utils.data import dataloader

    before = (torch.cuda.synchronize, torch.autograd._engine_run_backward, dataloader._BaseDataLoaderIter.__next__)
    yield
    after = (torch.cuda.synchronize, torch.autograd._engine_run_backward, dataloader._BaseDataLoaderIter.__next__)
    assert after == before
    assert torch._C._len_torch_function_stack() == 0
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


@pytest.fixture(autouse=True)
def no_device(request, monkeypatch):
    """Tests that are not of a device find none, on a machine that has one too."""
    if request.node.get_closest_marker("cuda") is None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_is_listed_once(name):
    assert total(WAITS[name]) == 1


@pytest.mark.parametrize("name", PASSES)
def test_what_does_not_wait_is_not_listed(name):
    assert syncs.examine(PASSES[name]).points == ()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_miss_or_false_alarm(name):
    expected, function = DOCUMENTED[name]
    assert total(function) == expected


def test_every_row_of_the_docs_is_a_test():
    assert set(re.findall(r"^\| `((?:miss|alarm)-[a-z-]+)` \|", DOCS.read_text(), re.M)) == set(DOCUMENTED)


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
        torch.distributions.Normal(x, x.abs() + 1)

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
    assert syncs.examine(custom).points[0].line == Double.backward.__code__.co_firstlineno + 2


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
    with syncs.syncs() as found:
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
    with syncs.syncs() as found:
        for _ in range(4):
            x.sum().item()
    assert found.report().per_step == 4
    assert found.report().function is None


def test_entries_after_the_last_mark_do_not_count():
    with syncs.syncs() as found:
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

    report = syncs.examine(step)
    assert [region.name.rpartition(".")[2] for region in report.not_inspected] == ["inner"]
    assert report.not_inspected[0].line == step.__code__.co_firstlineno + 1
    assert listed(step) == {2: 1}
    text = syncs.render(report)
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

    assert syncs.render(syncs.examine(train.step)) == (
        "4 sync points a step (would synchronise; no device here)\n"
        "train.py:7: 2 a step: 1 x .cpu(): device to host; 1 x .tolist()\n"
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
    text = syncs.render(syncs.examine(lambda: scope["step"](x)))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2
    assert text.splitlines()[1].endswith("a\\x1b[31m\\nb/odd.py:2: 1 a step: .cpu(): device to host")


def test_a_report_is_plain_data():
    report = syncs.examine(WAITS["item"])
    assert json.loads(json.dumps(dataclasses.asdict(report)))["per_step"] == 1


def test_nothing_to_list():
    assert syncs.render(syncs.examine(PASSES["where"])) == "0 sync points a step (would synchronise; no device here)\n"


def test_results_are_those_of_the_function():
    seen = []

    def step():
        host = torch.tensor([1.0, 2.0])
        there = host.to("cuda")
        there += 1
        back = there.cpu()
        back += 1
        seen.append((host.tolist(), there.tolist(), back.tolist()))

    syncs.examine(step, iterations=1)
    assert seen == [([1.0, 2.0], [2.0, 3.0], [3.0, 4.0])]


def test_a_device_that_is_not_there():
    with pytest.raises(PipebenchError, match="does not wait for the CPU"):
        syncs.examine(WAITS["item"], device="cpu")
    with pytest.raises(PipebenchError, match="no CUDA device"):
        syncs.examine(WAITS["item"], device="cuda")


def test_a_function_that_fails():
    with pytest.raises(PipebenchError) as caught:
        syncs.examine(lambda: 1 / 0, name="train:step")
    assert caught.value.problem == "train:step raised ZeroDivisionError: division by zero"


def test_no_iterations():
    with pytest.raises(PipebenchError):
        syncs.examine(WAITS["item"], iterations=0)


def test_importing_it_does_not_import_torch():
    code = "import sys, pipebench.watch.syncs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_checked_report_as_text():
    points = (
        syncs.SyncPoint("train.py", 7, 2, (syncs.Operation(".item()", 2, 0.0015),), confirmed=2, lost_s=0.0015),
        syncs.SyncPoint("train.py", 9, 1, (syncs.Operation("x[mask] = number", 1, 1e-6),), confirmed=0, lost_s=1e-6),
    )
    assert syncs.render(syncs.SyncReport("step", 3, 3, "NVIDIA X", None, points)) == (
        "3 sync points a step (NVIDIA X: the debug mode saw 2 waits a step, 1.50 ms lost)\n"
        "train.py:7: 2 a step: .item() [does synchronise (2 a step), 1.50 ms lost]\n"
        "train.py:9: 1 a step: x[mask] = number [would synchronise, not seen, 1.00 µs lost]\n"
    )


@cuda
def test_the_debug_mode_confirms():
    there = x.cuda()

    def step():
        there.sum().item()
        there[there > 0] = 0.0
        there[there > 0] = there[0, 0]
        torch.tensor(1.0, device="cuda")

    report = syncs.examine(step)
    first = step.__code__.co_firstlineno
    confirmed = {point.line - first: point.confirmed for point in report.points}
    assert report.device == torch.cuda.get_device_name()
    assert confirmed == {1: 1, 2: 0, 3: 1, 4: 1}
    assert all(point.lost_s > 0 for point in report.points)


@cuda
def test_a_function_that_uses_no_device_is_examined_as_if_it_did():
    assert syncs.examine(WAITS["item"]).unchecked == "it uses no device"


def test_study_losses_agree_and_lose_their_sync_points():
    from pipebench.studies import sync_points

    labels = torch.randint(-1, 10, (2, 16, 16))
    for there in (labels, torch.full_like(labels, 3), torch.full_like(labels, 9)):
        results = []
        for step in sync_points.STEPS:
            scores = torch.randn(2, 10, 16, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
            loss = step.loss(scores, there)
            loss.backward()
            results.append((loss.detach(), scores.grad))
        for (loss, grad), (loss_before, grad_before) in zip(results[1:], results, strict=False):
            # Sums of a thousand float32 terms in another order.
            torch.testing.assert_close(loss, loss_before, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(grad, grad_before, rtol=1e-4, atol=1e-7)
    assert [total(step.build(), iterations=1) for step in sync_points.STEPS] == [5, 4, 3, 0]


def test_study_metrics_agree_and_lose_their_sync_points():
    pytest.importorskip("torchmetrics")
    from pipebench.studies import metrics

    steps = [step.build() for step in metrics.STEPS]
    assert [total(step, iterations=1) for step in steps] == [8, 7, 3, 2, 0]
    results = [step.results() for step in steps]
    for after, before in zip(results[1:], results, strict=False):
        assert set(after) == {"accuracy", "precision", "recall", "f1", "loss", "seconds"}
        assert {**after, "seconds": 0} == pytest.approx({**before, "seconds": 0}, rel=1e-4)
