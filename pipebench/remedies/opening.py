"""Where the user's files open images, and what to write so that a JPEG is decoded in another way, or later."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from pipebench.remedies.seen import Seen
from pipebench.remedies.source import Source, sources
from pipebench.results.advice import Rewrite

_FOLDER = "ImageFolder"
_WRAPPERS = ("Subset", "ConcatDataset", "StackDataset")  # of torch: whose images they give is not known here
_BEFORE_LOADER = 3  # positional parameters of an ImageFolder before `loader`


def rewrites(seen: Seen, convert: Callable[..., object], later: bool = False) -> tuple[Rewrite, ...] | None:
    """Writes `convert(image)` for each `image.convert("RGB")`, and `loader=convert` into each ImageFolder.

    `convert` is a function of ours of an image or a path. Its text is written, too. `later` says that the image is only
    decoded after that, by a transform. Only files that have the loader's dataset count: another file may open images
    for something else. Of torch's wrappers of a dataset, all files count. None: they open no image, or one that must be
    decoded there.
    """
    found: list[Rewrite] = []
    opens = False
    wrapped = seen.loader.dataset in _WRAPPERS
    for source in sources(seen):
        places = (_converted(source), _folders(source)) if wrapped else _places(source, seen.loader.dataset)
        if places is None:
            continue
        converted, folders = places
        if later and any(source.handles_errors(one) or source.keeps(one) for one in converted):
            return None
        opens |= bool(converted or folders) or any(_opens(one) for one in source.nodes(ast.Call))
        for call in converted:
            found += _exchanged(source, call, convert.__name__)
        for call in folders:
            found.append(source.with_keyword(call, f"loader={convert.__name__}"))
        if converted or folders:
            found.append(source.defined(convert, min((*converted, *folders), key=lambda one: one.lineno)))
    return tuple(found) if opens else None


def _places(source: Source, dataset: str) -> tuple[list[ast.Call], list[ast.Call]] | None:
    """What converts the images of this dataset, and its ImageFolders. None: that is not known from this file.

    It has to define the class of the dataset, or to make it, if it is torchvision's: all in the same way.
    """
    folders, made = _folders(source), source.calls_of(_FOLDER)
    if dataset != _FOLDER:
        defined = any(isinstance(one, ast.ClassDef) and one.name == dataset for one in ast.walk(source.tree))
        return (_converted(source), folders) if defined else None
    if folders and len(folders) == len(made):
        return [], folders
    return (_converted(source), []) if made and not folders else None


def _exchanged(source: Source, call: ast.Call, name: str) -> Iterator[Rewrite]:
    assert isinstance(call.func, ast.Attribute)
    begin, end = source.begin(call), source.end_of_group(call.func.value, source.end(call.func))
    yield Rewrite(source.file, begin, begin, f"{name}(")
    yield Rewrite(source.file, end, source.end(call), ")")


def _converted(source: Source) -> list[ast.Call]:
    """Every `image.convert("RGB")`."""
    return [
        one
        for one in source.nodes(ast.Call)
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "convert"
        and [getattr(given, "value", None) for given in (*one.args, *_of_mode(one))] == ["RGB"]
        and len(_of_mode(one)) == len(one.keywords)
    ]


def _of_mode(call: ast.Call) -> list[ast.expr]:
    return [one.value for one in call.keywords if one.arg == "mode"]


def _folders(source: Source) -> list[ast.Call]:
    """Every ImageFolder that opens images as torchvision does."""
    return [
        one
        for one in source.calls_of(_FOLDER)
        if source.is_of(one.func, "torchvision")
        and 0 < len(one.args) <= _BEFORE_LOADER
        and not any(given.arg in ("loader", None) for given in one.keywords)
        and not any(isinstance(given, ast.Starred) for given in one.args)
    ]


def _opens(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Image.open")
