"""Builds the C pieces with the system's compiler on first use, and Pillow-SIMD beside Pillow.

Nothing is built into the environment. A library is stored in `native/` of the cache folder. Its name is a digest of its
sources, its flags and the compiler's version: a change of any of them builds a new library, and two versions of
pipebench do not disturb each other. A library is written under a temporary name and renamed when it is complete, so
two processes may build at once and neither loads half a file. It ends in a digest of what stands before (a loader
ignores what follows the segments of a file): a library that was cut or altered since is built anew, because to load it
would end the process. It is loaded only from a folder that nobody else can change.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pipebench.errors import PipebenchError, remedy_of
from pipebench.host import machine, private
from pipebench.host.whole_files import write_whole

PILLOW_SIMD = "12.1.1.post0"
_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs", "-Wl,-z,now")
_KEPT_LINES = 12
_MOST_BYTES = 64 << 20  # no library of ours is near it
_SEAL = b"\npipebench: sha256 "  # at the end of a library, before the digest

_TURBO = "apt-get install libjpeg62-turbo-dev (Ubuntu: libjpeg-turbo8-dev) or dnf install libjpeg-turbo-devel"
_COMPILER = "apt-get install gcc libc6-dev or dnf install gcc, or name one in the variable CC"
_ELSEWHERE = "free some space, or set PIPEBENCH_CACHE to a folder on another disk"

# What a failing compiler or pip prints, the problem in our words, and the remedy. The first match is used.
_Cause = tuple[tuple[str, ...], str, str]
_CAUSES: tuple[_Cause, ...] = (
    (("No space left on device",), "the disk is full", _ELSEWHERE),
    (
        ("is not that of libjpeg-turbo", "undefined reference to `jpeg_"),
        "the libjpeg here is not libjpeg-turbo",
        _TURBO,
    ),
    (("jpeglib.h: No such file", "'jpeglib.h' file not found"), "the header jpeglib.h is missing", _TURBO),
    (("cannot find -ljpeg", "library 'jpeg' not found"), "the library libjpeg is missing", _TURBO),
)
_PIP_CAUSES: tuple[_Cause, ...] = (
    _CAUSES[0],
    (
        ("could not be found for jpeg", "jpeglib.h: No such file", "RequiredDependencyException: jpeg"),
        "the headers of libjpeg are missing",
        _TURBO,
    ),
    (
        ("could not be found for zlib", "zlib.h: No such file", "RequiredDependencyException: zlib"),
        "the headers of zlib are missing",
        "apt-get install zlib1g-dev or dnf install zlib-devel",
    ),
    (
        ("Python.h: No such file",),
        "the headers of Python are missing",
        "apt-get install python3-dev or dnf install python3-devel",
    ),
    (
        ("No module named pip",),
        "this Python has no pip",
        "python -m ensurepip, or install pip into this environment",
    ),
    (
        ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError",
         "Connection refused", "No matching distribution found"),
        "the package could not be fetched",
        "connect this machine to a package index, or give pip one with PIP_INDEX_URL or PIP_FIND_LINKS",
    ),
)  # fmt: skip


class NativeError(PipebenchError):
    """A native piece that cannot be built here. `code` is the row's skip code, `output` what the tool printed."""

    def __init__(self, code: Literal["no-compiler", "not-built"], problem: str, remedy: str, output: str = "") -> None:
        super().__init__(problem, remedy)
        self.args = (code, problem, remedy, output)  # what a pickled copy is made of
        self.code: Literal["no-compiler", "not-built"] = code
        self.output = output


def load(source: Path, links: Sequence[str], verify: Callable[[ctypes.CDLL], str | None]) -> ctypes.CDLL:
    """The library built from the C file `source` and linked with `links`. Calls through it release the GIL.

    If the cache has no such library, it is built in a fraction of a second. `verify` inspects the loaded library and
    returns what is wrong with it, or None; a library that no longer fits after a system upgrade is built once more.
    Raises `NativeError` where a compiler, a header, a library or a writable folder is missing.
    """
    path = library_path(source, links)
    fresh = not os.path.lexists(path)
    if fresh:
        _compile(source, links, path)
    loaded, wrong = _open(path, verify)
    if loaded is None and not fresh:
        _compile(source, links, path)
        loaded, wrong = _open(path, verify)
    if loaded is None:
        raise NativeError("not-built", f"{path} cannot be used: {wrong}", _load_remedy(wrong))
    return loaded


def library_path(source: Path, links: Sequence[str]) -> Path:
    """The path of the built library of `source`. Raises `NativeError` where there is no compiler."""
    compiler = _compiler()
    parts = (*_texts(source), shlex.join((*_FLAGS, *links)).encode(), _version(compiler))
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    return _trusted("native") / f"{source.stem}-{digest}.so"


def _trusted(name: str) -> Path:
    """A folder of the cache from which code is loaded. Raises `NativeError` if somebody else could change it."""
    try:
        return private.trusted(machine.cache_folder() / name)
    except PipebenchError as error:
        raise NativeError("not-built", error.problem, error.remedy) from error


def _texts(source: Path) -> list[bytes]:
    """The contents of a C file and of our files that it includes, each once for every place that includes it."""
    text = source.read_bytes()
    included = re.findall(rb'^#include "([^"]+)"', text, re.MULTILINE)
    return [text, *(one for name in included for one in _texts(source.with_name(name.decode())))]


def _compiler() -> list[str]:
    """The C compiler's command: `$CC`, else the first of cc, gcc and clang that is found."""
    chosen = shlex.split(os.environ.get("CC", ""))
    for command in [chosen] if chosen else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    problem = f"the compiler {chosen[0]!r}, which CC names, was not found" if chosen else "there is no C compiler"
    raise NativeError("no-compiler", problem, _COMPILER)


def _version(compiler: list[str]) -> bytes:
    try:
        said = subprocess.run([*compiler, "--version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        remedy = remedy_of(error, _COMPILER) if isinstance(error, OSError) else _COMPILER
        raise NativeError("no-compiler", f"the compiler {compiler[0]!r} does not start: {error}", remedy) from error
    return shlex.join(compiler).encode() + b"\0" + said.stdout


def _compile(source: Path, links: Sequence[str], path: Path) -> None:
    command = [*_compiler(), *_FLAGS, str(source)]
    libraries = [f"-l{name}" for name in links]
    with _writable(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=".tmp", dir=path.parent)
        os.close(handle)
        try:
            said = subprocess.run(
                [*command, "-o", name, *libraries],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
            output = said.stdout.decode("utf-8", "replace")
            if said.returncode != 0:
                raise _explained(_CAUSES, f"{source.name} does not compile", output)
            library = Path(name).read_bytes()
            write_whole(path, library + _SEAL + hashlib.sha256(library).digest(), mode=0o700)
        finally:
            Path(name).unlink(missing_ok=True)


def _open(path: Path, verify: Callable[[ctypes.CDLL], str | None]) -> tuple[ctypes.CDLL | None, str]:
    try:
        if not _as_written(path):
            return None, "it is not as it was written"
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        return None, str(error)
    wrong = verify(loaded)
    return (loaded, "") if wrong is None else (None, wrong)


def _as_written(path: Path) -> bool:
    """Whether a library is a whole file of this user, with the content that was written. No link is followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)  # a FIFO does not block
    with open(descriptor, "rb") as file:
        if not private.owned(descriptor) or os.fstat(descriptor).st_size > _MOST_BYTES:
            return False
        library, seal, digest = file.read().rpartition(_SEAL)
    return bool(seal) and hashlib.sha256(library).digest() == digest


def _load_remedy(wrong: str) -> str:
    if "failed to map segment" in wrong or "Permission denied" in wrong:
        return "set PIPEBENCH_CACHE to a folder that is not mounted noexec"
    return f"let the loader find libjpeg-turbo first (LD_LIBRARY_PATH): {_TURBO}"


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Turns an error of the file system into a `NativeError` that names the folder."""
    try:
        yield
    except NativeError:
        raise
    except PipebenchError as error:
        raise NativeError("not-built", error.problem, error.remedy) from error
    except OSError as error:
        remedy = remedy_of(error, "set PIPEBENCH_CACHE to a folder that can be written")
        problem = f"{folder} cannot be written: {error.strerror or error}"
        raise NativeError("not-built", problem, remedy) from error
    except subprocess.TimeoutExpired as error:
        raise NativeError("not-built", f"{error.cmd[0]} did not end in {error.timeout:.0f} s", "try again") from error


def _explained(causes: Sequence[_Cause], problem: str, output: str) -> NativeError:
    """The error for a tool's output: our own words where the cause is known, and always the tool's last lines."""
    last = "\n".join(output.strip().splitlines()[-_KEPT_LINES:])
    for words, cause, remedy in causes:
        if any(word in output for word in words):
            return NativeError("not-built", f"{problem}: {cause}", remedy, last)
    return NativeError("not-built", f"{problem}:\n{last}", "see the messages above", last)


def pillow_simd_folder() -> Path | None:
    """The folder to put first on `sys.path` to import Pillow-SIMD as PIL; None if it is not built."""
    with contextlib.suppress(NativeError):  # `build_pillow_simd` says it
        folder = _pillow_simd_target()
        return folder if (folder / "PIL" / "Image.py").exists() else None
    return None


def build_pillow_simd(progress: Callable[[str], None] = lambda line: None) -> Path:
    """Builds Pillow-SIMD into the cache, beside the environment's Pillow, and returns its folder.

    This takes about a minute and needs a package index, a C compiler and the headers of libjpeg and zlib. Pillow-SIMD
    is built with AVX2 if the CPU has it, else with SSE4 only; then `progress` and the folder's name say so.
    `progress` receives each line that pip prints. Raises `NativeError`, which names what is missing.
    """
    done = pillow_simd_folder()
    if done is not None:
        return done
    target = _pillow_simd_target()
    command = shlex.join(_compiler())
    if has_avx2():
        command += " -mavx2"
    else:
        progress("this CPU has no AVX2: Pillow-SIMD is built without it")
    with _writable(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{target.name}-", suffix=".tmp", dir=target.parent))
        try:
            _pip_install(partial, command, progress)
            _rename_folder(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return target


def has_avx2() -> bool:
    """Whether this CPU has AVX2 (x86 only; from /proc/cpuinfo)."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("flags"):
                return "avx2" in line.split()
    return False


def _pillow_simd_target() -> Path:
    speed = "avx2" if has_avx2() else "plain"
    return _trusted(f"pillow-simd-{PILLOW_SIMD}-{sys.implementation.cache_tag}-{speed}")


def _pip_install(folder: Path, compiler: str, progress: Callable[[str], None]) -> None:
    """Runs pip without its wheel cache, because a cached wheel may have been built with other flags."""
    command = [
        sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-cache-dir",
        "--no-deps", "--no-binary", "pillow-simd", "--target", str(folder), f"pillow-simd=={PILLOW_SIMD}",
    ]  # fmt: skip
    lines = []
    environment = {**os.environ, "CC": compiler, "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            progress(line.rstrip())
    if pip.returncode != 0:
        raise _explained(_PIP_CAUSES, "Pillow-SIMD was not built", "".join(lines))


def _rename_folder(partial: Path, target: Path) -> None:
    """Renames a folder. If the target exists, another process was faster, and its build is kept."""
    partial.chmod(0o755)
    try:
        partial.rename(target)
    except OSError:
        if pillow_simd_folder() is None:
            raise
