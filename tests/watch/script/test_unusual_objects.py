"""Objects of the script that allow less, or do more, than most: its loaders give what they give without us."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils.data import DataLoader, Dataset

from pipebench import watching


@dataclasses.dataclass(frozen=True)
class BadSample(Exception):
    """Its traceback cannot be assigned."""

    message: str


class Failing(Dataset[int]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise BadSample("the fifth")
        if index == 9:
            try:
                raise BadSample("the ninth")
            except BadSample as error:
                raise ValueError("a reason that is frozen") from error
        return index


def test_an_exception_that_is_frozen_reaches_the_loop() -> None:
    found: list[Any] = []
    with watching():
        batches = iter(DataLoader(Failing(), batch_size=4, num_workers=1, multiprocessing_context="fork"))
        for _ in range(3):
            try:
                found.append(next(batches).tolist())
            except (BadSample, ValueError) as error:
                found.append(type(error))
                assert "pipebench" not in str(error)
    assert found == [[0, 1, 2, 3], BadSample, ValueError]
