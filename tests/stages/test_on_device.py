"""Decode and crop on a GPU, tested without one.

What a library can do on a CPU is run there, on the path that the row takes on a device. What it cannot is a made-up
module that notes its calls: this shows which calls a row makes, and not that a device understands them. That is left
to `make test-cuda`.
"""

import os
import sys
import threading
from types import SimpleNamespace

import in_memory
import numpy as np
import pytest
from PIL import Image

from pipebench import stage
from pipebench.data import datasets
from pipebench.errors import SampleError
from pipebench.lab.timing import Plan, measure
from pipebench.runner import Runners
from pipebench.stages import dali, decode, nvimagecodec, on_device
from pipebench.task import Unavailable, Workload

BRIEF = Plan(rounds=1, least_rounds=1, budget_s=0.0, reading_s=0.0)
TASKS = (on_device.DECODE, on_device.CROP)
ON_CUDA = Workload(data="tiny", device="cuda", quick=True)
VARIANTS = [one for task_id in TASKS for one in stage.variants(task_id)]


@pytest.fixture
def on_the_cpu(monkeypatch):
    """The rows run, and the device that they are told is the CPU. Returns how often it was waited for."""
    waits = []
    monkeypatch.setattr(on_device, "needs_device", lambda workload: None)
    monkeypatch.setattr(on_device, "wait", lambda: waits.append("wait"))
    return waits


@pytest.fixture(scope="module")
def images():
    return [one.read() for one in datasets.load("tiny").samples]


@pytest.mark.parametrize("task_id", TASKS)
def test_every_row_that_is_installed_agrees_with_the_reference_on_the_path_of_a_device(task_id, on_the_cpu):
    task, rows = stage.find(stage.reference(task_id).id)[0], stage.variants(task_id)
    with Runners() as runners:
        found = measure(task, rows, Workload(data="tiny", quick=True), runners=runners, plan=BRIEF)
    assert found.bad_samples == ()
    ran = [one for one in found.measurements if one.skipped is None]
    assert {one.skipped.code for one in found.measurements if one.skipped} <= {"not-installed", "no-compiler"}
    assert len(ran) >= 3 and all(one.failed is None and one.work.samples == 16 for one in ran)
    assert len(on_the_cpu) >= 2 * len(ran)  # after each call


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.id)
def test_without_a_device_a_row_says_so_before_it_imports_anything(variant, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("nvidia.dali", "nvidia.nvimgcodec", "torchcodec.decoders"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable, match="no CUDA device") as missing:
        variant.build(ON_CUDA)
    assert missing.value.code == "no-device"


def test_pixels_on_another_device_are_refused():
    import torch

    task, _ = stage.find(f"{on_device.DECODE}/pillow")
    given = on_device.Batch(("a",), (decode.Encoded(b"", 4, 3),), "cuda")
    ((_, made),) = task.split(given, [torch.zeros(3, 3, 4, dtype=torch.uint8)])
    with pytest.raises(SampleError, match="it is on cpu, not on the cuda device"):
        task.check(made, given)
    with pytest.raises(SampleError, match="0 images came out of 1"):
        task.split(given, [])


@pytest.mark.parametrize("shape", [(3, 5, 4), (5, 4, 3)])
def test_either_order_of_the_channels_is_the_same_picture(shape):
    import torch

    pixels = torch.arange(60, dtype=torch.uint8).reshape(shape)
    planar = on_device.on_host((decode.Encoded(b"", 4, 5), pixels))
    assert tuple(planar.shape) == (3, 5, 4)
    channels = pixels if shape[0] == 3 else pixels.permute(2, 0, 1)
    assert bool((planar == channels).all())


def test_a_batch_with_another_format_is_not_what_a_jpeg_decoder_is_made_for(images):
    png = decode.Encoded(in_memory.encoded(Image.new("RGB", (4, 4)), "PNG"), 4, 4)
    given = on_device.Batch(("a", "b"), (decode.Encoded(images[0], 320, 272), png), "cuda")
    assert on_device.JPEG_ONLY["unfit"](given) == "it is PNG"


@pytest.fixture
def a_device(monkeypatch):
    """A device that is made up. Returns the calls that are made of it, and of the libraries that a test makes up."""
    import torch

    calls = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: calls.append("wait"))
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    monkeypatch.setattr("torch.cuda.current_stream", lambda: SimpleNamespace(cuda_stream=77))
    monkeypatch.setattr("torch.utils.dlpack.from_dlpack", lambda made: made)
    pixels = torch.zeros(272, 320, 3, dtype=torch.uint8)

    def decode_jpeg(sources, **options):
        calls.append((len(sources), *(options[name] for name in ("device", "mode"))))
        return [pixels for _ in sources]

    monkeypatch.setitem(sys.modules, "torchcodec.decoders", SimpleNamespace(decode_jpeg=decode_jpeg))
    monkeypatch.setattr("torchvision.io.decode_jpeg", decode_jpeg)
    return calls


def batch(images, count=3):
    encoded = tuple(decode.Encoded(data, 320, 272) for data in images[:count])
    return on_device.Batch(tuple("abc"[:count]), encoded, "cuda")


@pytest.mark.parametrize("library", ["torchvision", "torchcodec"])
@pytest.mark.parametrize(("how", "lengths"), [("", [3]), ("-single", [1, 1, 1])])
def test_a_batch_is_one_call_of_nvjpeg_or_one_for_each_image_and_is_waited_for(library, how, lengths, a_device, images):
    import torchvision.io

    call = stage.find(f"{on_device.DECODE}/{library}{how}")[1].build(ON_CUDA)
    mode = "RGB" if library == "torchcodec" else torchvision.io.ImageReadMode.RGB
    assert a_device == [(1, "cuda", mode)]  # whether it can at all, before anything is timed
    a_device.clear()
    assert len(call(batch(images))) == 3
    assert a_device == [*((length, "cuda", mode) for length in lengths), "wait"]


@pytest.mark.parametrize("library", ["torchvision", "torchcodec"])
def test_a_library_that_was_built_without_nvjpeg_is_a_skipped_row(library, a_device, monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("not compiled with nvJPEG support\nsomewhere in C++")

    monkeypatch.setitem(sys.modules, "torchcodec.decoders", SimpleNamespace(decode_jpeg=refused))
    monkeypatch.setattr("torchvision.io.decode_jpeg", refused)
    with pytest.raises(Unavailable, match="not compiled with nvJPEG support") as missing:
        stage.find(f"{on_device.DECODE}/{library}")[1].build(ON_CUDA)
    assert missing.value.code == "not-built" and "C++" not in missing.value.reason


class Noted:
    """Stands in for any object of a library: its calls are noted with their name, and return what `results` has."""

    def __init__(self, name, calls, results):
        self._name, self._calls, self._results = name, calls, results

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Noted(f"{self._name}.{name}".removeprefix("."), self._calls, self._results)

    def __call__(self, *given, **options):
        self._calls.append((self._name, given, options))
        return self._results.get(self._name, lambda *_, **__: Noted(f"{self._name}()", self._calls, self._results))(
            *given, **options
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.mark.parametrize(
    ("row", "operators"),
    [
        (f"{on_device.DECODE}/dali", ["decoders.image"]),
        (f"{on_device.CROP}/dali", ["decoders.image", "slice", "resize", "transpose"]),
        (f"{on_device.CROP}/dali-roi", ["decoders.image_slice", "resize", "transpose"]),
    ],
)
def test_dali_gets_one_pipeline_of_the_device_that_decodes_mixed(row, operators, a_device, monkeypatch):
    task, variant = stage.find(row)
    made = Noted("", a_device, {"Pipeline().run": lambda **given: [["pixels"] * len(given["encoded"])]})
    for name in ("nvidia.dali", "nvidia.dali.fn", "nvidia.dali.types"):
        monkeypatch.setitem(sys.modules, name, made)
    (given,) = task.inputs(ON_CUDA, [key for group in task.groups(ON_CUDA) for key in group][:2])
    call = variant.build(ON_CUDA)
    assert a_device == []  # nothing before the first call: a process of its own makes it
    assert call(given) == ["pixels"] * 2 and call(given) == ["pixels"] * 2
    named = {name: options for name, _, options in filter(lambda one: one != "wait", a_device)}
    (pipeline,) = [one[2] for one in a_device if one[0] == "Pipeline"]
    assert pipeline["device_id"] == 0 and pipeline["batch_size"] == on_device.BATCH and pipeline["num_threads"] == 1
    assert named[operators[0]]["device"] == "mixed" and named[operators[0]]["adjust_orientation"] is False
    assert [one[0] for one in a_device if one[0] in operators] == operators
    ran = [one if one == "wait" else one[0] for one in a_device]
    assert ran[-2:] == ["Pipeline().run", "wait"] and ran.count("wait") == 2
    if row.startswith(on_device.CROP):
        left, top, width, height = given.images[1].box
        run = named["Pipeline().run"]
        assert run["begin"][1].tolist() == [top, left] and run["shape"][1].tolist() == [height, width]


@pytest.mark.parametrize(("name", "calls"), [("nvimagecodec", [3]), ("nvimagecodec-single", [1, 1, 1])])
def test_nvimagecodec_gets_the_device_and_its_stream(name, calls, a_device, monkeypatch, images):
    given = {"Decoder().decode": lambda streams, **_: ["pixels"] * len(streams)}
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", Noted("", a_device, given))
    call = stage.find(f"{on_device.DECODE}/{name}")[1].build(ON_CUDA)
    assert call(batch(images)) == ["pixels"] * 3
    (decoder,) = [options for one, _, options in a_device[:-1] if one == "Decoder"]
    assert decoder["device_id"] == 0 and "backends" not in decoder
    decoded = [(given, options) for one, given, options in a_device[:-1] if one == "Decoder().decode"]
    assert [len(streams) for (streams,), _ in decoded] == calls and a_device[-1] == "wait"
    assert {options["cuda_stream"] for _, options in decoded} == {77}


def cpu_decoder(name):
    """The row of a library on the CPU."""
    return stage.find(f"decode/rgb/{name}")[1].build(Workload(data="tiny"))


@pytest.mark.parametrize("name", ["dali", "nvimagecodec"])
def test_an_image_that_cannot_be_decoded_costs_the_next_one_nothing(name, images):
    decoder = cpu_decoder(name)
    expected = decode.pillow(Workload())(decode.Encoded(images[0], 320, 272))
    for data in (images[0][:3000], b"junk" * 100):
        with pytest.raises(SampleError) as refused:
            decoder(decode.Encoded(data, 320, 272))
        assert refused.value.kind == "undecodable" and "\n" not in refused.value.message
        assert np.array_equal(decoder(decode.Encoded(images[0], 320, 272)), expected)


@pytest.mark.parametrize("name", ["dali", "nvimagecodec"])
def test_a_row_has_no_thread_before_its_first_call_so_that_its_process_can_fork(name, images):
    threads = len(os.listdir("/proc/self/task"))
    cpu_decoder(name)
    assert len(os.listdir("/proc/self/task")) <= threads


@pytest.mark.parametrize("name", ["dali", "nvimagecodec"])
def test_each_thread_has_a_decoder_of_its_own(name, images):
    """`pipebench check` decodes in several threads at once."""
    decoder, found = cpu_decoder(name), {}

    def work(number):
        found[number] = [decoder(decode.Encoded(data, 320, 272)).copy() for data in images]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    expected = [decode.pillow(Workload())(decode.Encoded(data, 320, 272)) for data in images]
    assert all(map(np.array_equal, expected, found[number]) for number in range(3))


def test_pixels_stay_as_they_are_when_the_next_batch_is_made(images):
    decoder = dali._decoder("cpu")
    first = decoder([decode.Encoded(images[0], 320, 272)])[0]
    kept = first.clone()
    for data in images[1:]:
        decoder([decode.Encoded(data, 320, 272)])
    assert bool((first == kept).all())


def test_a_library_of_nvidia_that_is_missing_names_its_extra(monkeypatch):
    for name, module in (("dali", "nvidia.dali"), ("nvimagecodec", "nvidia.nvimgcodec")):
        monkeypatch.setitem(sys.modules, module, None)
        with Runners() as runners:
            variant = stage.find(f"decode/rgb/{name}")[1]
            found = runners.of(variant).prepare(variant.id, Workload())
        assert found.skip_code == "not-installed" and f"pip install 'pipebench[{name}]'" in found.skip_reason


def test_nvimagecodec_prints_nothing_of_an_image_that_it_cannot_decode(images, capfd):
    decoder = cpu_decoder("nvimagecodec")
    with pytest.raises(SampleError):
        decoder(decode.Encoded(images[0][:3000], 320, 272))
    assert capfd.readouterr() == ("", "") and nvimagecodec.SMOOTH
