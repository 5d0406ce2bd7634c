"""Finds columns of a dataset of Hugging Face that are lists in lists of numbers: a sample is put together list by list.

A column of a fixed shape (`Array3D`) is one block for each sample.
"""

from __future__ import annotations

from typing import Any

_LISTS = ("List", "LargeList", "Sequence")
_NUMBERS = ("int", "uint", "float", "double", "bool")
_ARRAYS = range(2, 6)  # dimensions of the types of fixed shape that there are


def nested_columns(dataset: Any) -> dict[str, int]:
    """The dimensions of such columns, if its format makes tensors or arrays of them. Empty for any other dataset."""
    if type(dataset).__module__ != "datasets.arrow_dataset":
        return {}
    try:
        how, features = dataset.format, dataset.features
        read = how["columns"] if how["type"] in ("torch", "numpy") else ()
        found = {str(name): _dimensions(features[name]) for name in read}
    except Exception:  # another version of the library: then nothing is said
        return {}
    return {name: dimensions for name, dimensions in found.items() if dimensions in _ARRAYS}


def _dimensions(feature: Any) -> int:
    """How many lists are around a number; 0 if there is something else in them."""
    found = 0
    while type(feature) is list or type(feature).__name__ in _LISTS:
        feature = feature[0] if type(feature) is list else feature.feature
        found += 1
    return found if type(feature).__name__ == "Value" and feature.dtype.startswith(_NUMBERS) else 0
