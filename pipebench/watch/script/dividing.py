"""Says whether an iterable dataset divides its samples among the workers, as far as its code shows that.

torch gives a copy of the dataset to each worker. If the dataset does not ask which worker it is in, each one gives all
samples: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

from pipebench.watch.record.own_code import owner

_DEEPEST = 4
_ASKS = ("worker", "getpid", "current_process", "_identity")
# A stream of samples that are drawn has nothing to divide: torch gives each worker another seed.
_DRAWS = ("rand", "randn", "randint", "choice", "choices", "integers", "uniform", "normal", "sample")
_BY_INIT = ("worker_info", "dataset")
# Of other libraries nobody knows here: their streams may divide themselves.
_NO_STREAMS = (
    "torch", "torchvision", "torchaudio", "numpy", "PIL", "cv2", "pandas", "scipy", "skimage", "albumentations",
    "pyarrow", "h5py", "zarr", "lmdb", "soundfile", "librosa", "av", "tokenizers", "transformers", "tqdm", "yaml",
    "requests", "simplejpeg", "turbojpeg", "msgpack", "orjson",
)  # fmt: skip


def undivided(dataset: Any, worker_init_fn: Any) -> bool:
    """Whether nothing in the code of an iterable dataset asks for the worker: then each worker gives all samples.

    False also where something else may divide them: a library, `worker_init_fn`, or what the dataset holds.
    """
    streams: Any = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
    if streams is None or not isinstance(dataset, streams) or _init_may_divide(worker_init_fn):
        return False
    try:
        return not any(_may_divide(one) for one in _reached(dataset, 0, set()))
    except Exception:  # whatever a class of the user's does when it is asked: then nothing is said
        return False


def _init_may_divide(init: Any) -> bool:
    """One that only sets seeds does not ask for the dataset."""
    code = getattr(init, "__code__", None)
    if init is None or code is None:
        return init is not None
    return any(part in name for name in code.co_names for part in _BY_INIT)


def _may_divide(found: Any) -> bool:
    if not isinstance(found, types.CodeType):
        return True
    names = (*found.co_names, *(one for one in found.co_consts if isinstance(one, str)))
    return any(part in name.lower() for name in names for part in _ASKS) or any(name in _DRAWS for name in names)


def _reached(one: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    """The code of the user's own that may run in `one`, and objects of libraries that may divide samples."""
    if id(one) in seen or depth > _DEEPEST:
        return
    seen.add(id(one))
    if hasattr(one, "__wrapped__"):
        yield from _reached(one.__wrapped__, depth, seen)
    if isinstance(one, types.FunctionType):
        yield from _of_function(one, depth, seen)
    elif isinstance(one, types.ModuleType):
        if _is_stranger(one.__name__, getattr(one, "__file__", None)):
            yield one
    else:
        yield from _of_object(one, depth, seen)


def _of_function(one: types.FunctionType, depth: int, seen: set[int]) -> Iterator[Any]:
    if owner(one.__code__.co_filename):
        return
    for code in _with_inner(one.__code__):
        yield code
        for name in code.co_names:
            if name in one.__globals__:
                yield from _reached(one.__globals__[name], depth + 1, seen)


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """A piece of code, and that of the functions which it makes."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _with_inner(one)


def _of_object(one: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    kind = one if isinstance(one, type) else type(one)
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if kind.__module__ != "__main__" and (file is None or owner(file)):
        if _is_stranger(kind.__module__, file):
            yield one
        return
    for base in kind.__mro__:
        for held in vars(base).values():
            held = getattr(held, "fget", None) or getattr(held, "__func__", held)
            if isinstance(held, types.FunctionType):
                yield from _reached(held, depth, seen)
    if not isinstance(one, type):
        for held in getattr(one, "__dict__", {}).values():
            yield from _reached(held, depth + 1, seen)


def _is_stranger(module: str, file: str | None) -> bool:
    """Whether this is of a library whose objects may divide samples; queues and pipes of processes do, too."""
    top = module.split(".")[0]
    if top in ("multiprocessing", "queue", "socket"):
        return True
    return file is not None and bool(owner(file)) and top not in _NO_STREAMS and top not in sys.stdlib_module_names
