"""Frames of the embedded video: each reader gives those that were asked for, in their order, on any way to them."""

import hashlib
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipebench import stage
from pipebench.data import clip
from pipebench.errors import SampleError
from pipebench.lab import whole_run
from pipebench.lab.timing import Plan, measure
from pipebench.runner import Runners
from pipebench.stages import video
from pipebench.task import Unavailable, Workload

BRIEF = Plan(rounds=1, least_rounds=1, budget_s=0.0, reading_s=0.0)
WORKLOAD = Workload(data="tiny", quick=True)
MARKED = np.random.default_rng(0).integers(0, 256, (clip.HEIGHT, clip.WIDTH, 3), np.uint8)
TASK = stage.find("video/clip/opencv")[0]


def test_the_video_is_the_one_that_the_tool_made():
    assert hashlib.sha256(clip.path().read_bytes()).hexdigest() == clip.SHA256


@pytest.mark.parametrize("number", [0, 1, 128, clip.FRAMES - 1, 255])
def test_a_picture_tells_the_number_that_it_carries(number):
    assert clip.number_of(clip.numbered(MARKED, number)) == number


@pytest.mark.parametrize("task_id", video.TASKS)
def test_the_groups_cover_the_video_and_follow_the_seed(task_id):
    task = stage.find(f"{task_id}/opencv")[0]
    keys = [key for group in task.groups(WORKLOAD) for key in group]
    assert sorted(keys) == [f"frame {frame:03}" for frame in range(clip.FRAMES)]
    other = [key for group in task.groups(Workload(data="tiny", seed=1)) for key in group]
    assert (keys == other) == (task_id == "video/sequential")
    opened = task.inputs(WORKLOAD, keys)
    assert [f"frame {frame:03}" for one in opened for frame in one.frames] == keys


def test_each_clip_of_a_call_is_in_a_file_of_its_own_so_that_each_can_be_cold():
    groups = TASK.groups(WORKLOAD)
    keys = [key for group in groups for key in group]
    files = [one.path for one in TASK.inputs(WORKLOAD, keys[: TASK.per_call(WORKLOAD)])]
    assert len(files) == len(set(files)) == video.CLIPS


def test_a_copy_that_was_changed_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEBENCH_CACHE", str(tmp_path))
    first, second = map(Path, clip.copies(2))
    first.write_bytes(b"other")
    second.unlink()
    assert [Path(one).read_bytes() for one in clip.copies(2)] == [clip.path().read_bytes()] * 2


@pytest.mark.parametrize(
    ("frames", "runs"),
    [
        (range(20), [(0, 8), (8, 16), (16, 20)]),
        ((5, 3, 4, 9), [(5, 6), (3, 5), (9, 10)]),
        ((7,), [(7, 8)]),
        ((7, 7), [(7, 8), (7, 8)]),
    ],
)
def test_neighbours_are_read_together(frames, runs):
    assert list(video.Wanted("", tuple(frames)).runs) == runs


def measured(task_id, names, **settings):
    wanted = [one for one in stage.variants(task_id) if one.name in names]
    workload = Workload(**{"data": "tiny", "quick": True, **settings})
    with Runners() as runners:
        found = measure(stage.find(f"{task_id}/opencv")[0], wanted, workload, runners=runners, plan=BRIEF)
    return found, {one.variant: one for one in found.measurements}


@pytest.mark.parametrize(("task_id", "cache"), itertools.product(video.TASKS, ["warm", "cold"]))
def test_readers_agree_on_every_frame_warm_and_cold(task_id, cache):
    found, rows = measured(task_id, ("opencv", "pyav"), cache=cache)
    for row in rows.values():
        if row.skipped is not None:
            assert row.skipped.code in ("not-installed", "kernel")
            continue
        assert row.failed is None and row.samples_failed == 0 and row.samples_attempted == clip.FRAMES
        assert len(row.readings_s) == 1 and row.work.samples >= video.RUN
    assert found.bad_samples == ()


def torchcodec_here():
    try:
        video._torchcodec()
    except (ImportError, Unavailable) as missing:
        return str(missing)
    return None


@pytest.mark.parametrize("task_id", video.TASKS)
def test_torchcodec_gives_the_same_frames_or_says_what_it_lacks(task_id):
    names = [one.name for one in stage.variants(task_id) if "torchcodec" in one.name and "cuda" not in one.name]
    found, rows = measured(task_id, ["opencv", *names])
    lacks = torchcodec_here()
    for name in names:
        if lacks:
            assert rows[name].skipped.code == "not-installed" and "FFmpeg" in rows[name].skipped.reason
        else:
            assert rows[name].failed is None and rows[name].samples_failed == 0, found.bad_samples[:1]


def numbered(*frames):
    return [clip.numbered(MARKED, frame) for frame in frames]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((3, 4), "1 frames came out where 2 were asked for"),
        ((4,), "it is frame 3 where frame 4 was asked for"),
    ],
)
def test_a_neighbour_of_the_frame_or_one_too_few_is_no_frame(given, said):
    wanted = video.Wanted("", given)
    with pytest.raises(SampleError, match=said):
        for _, value in TASK.split(wanted, numbered(3)):
            TASK.check(value, wanted)


def test_frames_of_another_size_or_type_are_refused():
    for picture in (MARKED[:-2], MARKED.astype(np.float32)):
        with pytest.raises(SampleError, match="not RGB uint8"):
            TASK.check((0, picture), video.Wanted("", (0,)))


def test_data_of_the_users_are_not_what_the_rows_read(tmp_path):
    for one in stage.variants("video/clip"):
        with pytest.raises(Unavailable, match="leave out --data"):
            one.build(Workload(data=str(tmp_path)))


def test_rows_of_the_device_are_skipped_with_their_reason_where_there_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("torchcodec-cuda", "torchcodec-cuda-at-once"):
        with pytest.raises(Unavailable, match="no CUDA device"):
            stage.find(f"video/random/{name}")[1].build(WORKLOAD)


class Decoder:
    """What the rows call of torchcodec's VideoDecoder, on pictures that carry their numbers; it notes the calls."""

    calls: list
    fallback = ""

    def __init__(self, path, **options):
        import torch

        self.calls.append(("open", path, options))
        self._frames = lambda frames: torch.stack([torch.from_numpy(one).permute(2, 0, 1) for one in numbered(*frames)])
        self.cpu_fallback = self.fallback

    def get_frame_at(self, frame):
        self.calls.append(("at", frame))
        return SimpleNamespace(data=self._frames([frame])[0])

    def get_frames_in_range(self, begin, end):
        self.calls.append(("range", begin, end))
        return SimpleNamespace(data=self._frames(range(begin, end)))

    def get_frames_at(self, frames):
        self.calls.append(("together", frames))
        return SimpleNamespace(data=self._frames(frames))


@pytest.fixture
def device(monkeypatch):
    """A device and a decoder on it that are made up: what is tested is which calls a row makes, and in which order."""
    calls = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: calls.append(("wait",)))
    made = type("VideoDecoder", (Decoder,), {"calls": calls})
    monkeypatch.setitem(__import__("sys").modules, "torchcodec.decoders", SimpleNamespace(VideoDecoder=made))
    return made


@pytest.mark.parametrize(
    ("name", "frames", "calls"),
    [
        ("torchcodec-cuda", (5, 9), [("at", 5), ("at", 9)]),
        ("torchcodec-cuda", (5, 6, 7), [("range", 5, 8)]),
        ("torchcodec-cuda-at-once", (9, 5), [("together", [9, 5])]),
    ],
)
def test_what_nvdec_decodes_is_waited_for_when_the_last_frame_was_handed_out(device, name, frames, calls):
    task, variant = stage.find(f"video/random/{name}")
    call = variant.build(Workload(device="cuda"))
    device.calls.clear()
    wanted = video.Wanted("a.mp4", frames)
    for _, value in task.split(wanted, call(wanted)):
        task.check(value, wanted)
    opened = ("open", "a.mp4", {"num_ffmpeg_threads": 1, "device": "cuda"})
    assert device.calls == [opened, *calls, ("wait",)]


def test_a_decoder_that_falls_back_to_the_cpu_is_no_row_of_nvdec(device):
    device.fallback = "Falling back due to: Video not supported"
    with pytest.raises(Unavailable, match="NVDEC does not decode here: Falling back"):
        stage.find("video/clip/torchcodec-cuda")[1].build(Workload(device="cuda"))


@pytest.mark.parametrize(
    ("stages", "names", "found"),
    [((), (), False), (("video",), (), True), ((), ("opencv",), False), ((), ("video/clip",), True),
     ((), ("torchcodec-approximate",), True)],
)  # fmt: skip
def test_video_is_measured_only_where_it_is_asked_for(stages, names, found):
    kept = {task.stage for task, _ in whole_run.select(stages, names).rows}
    assert ("video" in kept) == found
    assert "video" in {task.stage for task, _ in whole_run.select(every=True).rows}
