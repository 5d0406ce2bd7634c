"""Only the crop of a JPEG is decoded: the same samples bit for bit, and what the user's file then reads."""

import ast
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from jpeg_files import Files, seen_with, write
from PIL import Image, ImageFile
from small_worker import fetched, fetcher
from torchvision import transforms as v1
from torchvision.transforms import v2

from pipebench.advise.judging import best
from pipebench.advise.snippet import written
from pipebench.remedies import from_bytes, lookup
from pipebench.results.advice import Finding
from pipebench.stats import Speedup
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Refused, edited, unpacked

FLOATS = v2.ToDtype(torch.float32, scale=True)
FLOATS_OF_PILLOW = v2.Compose([v2.PILToTensor(), FLOATS])
CHAINS = {
    "v1": (v1.RandomResizedCrop(32), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(0.5, 0.2)),
    "v2": (v2.RandomResizedCrop((32, 24), interpolation="bicubic"), v2.ColorJitter(0.3), v2.ToImage(), FLOATS),
    "v2-tensor": (v2.ToImage(), v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), FLOATS),
}
CENTERS = {
    "v1": (v1.Resize(48), v1.CenterCrop(32), v1.ToTensor()),
    "v2": (v2.Resize([60, 70], interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(40), FLOATS_OF_PILLOW),
    "by-number": (v2.Resize(48, interpolation=3), v2.CenterCrop(40), FLOATS_OF_PILLOW),
    "exact": (v2.Resize(48, interpolation=v2.InterpolationMode.NEAREST_EXACT), v2.CenterCrop(40), FLOATS_OF_PILLOW),
    "larger-than-the-image": (v1.Resize(48), v1.CenterCrop(90), v1.ToTensor()),
}  # fmt: skip


@pytest.mark.parametrize("way", ["convert", "with", "open"])
@pytest.mark.parametrize("name", CHAINS)
def test_the_samples_are_the_same_bit_for_bit(name, way, tmp_path):
    dataset, differences = Files(tmp_path, CHAINS[name], way), []
    torch.manual_seed(5)
    plain = [dataset[one] for one in range(4)]
    torch.manual_seed(5)
    (found,) = fetched(dataset, from_bytes.edit(), [[0, 1, 2, 3]], told=differences)
    for one, other in zip(found, plain, strict=True):
        assert type(one[0]) is type(other[0]) and torch.equal(one[0], other[0])
    assert [one.largest for one in differences] == [0.0] and differences[0].values
    assert dataset.transform.transforms == list(CHAINS[name])
    assert "convert" not in vars(type(Image.open(tmp_path / "0.jpg")))


@pytest.mark.parametrize("name", CENTERS)
def test_what_is_left_of_a_resized_image_is_within_two_levels(name, tmp_path):
    dataset, differences = Files(tmp_path, CENTERS[name]), []
    plain = [dataset[one][0] for one in range(4)]
    (found,) = fetched(dataset, from_bytes.edit(exact=False), [[0, 1, 2, 3]], told=differences)
    largest = max(float((one - other).abs().max()) for (one, _), other in zip(found, plain, strict=True))
    assert largest <= 2.01 / 255 and differences[0].largest == pytest.approx(largest)


def test_it_goes_together_with_a_table_for_the_last_transforms(tmp_path):
    dataset = Files(tmp_path, (*CHAINS["v2-tensor"][:2], v2.ToPILImage(), v1.ToTensor(), v1.Normalize(0.5, 0.2)))
    torch.manual_seed(5)
    plain = [dataset[one][0] for one in range(2)]
    for edits in ((from_bytes.edit(), lookup.edit()), (lookup.edit(), from_bytes.edit())):
        torch.manual_seed(5)
        worker, patches = fetcher(dataset), Patches()
        edited(worker, edits, patches)
        found = unpacked(worker.fetch([0, 1]), edits, lambda note: None)
        names = [type(one).__name__ for one in dataset.transform.transforms]
        patches.undo()
        assert names == ["_Counting", "ToPILImage", "ByTable"]
        assert all(torch.equal(one, other) for (one, _), other in zip(found, plain, strict=True))


def test_only_the_crop_is_decoded(tmp_path, monkeypatch):
    import pipebench

    boxes, plain = [], pipebench.decode_and_crop
    monkeypatch.setattr(pipebench, "decode_and_crop", lambda *given: boxes.append(given[1]) or plain(*given))
    fetched(Files(tmp_path, CHAINS["v1"]), from_bytes.edit(), [[0, 1], [2, 3]])
    assert len(boxes) == 2 + 4 and all(one[2] * one[3] <= 0.9 * 163 * 131 for one in boxes)  # 2 to compare


def test_a_reduced_decode_tells_how_far_it_is(tmp_path, monkeypatch):
    entries = (v2.ToImage(), v2.RandomResizedCrop(8, (0.5, 1.0)), FLOATS)
    differences = []
    monkeypatch.setattr(from_bytes, "TOLERANCE", 0.1)  # the images are noise
    fetched(Files(tmp_path, entries), from_bytes.edit(exact=False), [[0, 1, 2, 3]], told=differences)
    assert 0 < differences[0].mean < 0.1 * differences[0].span
    monkeypatch.setattr(from_bytes, "TOLERANCE", 1e-9)
    with pytest.raises(Refused, match="samples-differ"):
        fetched(Files(tmp_path, entries), from_bytes.edit(exact=False), [[0, 1, 2, 3]])


@pytest.mark.parametrize(
    "steps", [(v1.RandomResizedCrop(20),), (v2.RandomResizedCrop((20, 30), interpolation="bicubic"),),
              (v2.RandomResizedCrop(20, interpolation=3),), (v2.ToImage(), v2.RandomResizedCrop(20))],
    ids=["v1", "bicubic", "bicubic-by-number", "tensor"],
)  # fmt: skip
def test_a_reduced_crop_is_not_shifted(steps, tmp_path):
    """Its box begins between reduced pixels. On this slope, a shift of one of 8 pixels would be 4 levels of 255."""
    slope = np.broadcast_to((np.arange(512) / 2).astype(np.uint8), (512, 512))
    Image.fromarray(np.stack([slope, slope.T, slope[::-1].T], -1)).save(tmp_path / "0.jpg", quality=95)
    for seed in range(9):
        found = []
        for exact in (True, False):
            torch.manual_seed(seed)
            crop = from_bytes.CropFromBytes(*steps, exact=exact)
            made = crop(from_bytes.undecoded(tmp_path / "0.jpg"))
            found.append((made.numpy() if isinstance(made, torch.Tensor) else np.asarray(made)).astype(float))
        assert abs(found[0].mean() - found[1].mean()) < 0.5 and abs(found[0] - found[1]).mean() < 0.8


@pytest.mark.parametrize(
    ("entries", "way", "code"),
    [
        (CHAINS["v1"], "decoded", "no-jpegs"), ((v1.RandomHorizontalFlip(), *CHAINS["v1"]), "convert", "no-such-trans"),
        ((v1.CenterCrop(20), v1.Resize(8)), "convert", "no-such-transforms"),
    ],
)  # fmt: skip
def test_it_is_refused_where_no_jpeg_is_cropped_first(entries, way, code, tmp_path):
    with pytest.raises(Refused, match=code):
        fetched(Files(tmp_path, entries, way), from_bytes.edit(), [[0, 1]])


@pytest.mark.parametrize("exact", [True, False])
def test_a_damaged_jpeg_is_what_pillow_makes_of_it(exact, tmp_path, monkeypatch):
    """Scripts that set this flag train on such files."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    write(tmp_path)
    file = tmp_path / "cut.jpg"
    file.write_bytes((tmp_path / "0.jpg").read_bytes()[:-300])
    crop, center = v1.RandomResizedCrop(20), (v1.Resize(48), v1.CenterCrop(32))
    for usual, ours in (((crop,), from_bytes.CropFromBytes(crop, exact=exact)),
                        (center, from_bytes.CenterFromBytes(*center))):  # fmt: skip
        torch.manual_seed(3)
        plain = v1.Compose(usual)(Image.open(file).convert("RGB"))
        torch.manual_seed(3)
        assert np.array_equal(plain, ours(from_bytes.undecoded(file)))


def test_what_is_no_jpeg_goes_the_usual_way(tmp_path):
    dataset = Files(tmp_path, CHAINS["v1"])
    Image.open(tmp_path / "1.jpg").save(tmp_path / "other.png")
    (tmp_path / "other.png").rename(tmp_path / "1.jpg")
    Image.open(tmp_path / "2.jpg").convert("L").save(tmp_path / "2.jpg")
    torch.manual_seed(5)
    plain = [dataset[one][0] for one in range(4)]
    torch.manual_seed(5)
    (found,) = fetched(dataset, from_bytes.edit(), [[0, 1, 2, 3]])
    assert all(torch.equal(one, other) for (one, _), other in zip(found, plain, strict=True))


TEXT = '''"""A script."""
from PIL import Image
from torchvision import transforms as T


class Photos:
    steps = T.Compose([
        T.RandomResizedCrop(224, scale=(0.2, 1)),
        T.ToTensor(),
    ])

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as image:
            return self.steps(image.convert("RGB"))


loader = DataLoader(Photos())
'''
FOLDER = """from torchvision import transforms as T
from torchvision.datasets import ImageFolder

data = ImageFolder(root, T.Compose([T.ToTensor(), T.RandomResizedCrop(9)]))
loader = DataLoader(data)
"""


def _seen(path, text, decode=0.4, crops=("RandomResizedCrop",), **more):
    rows = (("ImageFile.load", "decode", decode), *((one, "transform", 0.2) for one in crops))
    return seen_with(path, text, *rows, **more)


def test_it_is_offered_where_decode_and_crop_are_large(tmp_path):
    path = tmp_path / "train.py"
    change = from_bytes.propose(_seen(path, TEXT), [])
    assert change.predicted == pytest.approx(1 / 0.4) and change.at.line == 8 and not change.discards
    centers = _seen(path, TEXT, crops=("Resize", "CenterCrop"), discards=True)
    assert from_bytes.propose(centers, []).discards and from_bytes.propose(replace(centers, discards=False), []) is None
    for figures in (
        _seen(path, TEXT, decode=0.1), _seen(path, TEXT, crops=("Resize",)), _seen(path, TEXT, wait_share=0.01)
    ):  # fmt: skip
        assert from_bytes.propose(figures, []) is None


def test_a_reduced_decode_comes_first_and_only_if_weights_may_be_spoiled(tmp_path):
    """It saves most. If its samples differ too much, those of a whole decode may not."""
    figures = _seen(tmp_path / "train.py", TEXT)
    exact = Finding(from_bytes.propose(figures, []), "gain", Speedup(1.5, 1.4, 1.6, 0.95))
    assert not exact.change.discards and from_bytes.propose(figures, [exact]) is None
    figures = replace(figures, discards=True)
    change = from_bytes.propose(figures, [])
    assert change.discards and change.edits == {"from_bytes": {"exact": False}} and change.title == from_bytes.REDUCED
    reduced = Finding(change, "gain", Speedup(2.5, 2.4, 2.6, 0.95))
    assert from_bytes.propose(figures, [reduced]) == exact.change
    assert from_bytes.propose(figures, [reduced, exact]) is None
    for reason, then in (("samples-differ", exact.change), ("no-jpegs", None), ("budget", None)):
        assert from_bytes.propose(figures, [replace(reduced, gain=None, reason=reason)]) == then
    assert best([reduced, exact]) == 0 and best([replace(reduced, gain=Speedup(1.52, 1.4, 1.6, 0.95)), exact]) == 1


def test_nothing_is_offered_where_the_piece_in_c_cannot_be_built(tmp_path, monkeypatch):
    from pipebench.native import region
    from pipebench.native.building import NativeError

    def missing():
        raise NativeError("no-compiler", "there is no compiler", "install one")

    monkeypatch.setattr(region, "library_name", missing)
    assert from_bytes.propose(_seen(tmp_path / "train.py", TEXT), []) is None


def test_nothing_is_written_where_an_error_of_the_decode_is_handled(tmp_path):
    """It would be raised by the transform then, and end the training."""
    text = TEXT.replace(
        'with Image.open(self.paths[index]) as image:\n            return self.steps(image.convert("RGB"))',
        'try:\n            image = Image.open(self.paths[index]).convert("RGB")\n        except OSError:\n'
        "            return None\n        return self.steps(image)",
    )
    assert text != TEXT and from_bytes.propose(_seen(tmp_path / "train.py", TEXT), []).rewrites
    assert from_bytes.propose(_seen(tmp_path / "train.py", text), []).rewrites == ()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (TEXT, ("        CropFromBytes(T.RandomResizedCrop(224, scale=(0.2, 1))),",
                "            return self.steps(undecoded(image))")),
        (FOLDER, ("data = ImageFolder(root, T.Compose([CropFromBytes(T.ToTensor(), T.RandomResizedCrop(9))]), "
                  "loader=undecoded)",)),
    ],
    ids=["open", "folder"],
)  # fmt: skip
def test_it_is_written_into_the_users_file(text, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figures = _seen(tmp_path / "train.py", text)
    change = from_bytes.propose(figures, [])
    assert set(lines) <= set(written(figures.made, change).snippet.after)
    (tmp_path / "fix.diff").write_text(written(figures.made, change).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_text()
    compile(after, "train.py", "exec")
    names = {one.name for one in ast.parse(after).body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    assert {"CropFromBytes", "undecoded"} <= names and set(lines) <= set(after.splitlines())
    assert "type: ignore" not in after


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("Image.open", "load").replace(".convert", ".other"),
        TEXT.replace("        T.Random", "        T.RandomHorizontalFlip(), T.Random"),
        TEXT + TEXT,
    ],
    ids=["opened-elsewhere", "cropped-later", "twice"],
)
def test_what_is_not_known_is_not_written(text, tmp_path):
    change = from_bytes.propose(_seen(tmp_path / "train.py", text), [])
    assert change.rewrites == () and "pipebench.RandomResizedCropFromBytes(size, exact=True)" in change.how[0]
