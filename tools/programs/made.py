"""Makes the small data that the programs here use: images in classes, sounds, sentences and volumes.

    python tools/programs/made.py FOLDER

The same on each machine, apart from what the libraries round.
"""

from __future__ import annotations

import json
import sys
import wave
from pathlib import Path

import numpy
from PIL import Image

CLASSES = "abcd"
RATE = 16_000


def images(folder: Path, random: numpy.random.Generator) -> None:
    for split, count in (("train", 60), ("val", 12)):
        for kind in CLASSES:
            (folder / split / kind).mkdir(parents=True)
            for number in range(count):
                coarse = random.normal(128, 40, (24, 32, 3)).clip(0, 255).astype("uint8")
                image = Image.fromarray(coarse).resize((320, 240))
                image.save(folder / split / kind / f"{number:03}.jpg", quality=90)


def sounds(folder: Path, random: numpy.random.Generator) -> None:
    """A second of a tone with noise in each file; its pitch tells the class."""
    folder.mkdir()
    moments = numpy.arange(RATE) / RATE
    for number in range(160):
        tone = numpy.sin(2 * numpy.pi * 220 * (1 + number % len(CLASSES)) * moments)
        samples = (8000 * (tone + random.normal(0, 0.3, RATE))).clip(-32768, 32767).astype("<i2")
        with wave.open(str(folder / f"{CLASSES[number % len(CLASSES)]}-{number:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples.tobytes())


def sentences(folder: Path, random: numpy.random.Generator) -> None:
    """Lines of a few dozen words with a label, texts of such lines, and numbers for words, as nanoGPT reads them."""
    folder.mkdir()
    words = [f"word{number}" for number in range(500)]
    lines = [" ".join(random.choice(words, random.integers(20, 60))) for _ in range(800)]
    told = [{"text": line, "label": number % 2} for number, line in enumerate(lines)]
    (folder / "lines.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
    (folder / "words.txt").write_text("\n".join(words))
    for split, some in (("train", lines), ("valid", lines[:80]), ("test", lines[:80])):
        (folder / f"{split}.txt").write_text("\n".join(some))
    for split, count in (("train", 100_000), ("val", 10_000)):
        random.integers(0, 64, count, dtype=numpy.uint16).tofile(folder / f"{split}.bin")


def volumes(folder: Path, random: numpy.random.Generator) -> None:
    """Bright balls in noise, and what is ball and what is not."""
    folder.mkdir()
    places = numpy.indices((64, 64, 48))
    for number in range(12):
        middle = random.uniform(20, 30, 3).reshape(3, 1, 1, 1)
        ball = ((places - middle) ** 2).sum(0) < 150
        numpy.save(folder / f"{number:02}-image.npy", (random.normal(0, 30, ball.shape) + 200 * ball).astype("float32"))
        numpy.save(folder / f"{number:02}-label.npy", ball.astype("uint8"))


def main(root: Path) -> None:
    for make in (images, sounds, sentences, volumes):
        make(root / make.__name__, numpy.random.default_rng(7))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
