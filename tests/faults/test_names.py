"""Names from data, whatever bytes they have: nothing is lost because of them, and nothing acts on them."""

import json
import os
import random

import every_report
import pytest
from in_memory import encoded
from PIL import Image
from repos import pipebench

from pipebench.render import text
from pipebench.results import report

NAMES = [
    b"caf\xe9.jpg", b"line\nbreak.jpg", b"\x1b[31mred\x1b]0;title\x07.jpg", b"[bold]x[.jpg", b"<script>alert(1)<.jpg",
    b"-rf.jpg", b"a|b`c`*_~.jpg", b"\xe2\x80\xae gpj.exe.jpg", b"\xc2\x9b31m.jpg", b"\xed\xb2\x80.jpg", b"%s{0}.jpg",
    b"n" * 251 + b".jpg",
]  # fmt: skip
SCRIPT = """
import os, torch
from PIL import ImageFile
from PIL import Image
from torch.utils.data import DataLoader, Dataset
ImageFile.LOAD_TRUNCATED_IMAGES = True
class Photos(Dataset):
    def __init__(self): self.paths = sorted(os.scandir(b"photos"), key=lambda one: one.name)
    def __len__(self): return len(self.paths)
    def __getitem__(self, index):
        name = os.fsdecode(self.paths[index].path)
        return torch.tensor(Image.open(name).convert("RGB").size)
if __name__ == "__main__":
    model = torch.nn.Linear(2, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Photos(), batch_size=2, num_workers=1):
        model(batch.float()).sum().backward()
        optimiser.step()
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with an image under each of the names, and every other one cut in half."""
    folder = tmp_path_factory.mktemp("names") / "photos"
    folder.mkdir()
    data = encoded(Image.effect_noise((64, 64), 80).convert("RGB"))
    for number, name in enumerate(NAMES):
        with open(os.fsencode(folder) + b"/" + name, "wb") as image:
            image.write(data[: -1500 if number % 2 else None])
    return folder


def check(*shown):
    """No character of what was shown acts on a terminal, turns text around, or cannot be written as UTF-8."""
    for one in shown:
        one.encode()
        assert all(char.isprintable() for line in one.split("\n") for char in line), one


def check_saved(place, cwd):
    check(place.read_bytes().decode("utf-8"))  # strict: the file is UTF-8
    for style in ("table", "markdown", "json"):
        done = pipebench("show", place, "--format", style, cwd=cwd)
        assert done.returncode == 0, done.stderr
        check(done.stdout)


def test_run_counts_them_and_saves(photos, tmp_path):
    done = pipebench(
        "run", "--data", photos, "--stage", "decode", "--variant", "pillow", "--quick", "--export-json", "r.json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(done.stdout, done.stderr)
    root = json.loads((tmp_path / "r.json").read_text())
    cut = {one["sample"] for one in root["bad_samples"]}
    assert len(cut) == len(NAMES) // 2 and {"line\\nbreak.jpg", "[bold]x[.jpg", "-rf.jpg"} <= cut
    check_saved(tmp_path / "r.json", tmp_path)


def test_watch_keeps_the_whole_report_and_the_trace(photos, tmp_path):
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "train.py").write_text(SCRIPT)
    options = ["--full", "--export-json", "w.json", "--export-trace", "t.json"]
    done = pipebench("watch", *options, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    check(done.stderr)
    slowest = {one["name"] for one in json.loads((tmp_path / "w.json").read_text())["watched"]["slowest"]}
    assert any("\\" in name for name in slowest) and all(name.isprintable() for name in slowest), slowest
    trace = json.dumps(json.loads((tmp_path / "t.json").read_text()), ensure_ascii=False)
    check(trace)
    assert "iteration" in trace and [one for one in (*slowest, "train.py", tmp_path.name) if one in trace] == []
    check_saved(tmp_path / "w.json", tmp_path)


def odd_text(rng):
    """A text of any characters that Python's strings can have, and more often of those that do something."""
    odd = [
        "\x1b[2J",
        "\n",
        "\r",
        "\t",
        "\x00",
        "\x7f",
        "\x9b31m",
        "\u202e",
        "\u2028",
        "\udce9",
        "\ud800",
        "[/x]",
        "{0}",
        "%s",
        "|",
    ]
    return "".join(rng.choice([rng.choice(odd), chr(rng.randrange(0x110000)), "name"]) for _ in range(rng.randrange(9)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", every_report.EXAMPLES)
def test_any_result_with_any_text_can_be_saved_and_shown(name, seed, tmp_path):
    rng = random.Random(f"{name} {seed}")
    found = every_report.changed(every_report.EXAMPLES[name], str, lambda old: odd_text(rng))
    report.save(found, tmp_path / "r.json")
    loaded = report.load(tmp_path / "r.json")
    for shown in (text.table, text.markdown):
        check(shown(found), shown(loaded))
    assert report.encode(loaded) == (tmp_path / "r.json").read_bytes()
