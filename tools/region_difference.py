"""How far resized crops are from tensor-first: python tools/region_difference.py [photos] [web] [--seeds 2].

For each data set and way: the mean absolute difference in levels of 255, that of the worst image, and that of the worst
pixel. The boxes are those of the lab (task crop/resized-224). "moved box" is a decode at full scale of the box that
`region` decodes: the part of its difference that comes from moving edges to whole reduced pixels. "box not moved" is
its reduced picture, resized by Pillow from the fractional box: the part that comes from decoding at a smaller scale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.functional import pil_to_tensor

from pipebench.native import region, resized
from pipebench.stages import crop, read
from pipebench.stages.crop import Cut
from pipebench.task import Workload

SIZE = (224, 224)


def reduced_picture(given: Cut) -> Any:
    scale = resized._scale_for(given.box, SIZE)
    picture = Image.fromarray(region.decode_and_crop(given.data, given.box, scale).numpy())
    begin = [given.box[0] // scale, given.box[1] // scale]
    box = [edge / scale - begin[index % 2] for index, edge in enumerate(given.corners)]
    box[2:] = [min(pair) for pair in zip(box[2:], picture.size, strict=True)]
    return pil_to_tensor(picture.resize(SIZE, Image.Resampling.BILINEAR, box=tuple(box)))


def ways(workload: Workload) -> dict[str, Callable[[Cut], Any]]:
    return {
        "pil-crop": crop.pil_crop(workload),
        "torchvision-v2": crop.torchvision_v2(workload),
        "opencv": crop._opencv(workload),
        "region": crop.region_resized(workload),
        "region-exact": crop.region_exact(workload),
        "reduced": reduced_picture,
    }


def rows(name: str, seed: int) -> str:
    workload = Workload(data=name, seed=seed)
    keys = [key for group in read.keys(workload) for key in group]
    cuts = crop.cuts(workload, keys, SIZE[0], crop.resized_box)
    expected = [crop.tensor_first(workload)(given).int() for given in cuts]
    reduced = sum(resized._scale_for(given.box, SIZE) > 1 for given in cuts)
    text = f"{name}, seed {seed}: {len(cuts)} crops, {reduced} from a reduced decode\n"
    for way, call in ways(workload).items():
        apart = [(call(given).int() - one).abs() for given, one in zip(cuts, expected, strict=True)]
        means = [float(one.float().mean()) for one in apart]
        worst = max(int(one.max()) for one in apart)
        text += f"  {way:<16} mean {np.mean(means):5.2f}   worst image {max(means):5.2f}   worst pixel {worst:3}\n"
    return text


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=["photos", "web", "synthetic"])
    parser.add_argument("--seeds", type=int, default=2, help="draws of the boxes (default 2)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in options.datasets:
        for seed in range(options.seeds):
            sys.stdout.write(rows(name, seed))
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
