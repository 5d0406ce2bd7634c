"""What the text of the user's files says of a call: whether it makes other loaders too, and who needs its value."""

import ast

import pytest

from pipebench.remedies.source import Source

LOOPS = """
loaders = {}
for name, part in parts.items():
    loaders[name] = DataLoader(part, 8)
"""
ANEW = """
for epoch in range(9):
    loader = DataLoader(data, 8)
    for batch in loader:
        train(batch)
"""
YIELDED = """
def folds():
    for part in parts:
        yield DataLoader(part)
"""
APPENDED = """
for part in parts:
    loaders.append(DataLoader(part))
"""
ITERATED = """
for epoch in range(9):
    for step, batch in enumerate(tqdm(DataLoader(data, 8))):
        train(batch)
"""
TYPED = """
for epoch in range(9):
    loader: DataLoader = DataLoader(data, 8)
"""
FOLDS = """
def run(fold):
    loader = DataLoader(data, 8)

for fold in range(5):
    run(fold)
"""
IN_A_FUNCTION = """
def made(part):
    return DataLoader(part)

for batch in made(data):
    train(batch)
"""


def _source(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    return Source(str(path))


def _call(source, name):
    return next(one for one in source.nodes(ast.Call) if ast.unparse(one.func).endswith(name))


@pytest.mark.parametrize(
    ("text", "several"),
    [
        (LOOPS, True), (YIELDED, True), (APPENDED, True), (ANEW, False), (ITERATED, False), (TYPED, False),
        (FOLDS, False), (IN_A_FUNCTION, False),
    ],
)  # fmt: skip
def test_a_loop_that_keeps_what_a_call_makes_makes_several_loaders(text, several, tmp_path):
    source = _source(tmp_path, text)
    assert source.repeats(_call(source, "DataLoader")) is several


SKIPPING = """
class Photos:
    def __getitem__(self, index):
        try:
            image = Image.open(self.paths[index]).convert("RGB")
        except OSError:
            return self[index + 1]
        return self.steps(image)
"""
IN_ANOTHER = """
def load(path):
    return Image.open(path).convert("RGB")

class Photos:
    def __getitem__(self, index):
        try:
            image = load(self.paths[index])
        except OSError:
            return self[index + 1]
        return self.steps(image)
"""
CLOSING = SKIPPING.replace(
    "except OSError:\n            return self[index + 1]", "finally:\n            self.count += 1"
)
KEEPING = """
class Photos:
    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = Image.open(self.paths[index]).convert("RGB")
        return self.steps(self.kept[index])
"""


@pytest.mark.parametrize(
    ("text", "handled", "kept"),
    [(SKIPPING, True, False), (IN_ANOTHER, True, False), (CLOSING, False, False), (KEEPING, False, True)],
)
def test_where_errors_are_handled_or_the_image_is_kept_it_must_be_decoded(text, handled, kept, tmp_path):
    """Decoded later, by a transform, a truncated file would end the training, or each pass would decode anew."""
    source = _source(tmp_path, text)
    call = _call(source, "convert")
    assert (source.handles_errors(call), source.keeps(call)) == (handled, kept)


@pytest.mark.parametrize(
    ("before", "call", "of"),
    [
        ("from torchvision.datasets import ImageFolder", "ImageFolder(root)", True),
        ("from torchvision.datasets import ImageFolder as Folder", "Folder(root)", True),
        ("import torchvision.datasets as sets", "sets.ImageFolder(root)", True),
        ("import torchvision", "torchvision.datasets.ImageFolder(root)", True),
        ("from torchvision import datasets", "datasets.ImageFolder(root)", True),
        ("from compressai.datasets import ImageFolder", "ImageFolder(root)", False),
        ("class ImageFolder: ...", "ImageFolder(root)", False),
        ("from .torchvision import ImageFolder", "ImageFolder(root)", False),
    ],
)
def test_a_name_is_of_the_package_from_which_the_file_imports_it(before, call, of, tmp_path):
    source = _source(tmp_path, f"{before}\ndata = {call}\n")
    assert source.is_of(source.nodes(ast.Call)[-1].func, "torchvision") is of
