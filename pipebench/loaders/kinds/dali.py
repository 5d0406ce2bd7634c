"""NVIDIA DALI on the CPU: operators that decode only the crop's part, in threads. It needs no driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.results.loaders import Filter

DOES: dict[Filter, str] = {
    "antialiased": "DALI's image_slice decoder and resize with antialias",
    "not antialiased": "DALI's image_slice decoder and resize without antialias",
}
MODULES = ("torch", "nvidia.dali", "nvidia.dali.plugin.pytorch")
SOURCE = "https://docs.nvidia.com/deeplearning/dali/user-guide/docs/examples/use_cases/pytorch/resnet50/pytorch-resnet50.html"
GIVES_UP = "functions in Python: the work is written in its operators"


@contextmanager
def opened(plan: Plan, device: str = "cpu") -> Iterator[Passes]:
    """The pipeline on a device, `cpu` or `gpu`. Batches of a GPU are copied to the host."""
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    on_gpu = device == "gpu"
    made = _pipeline(plan, on_gpu)
    made.build()
    names = ["images", "indices", "anchor", "shape", "mirrored"]
    loader: Any = DALIGenericIterator(
        [made], names, reader_name="reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )  # fmt: skip
    yield lambda number: (_batch(one[0]) for one in loader)


def _pipeline(plan: Plan, on_gpu: bool) -> Any:
    import nvidia.dali.fn as fn
    from nvidia.dali import pipeline_def, types

    antialias, device = plan.filter == "antialiased", "mixed" if on_gpu else "cpu"

    @pipeline_def  # type: ignore[untyped-decorator,unused-ignore]
    def crops() -> Any:
        encoded, indices = fn.readers.file(
            files=list(plan.paths), labels=list(range(len(plan.paths))), name="reader", random_shuffle=True,
            initial_fill=len(plan.paths), seed=plan.seed, pad_last_batch=True,  # or a batch goes on in the next pass
        )  # fmt: skip
        anchor, shape = fn.random_crop_generator(
            fn.peek_image_shape(encoded, adjust_orientation=False),
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
        )
        mirrored = fn.random.coin_flip(probability=0.5)
        images = fn.decoders.image_slice(
            encoded, anchor, shape, axis_names="HW", device=device, output_type=types.RGB, adjust_orientation=False
        )
        images = fn.resize(images, size=[plan.side, plan.side], interp_type=types.INTERP_LINEAR, antialias=antialias)
        images = fn.flip(images, horizontal=mirrored)
        return fn.transpose(images, perm=[2, 0, 1]), indices, anchor, shape, mirrored

    return crops(batch_size=plan.batch_size, num_threads=plan.cores, device_id=0 if on_gpu else None, seed=plan.seed)


def _batch(found: dict[str, Any]) -> Batch:
    import torch

    anchor, shape = found["anchor"], found["shape"]
    box = torch.stack([anchor[:, 1], anchor[:, 0], shape[:, 1], shape[:, 0], found["mirrored"].reshape(-1)], 1)
    return Batch(found["images"].cpu(), found["indices"].reshape(-1), box)


KIND = Kind(
    name="dali",
    title="DALI on the CPU, threads",
    source=SOURCE,
    open=opened,
    does=DOES,
    modules=MODULES,
    distribution="nvidia.dali",
    extra="dali,lab",
    gives_up=GIVES_UP,
    resumes="a checkpoint of the pipeline",
)
