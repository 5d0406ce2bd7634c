"""Data is never code: a pickle in a shard stays bytes, and only what our own processes send is unpickled."""

import ast
import io
import pickle
import re
import tarfile
from pathlib import Path

from in_memory import encoded
from PIL import Image

import pipebench
from pipebench.check import decoding, whole
from pipebench.data import datasets

PACKAGE = Path(pipebench.__file__).parent
# Each gets its bytes from a process that pipebench started, through a pipe or a file of its own without a name.
OUR_OWN_PIPES = {"compare/asv_suites.py", "compare/round_process.py", "compare/server.py", "lab/fresh.py", "runner.py"}
# A worker checks its own batch, and gives it to its own script, as torch does.
WITHIN_THE_SCRIPT = {"remedies/in_one_tensor.py"}
# And copies of torch's functions, and what is written from the script's own dataset.
RUNS_THE_SCRIPT = {"watch/launch/bootstrap.py", "watch/record/patches.py", "watch/trial/indexing.py"}
EVALUATES, UNPICKLES = {"eval", "exec"}, {"pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load", "numpy.load"}


class Bomb:
    """Whoever unpickles it makes a folder."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return Path.mkdir, (self.place,)


def test_a_pickle_in_a_shard_stays_bytes(tmp_path):
    image, place = encoded(Image.new("RGB", (8, 8))), tmp_path / "unpickled"
    bomb = pickle.dumps(Bomb(place))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for suffix, data in {"jpg": image, **dict.fromkeys(("pyd", "pth", "pickle"), bomb)}.items():
            member = tarfile.TarInfo(f"0.{suffix}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    listed = datasets.load(str(tmp_path / "a.tar"))
    found, _ = whole.check(listed, decoding.installed(("pillow",)), lambda done, total, what: None)
    assert len(listed.samples) == 1 and found and not place.exists()
    pickle.loads(bomb)
    assert place.exists()  # it would have been seen


def calls(places):
    """The files of the package in which one of these functions is called."""
    anywhere = re.compile("|".join(rf"\b{re.escape(one)}\(" for one in places))
    texts = {file: file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    return {
        str(file.relative_to(PACKAGE))
        for file, text in texts.items()
        if anywhere.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in places
    }


def test_only_what_our_own_processes_send_is_unpickled_and_nothing_is_evaluated():
    assert calls(UNPICKLES) == OUR_OWN_PIPES | WITHIN_THE_SCRIPT
    assert calls(EVALUATES) == RUNS_THE_SCRIPT
