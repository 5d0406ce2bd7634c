"""JPEGs in a folder, and a dataset that opens them with Pillow, for the tests of remedies."""

import ast
from dataclasses import replace

import numpy as np
from made_up_trials import LOADER, seen
from PIL import Image

from pipebench.results.watched import StageResult
from pipebench.watch.record.trial_lines import LoaderMade

SIZES = [(160, 120), (121, 163), (130, 131), (64, 100)]


def write(folder):
    """Some JPEGs, 0.jpg and so on."""
    for number, size in enumerate(SIZES):
        rng = np.random.default_rng(number)
        small = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        small.resize(size, Image.Resampling.BICUBIC).save(folder / f"{number}.jpg", quality=90)


class Files:
    """JPEGs that Pillow opens and converts. `way` is how."""

    def __init__(self, folder, entries, way="convert"):
        from torchvision import transforms

        self.folder, self.way, self.transform = folder, way, transforms.Compose(list(entries))
        write(folder)

    def __getitem__(self, index):
        path = self.folder / f"{index}.jpg"
        if self.way == "convert":
            return self.transform(Image.open(path).convert("RGB")), index
        if self.way == "with":
            with open(path, "rb") as file, Image.open(file) as image:
                return self.transform(image.convert("RGB")), index
        if self.way == "decoded":
            return self.transform(Image.open(path).convert("RGB").rotate(0)), index
        return self.transform(Image.open(path)), index


def seen_with(path, text, *rows, wait_share=0.6, **more):
    """What is seen of a script with this text at `path`, whose stages have these rows: name, kind, share."""
    path.write_text(text)
    calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    call = next(one for one in calls if ast.unparse(one.func) == "DataLoader")
    made = LoaderMade(1, str(path), call.lineno, call.end_lineno, call.col_offset, call.end_col_offset, "main", 10)
    stages = tuple(StageResult(name, kind, 1, 100, 0.1, share) for name, kind, share in rows)
    figures = seen(wait_share, loader=replace(LOADER, dataset="ImageFolder" if "ImageFolder(" in text else "Photos"))
    return replace(figures, watched=replace(figures.watched, stages=stages), made=made, **more)
