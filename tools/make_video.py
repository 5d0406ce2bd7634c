"""Makes the embedded video anew: python tools/make_video.py [--out FILE]. Needs PyAV with libx264 (pip install av).

The camera moves over three of the embedded photographs, one after the other, and every frame carries its number. The
video is H.264 with key frames at most 48 frames apart and two B-frames between others, as videos for training have.
Another version of the encoder makes other bytes: then put the new sum into `pipebench/data/clip.py`.
"""

from __future__ import annotations

import argparse
import hashlib
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from pipebench.data import clip

PHOTOGRAPHS = ("roman-colosseum", "tea-gardens", "dandelions")
OPTIONS = {"crf": "22", "preset": "slow", "g": "48", "bf": "2", "threads": "1"}


def pictures(folder: Path) -> list[np.ndarray]:
    found = []
    each = clip.FRAMES // len(PHOTOGRAPHS)
    for name in PHOTOGRAPHS:
        photograph = Image.open(folder / f"{name}.jpg").convert("RGB")
        wide = 3 * photograph.width // 5
        high = wide * clip.HEIGHT // clip.WIDTH
        for step in range(each):
            left = (photograph.width - wide) * step / each
            top = (photograph.height - high) / 2
            box = (left, top, left + wide, top + high)
            part = photograph.resize((clip.WIDTH, clip.HEIGHT), Image.Resampling.BILINEAR, box=box)
            found.append(clip.numbered(part, len(found)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=str(clip.path()))
    chosen = parser.parse_args()
    folder = clip.path().parent.parent / "photographs"
    with av.open(chosen.out, "w", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=clip.RATE, options=OPTIONS)
        stream.width, stream.height, stream.pix_fmt = clip.WIDTH, clip.HEIGHT, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, clip.RATE)
        stream.codec_context.color_range = 1  # limited
        stream.codec_context.colorspace = 6  # ITU-R BT.601, which all readers take for a video of this size
        for number, picture in enumerate(pictures(folder)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    data = Path(chosen.out).read_bytes()
    print(f"{chosen.out}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")  # noqa: T201


if __name__ == "__main__":
    main()
