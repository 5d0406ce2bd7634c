"""Provides training scripts that others wrote, with their libraries, and checks that the scripts are unchanged.

Scripts come from packages of PyPI or from a source package of Debian. Scripts that are in neither come from checkouts
that the user has made. The SHA-256 of each file is checked before it runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

VISION = ("pytorch-vision", "0.14.1", "ced67e1cf1f97e168cdf271851a4d0b6d382ab7936e7bcbb39aaa87239c324b6")

# torchvision's script has no option for a seed, and torch starts with a random seed. This file sets it in both runs.
SEEDED = """
import importlib.util
import sys


class Seeded:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.manual_seed(0)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Seeded())
"""


class Unavailable(Exception):
    """A script cannot be used on this machine. The message says why."""


def unchanged(path: Path, sha256: str) -> Path:
    """`path`, if the file is the one that its author published. Raises `Unavailable` otherwise."""
    if not path.is_file():
        raise Unavailable(f"there is no {path}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise Unavailable(f"{path} is another version: SHA-256 {found}, not {sha256}")
    return path


def environment(folder: Path, packages: Sequence[str], alone: Sequence[str] = ()) -> Path:
    """A Python that has `packages` and the packages of the current Python, so that torch is not installed twice.

    The packages in `alone` are installed without what they ask for.
    """
    python = folder / "bin" / "python"
    stamp = folder / f"installed-{hashlib.sha256(' '.join((*packages, *alone)).encode()).hexdigest()[:16]}"
    if stamp.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    parent = sysconfig.get_path("purelib")
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "parent.pth").write_text(f"import site; site.addsitedir({parent!r})\n")
    (folder / "seeded").mkdir()
    (folder / "seeded" / "sitecustomize.py").write_text(SEEDED)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{one}=={metadata.version(one)}\n" for one in ("torch", "torchvision")))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", constraints, *packages], check=True)
    if alone:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *alone], check=True)
    stamp.touch()
    return python


def vision(folder: Path) -> Path:
    """The folder of torchvision's references/classification, from Debian's source package."""
    name, version, sha256 = VISION
    scripts = folder / f"{name}-{version}"
    if not scripts.exists():
        shutil.rmtree(folder / "draft", ignore_errors=True)
        (folder / "draft").mkdir(parents=True)
        archive = unchanged(_debian_source(folder / "draft", name, version), sha256)
        with tarfile.open(archive) as opened:
            opened.extractall(folder / "draft", filter="data")
        found = next((folder / "draft").glob("*/references/classification"))
        found.rename(scripts)
        shutil.rmtree(folder / "draft")
    return scripts


def _debian_source(folder: Path, name: str, version: str) -> Path:
    """The upstream archive of a source package. Package lists go into `folder`; those of the system do not change.

    Raises `Unavailable` if it cannot be fetched.
    """
    sources = [*Path("/etc/apt/sources.list.d").glob("*.sources")]
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "sources").mkdir()
    for one in sources:
        lines = one.read_text().replace("Types: deb\n", "Types: deb-src\n")
        if "Types: deb-src" in lines:
            (folder / "sources" / one.name).write_text(lines)
    where = [
        f"Dir::State::lists={folder / 'lists'}", f"Dir::Etc::SourceParts={folder / 'sources'}",
        "Dir::Etc::SourceList=/dev/null", "APT::Sandbox::User=root",
    ]  # fmt: skip
    options = [word for one in where for word in ("-o", one)]
    try:
        subprocess.run(["apt-get", *options, "-qq", "update"], check=True, cwd=folder)
        subprocess.run(
            ["apt-get", *options, "-qq", "source", "--download-only", "--tar-only", f"{name}={version}-2"],
            check=True,
            cwd=folder,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"Debian's source package {name} {version} cannot be fetched: {error}") from error
    return next(folder.glob("*.orig.tar.gz"))


def images(root: Path) -> Path:
    """Makes six classes of small JPEGs, each with eight for training and three for validation. Returns `root`."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(0)
    for split, count in (("train", 8), ("val", 3)):
        for kind in "abcdef":
            folder = root / split / kind
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                coarse = random.normal(128, 40, (12, 16, 3)).clip(0, 255).astype("uint8")
                Image.fromarray(coarse).resize((320, 240)).save(folder / f"{number:02}.jpg", quality=90)
    return root


CONVERSATION = """
import json, pathlib, sys, torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

root = pathlib.Path(sys.argv[1])
(root / "talk").mkdir(parents=True)
lines = [{"text": f"the answer to question {n} is {n * n} and no other number"} for n in range(32)]
(root / "talk" / "train.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
special = ["<unk>", "<s>", "</s>", "<pad>"]
words = Tokenizer(models.WordLevel(unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator([line["text"] for line in lines], trainers.WordLevelTrainer(special_tokens=special))
names = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), special))
PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(root / "model")
torch.manual_seed(0)
size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
size |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": words.get_vocab_size()}
LlamaForCausalLM(LlamaConfig(**size, **ids)).save_pretrained(root / "model")
"""


def conversation(python: Path, root: Path) -> Path:
    """Makes thirty-two sentences, and a language model of 15 thousand weights to tune on them. Returns `root`."""
    subprocess.run([python, "-c", CONVERSATION, root], check=True, capture_output=True, env={**os.environ, **OFFLINE})
    return root


OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
Find = Callable[[], Path]


def installed(python: Path, name: str) -> Path:
    """The path of a file of an installed package. `name` is relative to the folder of packages."""
    return next(python.parent.parent.glob("lib/python*/site-packages")) / name


def weights(folder: Path) -> Iterator[Path]:
    """The saved files that may hold tensors, by their paths in `folder`."""
    kinds = (".pth", ".pt", ".ckpt", ".tar", ".safetensors")
    return (one.relative_to(folder) for one in sorted(folder.rglob("*")) if one.suffix in kinds and one.is_file())
