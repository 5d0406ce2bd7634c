"""Columns of Hugging Face's datasets that are lists in lists: those that the format of a dataset makes tensors of."""

from __future__ import annotations

from typing import Any

import pytest

from pipebench.watch.script.nested_columns import nested_columns


def _made(**how: Any) -> Any:
    datasets = pytest.importorskip("datasets")
    value, three = datasets.Value("uint8"), [[[0, 1], [2, 3]]]
    lists = [[[value]]] if not hasattr(datasets, "List") else datasets.List(datasets.List(datasets.List(value)))
    features = datasets.Features({
        "image": lists, "label": datasets.Value("int64"), "tokens": datasets.Sequence(datasets.Value("int64")),
        "words": datasets.Sequence(datasets.Sequence(datasets.Value("string"))),
        "whole": datasets.Array3D((1, 2, 2), "uint8"),
    })  # fmt: skip
    rows = {"image": [three] * 2, "label": [0, 1], "tokens": [[1, 2]] * 2, "words": [[["a"]]] * 2, "whole": [three] * 2}
    return datasets.Dataset.from_dict(rows, features=features).with_format(**how)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"type": "torch"}, {"image": 3}),
        ({"type": "numpy", "columns": ["image", "label"]}, {"image": 3}),
        ({"type": "torch", "columns": ["whole", "label"]}, {}),
        ({"type": None}, {}),
    ],
)
def test_columns_that_are_lists_in_lists(how: Any, found: dict[str, int]) -> None:
    assert nested_columns(_made(**how)) == found


def test_other_datasets_and_other_versions_have_none() -> None:
    class Other:
        __module__ = "datasets.arrow_dataset"

        @property
        def format(self) -> Any:
            raise RuntimeError("no such property")

    assert nested_columns(Other()) == nested_columns([[[1]]]) == {}


def test_a_value_in_lists_as_earlier_versions_have_them() -> None:
    class Value:
        dtype = "float32"

    class Dataset:
        __module__ = "datasets.arrow_dataset"
        format = {"type": "torch", "columns": ["image"]}  # noqa: RUF012
        features = {"image": [[Value()]]}  # noqa: RUF012

    assert nested_columns(Dataset()) == {"image": 2}
