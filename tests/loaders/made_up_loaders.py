"""Made-up results of loaders, by the seconds of CPU for an image that each costs."""

import random

from pipebench.results.loaders import LoaderPass, LoaderResult, LoaderRound, SideBySide

COMMON = {"antialiased": "decode and v2", "not antialiased": "decode and INTER_LINEAR"}


def rounds(cpu_s, wall_s, count=5, noise=0.01, seed=0):
    rng = random.Random(f"{cpu_s} {seed}")
    found = []
    for number in range(count):
        part = 1 + noise * rng.uniform(-1, 1)
        passes = tuple(LoaderPass(1000, 1000 * wall_s * part, 1000 * cpu_s * part) for _ in range(2))
        found.append(LoaderRound(number, passes, 0.5 + number / 10, 400_000_000))
    return tuple(found)


def row(name, cpu_s=None, wall_s=None, task="antialiased", does=None, **more):
    made = rounds(cpu_s, wall_s or cpu_s / 2, more.pop("count", 5)) if cpu_s else ()
    order = {"order": "whole", "repeats": True} if cpu_s else {}
    given = {"library": f"{name} 1.0", "source": f"https://example.org/{name}", **order, **more}
    return LoaderResult(name, task, f"the loader {name}", does or COMMON[task], rounds=made, **given)


def side_by_side(*rows):
    return SideBySide("photos", 1000, 64, 224, 32, 2, 5, rows)


WHOLE = side_by_side(
    row("loop", 0.0018, 0.0018, baseline=True, source="", gives_up="all but one core"),
    row("swift", 0.001, does="only the crop's part", gives_up="exact pixels; a copy of the data: packed JPEGs"),
    row("plain", 0.002, order="buffer", repeats=False, resumes="state_dict"),
    row("heavy", 0.0024),
    row("plain", 0.0015, task="not antialiased"),
    row("heavy", 0.00151, task="not antialiased"),
    row("absent", skipped="absent is not installed: pip install 'pipebench[absent]'"),
    row("wrong", refused="sample 3 has wrong pixels: it differs by 9.0 levels on average"),
)
