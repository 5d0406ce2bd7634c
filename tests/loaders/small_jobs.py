"""A few small JPEGs, and jobs and fake kinds for them."""

import random
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from pipebench.loaders.kind import Batch, Kind, Plan
from pipebench.loaders.one_round import Job
from pipebench.loaders.recipe import DOES, drawn, expected

IMAGES, BATCH, SIDE = 24, 8, 32


def jpegs(folder):
    """Files with coarse and fine detail: antialiasing shows in them."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for index in range(IMAGES):
        coarse = np.asarray(Image.fromarray(rng.integers(0, 255, (6, 8, 3), np.uint8)).resize((200, 150)))
        fine = rng.integers(-60, 60, (150, 200, 1))
        image = np.clip(coarse + fine, 0, 255).astype(np.uint8)
        Image.fromarray(image).save(folder / f"{index:06}.jpg", quality=92)
    return tuple(sorted(map(str, folder.iterdir())))


def plan(paths, task="antialiased"):
    return Plan(task, paths, Path("nowhere"), BATCH, 1, 0, SIDE)


def job(paths, folder, kind="fake", task="antialiased", action="run", passes=1):
    return Job(action, kind, task, paths, str(folder), BATCH, 2, (0,), 0, SIDE, passes, 0)


def right(plan, number=0):
    """The batches of a pass that are as they must be."""
    order = random.Random(number).sample(range(len(plan.paths)), len(plan.paths))
    for begin in range(0, len(order), plan.batch_size):
        indices = order[begin : begin + plan.batch_size]
        boxes = [drawn(200, 150, plan.side) for _ in indices]
        images = [
            expected(Path(plan.paths[one]).read_bytes(), box, plan.filter, plan.side)
            for one, box in zip(indices, boxes, strict=True)
        ]
        yield Batch(np.stack(images), np.array(indices), np.array(boxes, np.int32))


def kind(change=lambda batches: batches, **more):
    """A kind whose batches are right, and then changed."""

    @contextmanager
    def opened(plan):
        yield lambda number: change(right(plan, number))

    return Kind("fake", "a fake loader", "https://example.org/fake", opened, more.pop("does", DOES), **more)
