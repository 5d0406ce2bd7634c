"""Whether a user's two functions can be measured: each is called, and what does not fit is named with its remedy."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import multiprocessing.context
import os
from collections.abc import Callable, Iterator, Sized
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from pipebench.compare import failures, users_loader
from pipebench.compare.bare_dataset import dataset_of, first_samples, inner_loader, is_map_style
from pipebench.compare.config import Own
from pipebench.compare.import_roots import import_roots
from pipebench.compare.places import place_of
from pipebench.errors import PipebenchError
from pipebench.task import Unavailable
from pipebench.units import counted, printable

PASSED = ("num_workers",)  # what each call of make_loader is given, if it takes it
SENT = {"dataset": "data set", "collate_fn": "collate_fn", "worker_init_fn": "worker_init_fn"}  # to spawned workers
TORCH_SAMPLER = os.path.join("torch", "utils", "data", "sampler.py")


def refuse_unusable(own: Own, repo: Path) -> None:
    """Calls both functions and reads one sample. Raises `PipebenchError` with what cannot be measured, and its remedy.

    Raises `Unavailable` for a function that does not exist.
    """
    loader_name = own.loader or ""
    named = _named(loader_name, repo)
    with blamed(loader_name, repo):
        _refuse_arguments(loader_name, PASSED, named)
        loader = _loader(own, 0, named)
        _refuse_empty(loader, named)
        _refuse_unsent(own, named)
    if own.transform is not None:
        named = _named(own.transform, repo)
        with blamed(own.transform, repo):
            _refuse_arguments(own.transform, (), named)
            made = users_loader.object_named(own.transform)()
            if not callable(made):
                _refuse(f"{named} {_returns(made)}", "let it return the transform of one image")


@contextlib.contextmanager
def blamed(name: str, repo: Path) -> Iterator[None]:
    """Whatever a function of the user's raises is said as a problem of that function, with the line of its code."""
    try:
        yield
    except (PipebenchError, Unavailable, KeyboardInterrupt):
        raise
    except BaseException as error:
        place = failures.place_of(error, os.fspath(repo))
        what = f"{_named(name, repo)} cannot be used: {printable(failures.first_line(error))}"
        remedy = "run this where the loader finds its imports and its data"
        raise PipebenchError(f"{what} ({printable(place)})" if place else what, remedy) from error


def _refuse(problem: str, remedy: str) -> None:
    raise PipebenchError(problem, remedy)


def _named(name: str, repo: Path) -> str:
    """The user's function as they wrote it, with its file and line if they are found."""
    place = place_of(repo, import_roots(repo), name)
    return f"{printable(name)} ({printable(place.file)}:{place.line})" if place else printable(name)


def _returns(made: Any) -> str:
    """What a function returned, as a verb and its object."""
    return "returns nothing (None)" if made is None else f"returns an object of type {printable(type(made).__name__)}"


def _refuse_arguments(name: str, passed: tuple[str, ...], named: str) -> None:
    function = users_loader.object_named(name)
    if not callable(function):
        _refuse(f"{named} is no function", "name a function that returns it, as module:function")
    needed = [one.name for one in inspect.signature(function).parameters.values() if _is_needed(one, passed)]
    if needed:
        _refuse(
            f"{named} needs {counted(len(needed), 'argument')}: {printable(', '.join(needed))}",
            "give each a default value, or name a function that calls it with them",
        )


def _is_needed(one: inspect.Parameter, passed: tuple[str, ...]) -> bool:
    if one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
        return False
    return one.kind is one.POSITIONAL_ONLY or one.name not in passed


def _loader(own: Own, workers: int, named: str) -> Any:
    try:
        loader, _ = users_loader.loaders_of(own).get(num_workers=workers)
    except ValueError as error:
        if not _is_of_an_empty_one(error):
            raise
        raise _empty(named) from error
    if loader is None or not (hasattr(loader, "__iter__") or is_map_style(loader)):
        _refuse(f"{named} {_returns(loader)}", "let it return its loader: return DataLoader(...)")
    return loader


def _is_of_an_empty_one(error: ValueError) -> bool:
    """Whether torch refused to shuffle no samples at all."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_filename.endswith(TORCH_SAMPLER) and "num_samples=0" in str(error)


def _empty(named: str) -> PipebenchError:
    return PipebenchError(
        f"the data set of {named} is empty",
        f"check where it looks for its samples: a relative path begins at {printable(os.getcwd())}",
    )


def _refuse_empty(loader: Any, named: str) -> None:
    dataset, inner = dataset_of(loader), inner_loader(loader)
    if is_map_style(dataset) and len(dataset) == 0:
        raise _empty(named)
    if inner is not None and is_map_style(dataset):
        _refuse_no_batch(inner, named)
    if not first_samples(loader, dataset, 1):
        raise _empty(named)


def _refuse_no_batch(loader: Any, named: str) -> None:
    batches = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if _length(batches) != 0:
        return
    samples = _length(loader.sampler)
    if loader.drop_last and samples:
        _refuse(
            f"{named} gives no batch: {counted(samples, 'sample')}, batch_size={loader.batch_size} and drop_last=True",
            f"let it have {loader.batch_size} samples at least, a smaller batch_size, or drop_last=False",
        )
    _refuse(
        f"{named} gives no batch: its sampler takes none of {counted(len(loader.dataset), 'sample')}",
        "let its sampler give the indices of some samples",
    )


def _length(one: Any) -> int | None:
    """The length; None if that is not known before it was iterated."""
    try:
        return len(one) if isinstance(one, Sized) else None
    except (TypeError, NotImplementedError):
        return None


def _refuse_unsent(own: Own, named: str) -> None:
    """Refuses what cannot be sent to workers that do not begin as a copy of this process."""
    most = max((*own.workers, *own.startup), default=0)
    inner = inner_loader(_loader(own, most, named)) if most else None
    if inner is None:
        return
    method = (inner.multiprocessing_context or multiprocessing.get_context()).get_start_method()
    for attribute, word in SENT.items() if method != "fork" else ():
        try:
            _pickled(getattr(inner, attribute))
        except Exception as error:
            raise PipebenchError(
                f"the {word} of {named} cannot be pickled, as the start method {method} of its "
                f"workers needs: {printable(failures.first_line(error))}",
                "let it hold no lambda, local function, open file or lock; or measure no workers: --workers 0",
            ) from error


class _Spawning:
    """Stands for the start of a worker, to which locks and file descriptors would be handed."""

    duplicate_for_child: Callable[[int], int] = staticmethod(int)
    DupFd: Callable[[int], int] = staticmethod(int)


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)


def _pickled(value: Any) -> None:
    """Pickles a value as the start of a worker does, and keeps nothing of it."""
    multiprocessing.context.set_spawning_popen(_Spawning())  # type: ignore[arg-type]  # has what a pickle asks for
    try:
        ForkingPickler(_Nowhere()).dump(value)
    finally:
        multiprocessing.context.set_spawning_popen(None)
