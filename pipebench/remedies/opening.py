"""Where the user's files open images, and what to write so that a JPEG is decoded in another way, or later."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from pipebench.remedies.seen import Seen
from pipebench.remedies.source import Source, called, sources
from pipebench.results.advice import Rewrite

_FOLDER = "ImageFolder"
_WRAPPERS = ("Subset", "ConcatDataset", "StackDataset")  # of torch: whose images they give is not known here
_BEFORE_LOADER = 3  # positional parameters of an ImageFolder before `loader`


def rewrites(seen: Seen, convert: Callable[..., object], later: bool = False) -> tuple[Rewrite, ...] | None:
    """Writes `convert(image)` for each `image.convert("RGB")`, and `loader=convert` into each ImageFolder.

    `convert` is a function of ours of an image or a path. Its text is written, too. `later` says that the image is only
    decoded after that, by a transform. Only files that have the loader's dataset count: another file may open images
    for something else. Of torch's wrappers of a dataset, all files count. None: they open no image, or one that must be
    decoded there; or it is not known where the images of an ImageFolder are opened.
    """
    found: list[Rewrite] = []
    opens = False
    for source in sources(seen):
        calls = _calls(source, seen.loader.dataset)
        converted, folders = _converted(calls), _folders(source, calls)
        if any(not _takes_loader(one) for one in folders):
            return None
        if later and any(source.handles_errors(one) or source.keeps(one) for one in converted):
            return None
        opens |= bool(converted or folders) or any(map(_opens, calls))
        for call in converted:
            found += _exchanged(source, call, convert.__name__)
        for call in folders:
            found.append(source.with_keyword(call, f"loader={convert.__name__}"))
        if converted or folders:
            found.append(source.defined(convert, min((*converted, *folders), key=lambda one: one.lineno)))
    return tuple(found) if opens else None


def _calls(source: Source, dataset: str) -> list[ast.Call]:
    """The calls of the file that may be behind the images of this dataset; none if that is not known from this file.

    It has to define the class of the dataset, or to make it, if it is torchvision's: all in the same way.
    """
    if dataset in _WRAPPERS:
        return [one for one in source.nodes(ast.Call) if isinstance(one, ast.Call)]
    found = source.reached(dataset)
    if any(isinstance(one, ast.ClassDef) and one.name == dataset for one in ast.walk(source.tree)):
        return found
    if dataset != _FOLDER:
        return []
    folders = _folders(source, found)
    return found if len(folders) in (0, len(source.calls_of(_FOLDER))) else []


def _exchanged(source: Source, call: ast.Call, name: str) -> Iterator[Rewrite]:
    assert isinstance(call.func, ast.Attribute)
    begin, end = source.begin(call), source.end_of_group(call.func.value, source.end(call.func))
    yield Rewrite(source.file, begin, begin, f"{name}(")
    yield Rewrite(source.file, end, source.end(call), ")")


def _converted(calls: Iterable[ast.Call]) -> list[ast.Call]:
    """Every `image.convert("RGB")` of these."""
    return [
        one
        for one in calls
        if isinstance(one.func, ast.Attribute)
        and one.func.attr == "convert"
        and [getattr(given, "value", None) for given in (*one.args, *_of_mode(one))] == ["RGB"]
        and len(_of_mode(one)) == len(one.keywords)
    ]


def _of_mode(call: ast.Call) -> list[ast.expr]:
    return [one.value for one in call.keywords if one.arg == "mode"]


def _folders(source: Source, calls: Iterable[ast.Call]) -> list[ast.Call]:
    """Every ImageFolder of these that opens images as torchvision does, as far as its call shows that."""
    return [
        one
        for one in calls
        if called(one) == _FOLDER
        and source.is_of(one.func, "torchvision")
        and len(one.args) <= _BEFORE_LOADER
        and not any(given.arg == "loader" for given in one.keywords)
    ]


def _takes_loader(folder: ast.Call) -> bool:
    """Whether a keyword can be added to this call: it shows all of its arguments."""
    hidden = any(isinstance(one, ast.Starred) for one in folder.args) or any(one.arg is None for one in folder.keywords)
    return bool(folder.args or folder.keywords) and not hidden


def _opens(node: ast.Call) -> bool:
    return ast.unparse(node.func).endswith("Image.open")
