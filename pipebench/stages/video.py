"""Video: from a file to frames as RGB uint8, by the order in which frames are asked for.

Each call opens the file, as a Dataset does for each of its samples. What is decoded is the embedded video
(`pipebench.data.clip`). Its frames carry their numbers, so a reader that gives a neighbour of the frame that was asked
for is found out, whatever the others do. The rows on the CPU leave frames in host memory, and those on the GPU in the
device's. Readers use one thread.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipebench.data import clip, datasets
from pipebench.errors import SampleError
from pipebench.stages import agreement, cache_state
from pipebench.stages.decode import library
from pipebench.stages.transfer import needs_device
from pipebench.task import Task, Unavailable, Variant, Work, Workload, task, variant

RUN = 8  # frames of a clip, and of a call that reads at random
CLIPS = 4  # of a call, each from a file of its own, as in a data set of videos: so each can be cold


@dataclass
class Wanted:
    """The frames that one opening of the video must give, in this order."""

    path: str
    frames: tuple[int, ...]
    verified: bool = False

    @property
    def paths(self) -> list[str]:
        return [self.path]

    @property
    def runs(self) -> Iterator[tuple[int, int]]:
        """First frame and end of each stretch of neighbours, at most `RUN` long."""
        begin = end = self.frames[0]
        for frame in self.frames:
            if frame != end or end - begin == RUN:
                yield begin, end
                begin = frame
            end = frame + 1
        yield begin, end


Frames = Iterator[Any]  # height × width × 3 arrays, or 3 × height × width tensors
Reading = Callable[[Wanted], Frames]


def _key(frame: int) -> str:
    return f"frame {frame:03}"


def _stretches(workload: Workload) -> list[tuple[str, ...]]:
    """Clips that cover the video, in random order."""
    begins = list(range(0, clip.FRAMES, RUN))
    random.Random(workload.seed).shuffle(begins)
    return [tuple(map(_key, range(begin, begin + RUN))) for begin in begins]


def _scattered(workload: Workload) -> list[tuple[str, ...]]:
    """All frames in random order, some at a time."""
    frames = list(range(clip.FRAMES))
    random.Random(workload.seed).shuffle(frames)
    return [tuple(map(_key, frames[begin : begin + RUN])) for begin in range(0, len(frames), RUN)]


@functools.cache
def _files() -> list[str]:
    return clip.copies(CLIPS)


def _inputs(workload: Workload, keys: Sequence[str], most: int) -> list[Wanted]:
    """What to open for these frames: at most so many of each opening, and each from another copy of the video."""
    frames = [int(key.removeprefix("frame ")) for key in keys]
    files = itertools.cycle(_files())
    return [Wanted(next(files), tuple(frames[begin : begin + most])) for begin in range(0, len(frames), most)]


def _split(given: Wanted, output: Iterable[Any]) -> list[tuple[tuple[str, ...], tuple[int, Any]]]:
    """Key of each frame, its number and its pixels in host memory."""
    found = [_pixels(frame) for frame in output]
    if len(found) != len(given.frames):
        raise SampleError("contract", f"{len(found)} frames came out where {len(given.frames)} were asked for")
    return [((_key(frame),), (frame, pixels)) for frame, pixels in zip(given.frames, found, strict=True)]


def _pixels(frame: Any) -> Any:
    return frame if isinstance(frame, np.ndarray) else frame.cpu().numpy().transpose(1, 2, 0)


def _check(output: tuple[int, Any], given: Wanted) -> None:
    frame, pixels = output
    if pixels.dtype != np.uint8 or pixels.shape != (clip.HEIGHT, clip.WIDTH, 3):
        raise SampleError("contract", f"it is {pixels.dtype} {pixels.shape}, not RGB uint8 of the video's size")
    if (found := clip.number_of(pixels)) != frame:
        raise SampleError("contract", f"it is frame {found} where frame {frame} was asked for")


def _agree(output: tuple[int, Any], expected: tuple[int, Any], variant: Variant) -> None:
    agreement.same_pixels(output[1], expected[1])


def _work(given: Wanted, output: list[Any]) -> Work:
    """Of the file's bytes, the share of the frames: what else a reader must decode on its way to them is its cost."""
    frames = len(given.frames)
    return Work(frames, os.path.getsize(given.path) * frames // clip.FRAMES, frames * clip.HEIGHT * clip.WIDTH * 3)


_FACTS = f"H.264, {clip.WIDTH}×{clip.HEIGHT}, {clip.FRAMES} frames"
TASKS = ("video/sequential", "video/random", "video/clip")
for _id, _summary, _groups, _most, _per_call in (
    (
        TASKS[0],
        f"all frames of the embedded video ({_FACTS}) in order, into memory",
        lambda workload: [tuple(map(_key, range(clip.FRAMES)))],
        clip.FRAMES,
        lambda workload: clip.FRAMES // 3 if workload.quick else clip.FRAMES,
    ),
    (TASKS[1], f"{RUN} frames of the embedded video, in random order", _scattered, RUN, lambda workload: RUN),
    (
        TASKS[2],
        f"clips of {RUN} frames that begin anywhere in the embedded video",
        _stretches,
        RUN,
        lambda workload: CLIPS * RUN,
    ),
):
    task(
        Task(
            id=_id,
            summary=_summary,
            groups=_groups,
            inputs=functools.partial(_inputs, most=_most),
            check=_check,
            agree=_agree,
            work=_work,
            per_call=_per_call,
            from_the_start=True,
            split=_split,
            before=cache_state.bring_about,
            lazy=True,
            on_device=True,
            apart=True,
        )
    )


def _can_be_read(workload: Workload) -> None:
    """Raises `Unavailable` where the video is not what the user asked for, or cannot be shown to be cold."""
    if not datasets.is_embedded(workload.data):
        raise Unavailable("unfit", "the video is an embedded one: leave out --data")
    cache_state.must_show(workload, _files())


def _opencv_library() -> str:
    import cv2

    lines = (line.strip() for line in cv2.getBuildInformation().splitlines())
    codec = next((line.partition(":")[2].split()[-1].strip("()") for line in lines if line.startswith("avcodec:")), "")
    return f"OpenCV {cv2.__version__}, libavcodec {codec or 'unknown'}"


@variant(*TASKS, name="opencv", extra="opencv", library=_opencv_library)
def opencv(workload: Workload) -> Reading:
    """`cv2.VideoCapture`: `set(CAP_PROP_POS_FRAMES)` where the next frame is not the next of the file, RGB."""
    _can_be_read(workload)
    import cv2

    def read(given: Wanted) -> Frames:
        capture = cv2.VideoCapture(given.path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        try:
            place = 0
            for frame in given.frames:
                if frame != place:
                    capture.set(cv2.CAP_PROP_POS_FRAMES, frame)
                done, image = capture.read()
                if not done:
                    raise SampleError("undecodable", f"cv2.VideoCapture gives no frame {frame}")
                yield cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
                place = frame + 1
        finally:
            capture.release()

    return read


@variant(*TASKS, name="pyav", extra="pyav", library=library("av"))
def pyav(workload: Workload) -> Reading:
    """PyAV: `seek` to the key frame before, then `decode` up to the frame; one `VideoReformatter` of one thread."""
    _can_be_read(workload)
    import av
    from av.video.reformatter import VideoReformatter

    convert = functools.partial(VideoReformatter().reformat, format="rgb24", threads=1)  # else a pool for each frame

    def read(given: Wanted) -> Frames:
        with av.open(given.path) as container:
            stream: Any = container.streams.video[0]  # with a time base, a rate and time stamps, which may be missing
            stream.codec_context.thread_count = 1
            per_frame = 1 / (stream.average_rate * stream.time_base)  # what a time stamp counts, in a frame
            decoded: Iterator[Any] = container.decode(stream)
            place = 0
            for wanted in given.frames:
                if wanted != place:
                    container.seek(round(wanted * per_frame), stream=stream)
                    decoded = container.decode(stream)
                frame = next(one for one in decoded if one.pts >= round(wanted * per_frame))
                yield convert(frame).to_ndarray()
                place = wanted + 1

    return read


def _torchcodec(**options: Any) -> Callable[[str], Any]:
    """A function that opens a video with torchcodec. Raises `Unavailable` where it finds no libraries of FFmpeg."""
    from torchcodec.decoders import VideoDecoder  # type: ignore[attr-defined]  # exported, but not by name

    opened: Callable[[str], Any] = functools.partial(VideoDecoder, num_ffmpeg_threads=1, **options)
    try:
        opened(str(clip.path()))
    except RuntimeError as error:
        if "Could not load libtorchcodec" not in str(error):
            raise
        remedy = "install FFmpeg (Debian: apt-get install ffmpeg)"
        raise Unavailable("not-installed", f"torchcodec can load no libraries of FFmpeg here: {remedy}") from None
    return opened


def _by_runs(opened: Callable[[str], Any], given: Wanted) -> Frames:
    """Neighbours with one call of `get_frames_in_range`, a single frame with `get_frame_at`."""
    decoder = opened(given.path)
    for begin, end in given.runs:
        if end - begin == 1:
            yield decoder.get_frame_at(begin).data
        else:
            yield from decoder.get_frames_in_range(begin, end).data


@variant(*TASKS, name="torchcodec", extra="torchcodec", library=library("torchcodec"))
def torchcodec(workload: Workload) -> Reading:
    """torchcodec's `VideoDecoder` on the CPU: `get_frames_in_range`, or `get_frame_at` for single frames."""
    _can_be_read(workload)
    return functools.partial(_by_runs, _torchcodec())


@variant(*TASKS, name="torchcodec-approximate", extra="torchcodec", library=library("torchcodec"))
def torchcodec_approximate(workload: Workload) -> Reading:
    """The same with `seek_mode="approximate"`: no scan of the file at its opening, right for a constant frame rate."""
    _can_be_read(workload)
    return functools.partial(_by_runs, _torchcodec(seek_mode="approximate"))


@variant("video/random", name="torchcodec-at-once", extra="torchcodec", library=library("torchcodec"))
def torchcodec_at_once(workload: Workload) -> Reading:
    """torchcodec with one call of `get_frames_at`: it decodes them in the order of the file."""
    _can_be_read(workload)
    return functools.partial(_at_once, _torchcodec())


def _at_once(opened: Callable[[str], Any], given: Wanted) -> Frames:
    return iter(opened(given.path).get_frames_at(list(given.frames)).data)


@variant(*TASKS, name="torchcodec-cuda", extra="torchcodec", library=library("torchcodec"))
def torchcodec_cuda(workload: Workload) -> Reading:
    """torchcodec's `VideoDecoder(device="cuda")`: NVDEC decodes, and the frames stay in the device's memory."""
    return _on_device(workload, _by_runs)


@variant("video/random", name="torchcodec-cuda-at-once", extra="torchcodec", library=library("torchcodec"))
def torchcodec_cuda_at_once(workload: Workload) -> Reading:
    """The same with one call of `get_frames_at`."""
    return _on_device(workload, _at_once)


def _on_device(workload: Workload, frames: Callable[[Callable[[str], Any], Wanted], Frames]) -> Reading:
    """Reads with NVDEC, and waits for the device after the last frame."""
    _can_be_read(workload)
    needs_device(workload)
    import torch

    opened = _torchcodec(device="cuda")
    if fallback := opened(str(clip.path())).cpu_fallback:
        raise Unavailable("no-device", f"NVDEC does not decode here: {fallback}")
    return functools.partial(_waited_for, torch.cuda.synchronize, functools.partial(frames, opened))


def _waited_for(wait: Callable[[], None], read: Reading, given: Wanted) -> Frames:
    yield from read(given)
    wait()
