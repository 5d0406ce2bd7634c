"""Says whether an iterable dataset divides its samples among the workers, as far as its code shows that, and by what.

torch gives a copy of the dataset to each worker. If the dataset does not ask which worker it is in, each one gives all
samples: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.own_code import owner
from pipebench.watch.stages.called import with_inner

_DEEPEST, _MOST, _FEW = 6, 2_000, 16
_ASKS = ("worker", "getpid", "current_process", "_identity")
# A stream of samples that are drawn has nothing to divide: torch gives each worker another seed.
_DRAWS = (
    "rand", "randn", "randint", "randrange", "choice", "choices", "integers", "uniform", "normal", "standard_normal",
    "sample", "multinomial", "rand_like", "randn_like", "random_sample", "gauss", "normalvariate", "bernoulli",
    "poisson", "exponential", "beta", "gamma", "dirichlet", "uniform_", "normal_", "random_", "bernoulli_",
)  # fmt: skip
_TAKES = ("LOAD_ATTR", "LOAD_METHOD")
_ANNOTATIONS = "__annotate_func__"  # Python 3.14 makes a function of those of a class, which no stream runs
_BY_INIT = ("worker_info", "dataset")
# Of other libraries nobody knows here: their streams may divide themselves.
_NO_STREAMS = (
    "torch", "torchvision", "torchaudio", "numpy", "PIL", "cv2", "pandas", "scipy", "skimage", "albumentations",
    "pyarrow", "h5py", "zarr", "lmdb", "soundfile", "librosa", "av", "tokenizers", "transformers", "tqdm", "yaml",
    "requests", "simplejpeg", "turbojpeg", "msgpack", "orjson",
)  # fmt: skip
_BY_WORKER = "split_by_worker"
_KEEP_SHARDS = {"single_node_only", "split_by_node", "_shuffle", "detshuffle"}  # stages of webdataset before that one
_SHARED = ("multiprocessing", "socket")  # of the standard library: what one takes, no other gets (unlike queue.Queue)


_POOLS = {"Pool", "ProcessPoolExecutor"}


def undivided(dataset: Any, worker_init_fn: Any) -> bool:
    """Whether nothing in the code of an iterable dataset asks for the worker: then each worker gives all samples.

    False also where something else may divide them: a library, `worker_init_fn`, or what the dataset holds.
    """
    data: Any = sys.modules.get("torch.utils.data")
    if data is None or not issubclass(type(dataset), data.IterableDataset) or _init_may_divide(worker_init_fn):
        return False
    if hasattr(type(dataset), "apply_sharding") or issubclass(type(dataset), getattr(data, "IterDataPipe", ())):
        return False  # torch divides pipes by `sharding_filter`
    try:
        return not any(_may_divide(one) for one in _Reached(data.Dataset).by(dataset))
    except Exception:  # a dictionary that another thread changes, say: then nothing is said
        return False


def starts_processes(dataset: Any) -> bool:
    """Whether the code of a dataset starts processes of its own, as of a pool: torch's workers are daemons and may not.

    https://docs.python.org/3/library/multiprocessing.html#multiprocessing.Process.daemon
    """
    data: Any = sys.modules.get("torch.utils.data")
    if data is None:
        return False
    try:
        return any(_starts(one) for one in _Reached(data.Dataset).by(dataset) if isinstance(one, types.CodeType))
    except Exception:  # a dictionary that another thread changes, say: then nothing is said
        return False


def _starts(code: types.CodeType) -> bool:
    names = set(code.co_names)
    return bool(names & _POOLS) or {"Process", "start"} <= names


def shards(dataset: Any) -> int | None:
    """So many workers get samples of the stream of an iterable dataset: more have no shard. None: it is no stream.

    0: it does not say. Only libraries are asked whose answer costs nothing: Hugging Face's datasets, and webdataset.
    """
    data: Any = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(dataset, data.IterableDataset):  # as torch asks
        return None
    with forgiving():
        return _of_hugging_face(dataset) or _of_webdataset(dataset)
    return 0


def _of_hugging_face(dataset: Any) -> int:
    kind: Any = getattr(sys.modules.get("datasets.iterable_dataset"), "IterableDataset", ())
    if not issubclass(type(dataset), kind):
        return 0
    return int(getattr(dataset, "num_shards", None) or dataset.n_shards)  # of older versions


def _of_webdataset(dataset: Any) -> int:
    """The shards of the list that workers divide, those of this rank. 0: there is no such list, or it goes on anew."""
    kind: Any = getattr(sys.modules.get("webdataset.pipeline"), "DataPipeline", ())
    pipeline: list[Any] = dataset.pipeline if issubclass(type(dataset), kind) else [None]
    listed, *stages = pipeline
    names = [_stage_name(one) for one in stages]
    if type(listed).__name__ != "SimpleShardList" or _BY_WORKER not in names:
        return 0
    before = names[: names.index(_BY_WORKER)]
    if not set(before) <= _KEEP_SHARDS:
        return 0
    rank, ranks, _, _ = sys.modules["webdataset.utils"].pytorch_worker_info()
    return len(listed.urls[rank::ranks] if "split_by_node" in before else listed.urls)


def _stage_name(one: Any) -> str:
    """The name of a function; of the function in a stage with settings; of the class of another stage."""
    named = one if isinstance(one, types.FunctionType) else vars(one).get("f", type(one))
    return str(getattr(named, "__name__", ""))


def _init_may_divide(init: Any) -> bool:
    """One that only sets seeds does not ask for the dataset."""
    if not isinstance(init, types.FunctionType):
        return init is not None
    return any(part in name for name in init.__code__.co_names for part in _BY_INIT)


def _may_divide(found: Any) -> bool:
    if not isinstance(found, types.CodeType):
        return True
    names = (*found.co_names, *(one for one in found.co_consts if isinstance(one, str)))
    asks = any(part in name.lower() for name in names for part in _ASKS)
    return asks or any(name in _DRAWS for name in names) or ("random" in names and _calls_random(found))


def _calls_random(code: types.CodeType) -> bool:
    """Whether it calls a method `random`, as of a generator; `random.shuffle` only orders what is there."""
    each = [*dis.get_instructions(code)]
    found = [place for place, one in enumerate(each) if one.opname in _TAKES and one.argval == "random"]
    return any(each[place + 1].opname not in _TAKES for place in found)


class _Reached:
    """What the stream of a dataset may run or take from: pieces of code, and objects that may divide samples.

    Nothing of the user's runs for it: attributes are read from dictionaries. What lies too deep may divide.
    """

    def __init__(self, datasets: type) -> None:
        self.datasets = datasets
        self.seen: set[int] = set()

    def by(self, one: Any, depth: int = 0) -> Iterator[Any]:
        if id(one) in self.seen:
            return
        self.seen.add(id(one))
        if depth > _DEEPEST or len(self.seen) > _MOST:
            yield one
        elif isinstance(one, types.FunctionType):
            yield from self._function(one, depth)
        elif isinstance(one, types.ModuleType):
            if _is_stranger(one.__name__, vars(one).get("__file__")):
                yield one
        else:
            yield from self._object(one, depth)

    def _function(self, one: types.FunctionType, depth: int) -> Iterator[Any]:
        if "__wrapped__" in vars(one):
            yield from self.by(vars(one)["__wrapped__"], depth)
        if owner(one.__code__.co_filename):
            yield from (one,) if _is_stranger(one.__module__ or "", one.__code__.co_filename) else ()
            return
        yield from self._all((cell.cell_contents for cell in one.__closure__ or () if _is_full(cell)), depth)
        for code in with_inner(one.__code__):
            yield code
            known = [one.__globals__[name] for name in code.co_names if name in one.__globals__]
            yield from self._all((*known, *_of_own_modules(known, code), *_imported(code)), depth)

    def _object(self, one: Any, depth: int) -> Iterator[Any]:
        if type(one) in (list, tuple, dict, set):
            yield from self._all(itertools.islice(one.values() if type(one) is dict else one, _FEW), depth)
        elif isinstance(one, types.MethodType | staticmethod | classmethod):
            yield from self.by(one.__func__, depth)
        elif isinstance(one, functools.partial):
            yield from self._all((one.func, *one.args, *one.keywords.values()), depth)
        elif isinstance(one, property):
            yield from self._all((one.fget,), depth)
        else:
            yield from self._of_class(one, one if isinstance(one, type) else type(one), depth)

    def _of_class(self, one: Any, kind: type, depth: int) -> Iterator[Any]:
        file = vars(sys.modules[kind.__module__]).get("__file__") if kind.__module__ in sys.modules else None
        own = kind.__module__ == "__main__" or (file is not None and not owner(file))
        if not own and _is_stranger(kind.__module__, file):
            yield one
        if own:
            for base in kind.__mro__:
                yield from self._all((one for name, one in vars(base).items() if name != _ANNOTATIONS), depth)
        if one is not kind and (own or issubclass(kind, self.datasets)):
            held = _held(one)
            yield from (one,) if held is None else self._all(held.values(), depth)

    def _all(self, ones: Iterable[Any], depth: int) -> Iterator[Any]:
        for one in ones:
            if not isinstance(one, str | int | float | bytes | None):
                yield from self.by(one, depth + 1)


def _held(one: Any) -> dict[str, Any] | None:
    """The attributes of an object; None: it has slots, or a `__dict__` of its own."""
    places = [vars(base).get("__dict__") for base in type(one).__mro__]
    plain = any(isinstance(place, types.GetSetDescriptorType) for place in places)
    strange = any(isinstance(place, property) for place in places)
    return one.__dict__ if plain and not strange else None


def _is_full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _of_own_modules(known: Iterable[Any], code: types.CodeType) -> Iterator[Any]:
    """What the code may take from modules of the user's own, by its names."""
    for one in known:
        if isinstance(one, types.ModuleType) and not owner(vars(one).get("__file__") or ""):
            yield from (vars(one)[name] for name in code.co_names if name in vars(one))


def _imported(code: types.CodeType) -> Iterator[Any]:
    """What a function imports itself, by what it calls it: modules, and what they hold."""
    names = [str(one.argval) for one in dis.get_instructions(code) if one.opname == "IMPORT_NAME"]
    modules = [sys.modules[name] for name in names if name in sys.modules]
    yield from modules
    yield from _of_own_modules(modules, code)


def _is_stranger(module: str, file: str | None) -> bool:
    """Whether this is of a library whose objects may divide samples; queues and pipes of processes do, too."""
    top = module.split(".")[0]
    if top in _SHARED:
        return True
    return file is not None and bool(owner(file)) and top not in _NO_STREAMS and top not in sys.stdlib_module_names
