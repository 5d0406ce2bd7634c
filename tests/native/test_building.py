"""Native pieces: built once, whole or not at all, and an error with a remedy where that cannot be."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pipebench.errors import PipebenchError
from pipebench.native import building, region

SOURCE = Path(region.__file__).with_name("region.c")
HEADERS = [path.name for path in SOURCE.parent.glob("*.h")]
USE = "from pipebench.native import region; region.library_name()"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache folder, and no library loaded from another."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PIPEBENCH_CACHE", str(folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(region, "_library", region._library.__wrapped__)
    return folder


def refused(call=region.library_name):
    with pytest.raises(building.NativeError) as caught:
        call()
    return caught.value


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_builds_once_under_a_name_of_source_flags_and_compiler(fresh, monkeypatch, tmp_path):
    assert region.library_name().startswith("libjpeg-turbo ")
    path = building.library_path(SOURCE, ("jpeg",))
    assert list((fresh / "native").iterdir()) == [path]
    built = path.stat().st_mtime_ns
    assert region.library_name() and path.stat().st_mtime_ns == built
    names = {path, building.library_path(SOURCE, ("jpeg", "m"))}
    for name in HEADERS:
        shutil.copy(SOURCE.with_name(name), tmp_path)
    copy = tmp_path / "region.c"
    copy.write_text(SOURCE.read_text() + "\n")
    names.add(building.library_path(copy, ("jpeg",)))
    monkeypatch.setenv("CC", script(tmp_path / "cc", "echo another compiler"))
    names.add(building.library_path(SOURCE, ("jpeg",)))
    assert len(names) == 4


def test_a_change_of_an_included_file_builds_anew(fresh, tmp_path):
    for name in ("region.c", *HEADERS):
        shutil.copy(SOURCE.with_name(name), tmp_path)
    before = building.library_path(tmp_path / "region.c", ("jpeg",))
    assert before.name == building.library_path(SOURCE, ("jpeg",)).name
    with open(tmp_path / "reading.h", "a") as header:
        header.write("\n")
    assert building.library_path(tmp_path / "region.c", ("jpeg",)) != before


def test_processes_may_build_at_once(fresh):
    children = [subprocess.Popen([sys.executable, "-c", USE]) for _ in range(4)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0, 0]
    assert [path.suffix for path in (fresh / "native").iterdir()] == [".so"]


def test_a_library_that_an_upgrade_left_behind_is_built_anew(fresh):
    path = building.library_path(SOURCE, ("jpeg",))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a library")
    assert region.library_name().startswith("libjpeg-turbo ")


def test_no_compiler(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused()
    assert isinstance(error, PipebenchError) and error.code == "no-compiler"
    assert error.problem == "there is no C compiler" and "apt-get install gcc" in error.remedy
    assert refused(lambda: region.decode_and_crop(b"x", (0, 0, 1, 1))).code == "no-compiler"
    monkeypatch.setenv("CC", "nowhere-cc -O1")
    assert "'nowhere-cc', which CC names" in refused().problem


def test_a_compiler_that_does_not_start(fresh, monkeypatch, tmp_path):
    broken = tmp_path / "cc"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert refused().code == "no-compiler" and "does not start" in refused().problem


@pytest.mark.parametrize(
    ("said", "words", "remedy"),
    [
        ("fatal error: jpeglib.h: No such file or directory", "jpeglib.h is missing", "libjpeg62-turbo-dev"),
        ("/usr/bin/ld: cannot find -ljpeg: No such file or directory", "libjpeg is missing", "libjpeg-turbo-devel"),
        ("ld: undefined reference to `jpeg_crop_scanline'", "not libjpeg-turbo", "libjpeg62-turbo-dev"),
        ("cc: error: region.s: No space left on device", "the disk is full", "PIPEBENCH_CACHE"),
        ("region.c:1:1: error: something else", "something else", "messages above"),
    ],
    ids=["header", "library", "IJG's library", "disk", "unknown"],
)  # fmt: skip
def test_what_the_compiler_lacks_is_named(fresh, monkeypatch, tmp_path, said, words, remedy):
    command = f'[ "$1" = --version ] && exit 0\ncat <<"END" >&2\n{said}\nEND\nexit 1'
    monkeypatch.setenv("CC", script(tmp_path / "cc", command))
    error = refused()
    assert error.code == "not-built" and words in error.problem and remedy in error.remedy and said in error.output
    assert list((fresh / "native").iterdir()) == []


def test_a_header_that_is_not_turbos(fresh, monkeypatch, tmp_path):
    (tmp_path / "jpeglib.h").write_text("#include <stddef.h>\n#define JPEG_LIB_VERSION 90\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    error = refused()
    assert error.code == "not-built" and "not libjpeg-turbo" in error.problem and "turbo" in error.remedy


OTHER_LIBRARY = """
#include <stddef.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>
static const char *messages[JMSG_LASTMSGCODE + 1];
struct jpeg_error_mgr *jpeg_std_error(struct jpeg_error_mgr *errors) {
  messages[JMSG_COPYRIGHT] = "Copyright (C) 2022, Thomas G. Lane, Guido Vollbeding";
  errors->jpeg_message_table = messages;
  return errors;
}
void jpeg_CreateDecompress(j_decompress_ptr info, int version, size_t size) {}
void jpeg_destroy_decompress(j_decompress_ptr info) {}
void jpeg_mem_src(j_decompress_ptr info, const unsigned char *data, unsigned long bytes) {}
int jpeg_read_header(j_decompress_ptr info, boolean image) { return 0; }
boolean jpeg_start_decompress(j_decompress_ptr info) { return 0; }
JDIMENSION jpeg_read_raw_data(j_decompress_ptr info, JSAMPIMAGE rows, JDIMENSION count) { return 0; }
JDIMENSION jpeg_read_scanlines(j_decompress_ptr info, JSAMPARRAY rows, JDIMENSION count) { return 0; }
"""
TURBOS_OWN = """
JDIMENSION jpeg_skip_scanlines(j_decompress_ptr info, JDIMENSION count) { return 0; }
void jpeg_crop_scanline(j_decompress_ptr info, JDIMENSION *offset, JDIMENSION *width) {}
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (OTHER_LIBRARY, "undefined symbol"),
        (OTHER_LIBRARY + TURBOS_OWN, "is not libjpeg-turbo: Copyright (C) 2022, Thomas"),
    ],
    ids=["lacks functions", "has another author"],
)
def test_a_library_that_is_not_turbos_when_loaded(fresh, tmp_path, source, words):
    region.library_name()  # built against the right one
    (tmp_path / "other.c").write_text(source)
    (tmp_path / "versions").write_text("LIBJPEG_6.2 { jpeg_*; };\nLIBJPEGTURBO_6.2 { jpeg_mem_src; };\n")
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libjpeg.so.62", "-Wl,--version-script,versions", "other.c"]
    subprocess.run([*command, "-o", "libjpeg.so.62"], cwd=tmp_path, check=True)
    code = (
        "from pipebench.native import building, region\n"
        "try: region.library_name()\n"
        "except building.NativeError as error: print(error.code, error)"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("not-built") and words in said.stdout and "LD_LIBRARY_PATH" in said.stdout


def test_a_cache_that_cannot_be_made(fresh, monkeypatch):
    fresh.write_text("a file, not a folder")
    error = refused()
    assert error.code == "not-built" and str(fresh) in error.problem and "PIPEBENCH_CACHE" in error.remedy


def test_a_read_only_cache(fresh, monkeypatch):
    def mkstemp(**_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    error = refused()
    assert error.code == "not-built" and error.problem.endswith("cannot be written: Read-only file system")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_cache_without_permission(fresh):
    fresh.mkdir(mode=0o555)
    assert "cannot be written: Permission denied" in refused().problem


def test_errors_survive_the_way_back_from_a_worker():
    error = building.NativeError("not-built", "problem", "remedy", "output")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, str(copy), copy.output) == ("not-built", "problem\nremedy", "output")


# A stand-in for pip: it makes what --target names, and writes down the compiler that it was given.
PIP = """
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/PIL"; echo "$CC" > "$2/PIL/Image.py"; echo "Successfully installed $3"
"""


def test_pillow_simd_is_built_beside_pillow(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", PIP))
    monkeypatch.setattr(building, "has_avx2", lambda: True)
    lines = []
    assert building.pillow_simd_folder() is None
    folder = building.build_pillow_simd(lines.append)
    assert folder == building.pillow_simd_folder() and folder.parent == fresh and folder.name.endswith("-avx2")
    assert (folder / "PIL" / "Image.py").read_text() == "cc -mavx2\n"
    assert lines == [f"Successfully installed pillow-simd=={building.PILLOW_SIMD}"]
    assert building.build_pillow_simd(lines.append) == folder and len(lines) == 1
    assert list(fresh.iterdir()) == [folder]


def test_pillow_simd_without_avx2_says_so(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", PIP))
    monkeypatch.setattr(building, "has_avx2", lambda: False)
    lines = []
    folder = building.build_pillow_simd(lines.append)
    assert (folder / "PIL" / "Image.py").read_text() == "cc\n" and folder.name.endswith("-plain")
    assert lines[0] == "this CPU has no AVX2: Pillow-SIMD is built without it"


def test_another_process_may_finish_pillow_simd_first(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(building, "has_avx2", lambda: True)
    target = building._pillow_simd_target()
    faster = f'mkdir -p "{target}/PIL"; echo first > "{target}/PIL/Image.py"'
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", faster + PIP))
    assert (building.build_pillow_simd() / "PIL" / "Image.py").read_text() == "first\n"
    assert list(fresh.iterdir()) == [target]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("The headers or library files could not be found for jpeg,", "headers of libjpeg are missing"),
        ("The headers or library files could not be found for zlib,", "headers of zlib are missing"),
        ("fatal error: Python.h: No such file or directory", "headers of Python are missing"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "the disk is full"),
        ("python: No module named pip", "has no pip"),
        ("NewConnectionError('Failed to establish a new connection: [Errno 101]')", "could not be fetched"),
        ("ERROR: No matching distribution found for pillow-simd==1", "could not be fetched"),
        ("something else", "something else"),
    ],
)
def test_what_pillow_simd_lacks_is_named(fresh, monkeypatch, tmp_path, said, words):
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", f'cat <<"END"\n{said}\nEND\nexit 1'))
    error = refused(building.build_pillow_simd)
    assert error.code == "not-built" and words in error.problem and said in error.output
    assert building.pillow_simd_folder() is None and list(fresh.iterdir()) == []


def test_pillow_simd_without_a_compiler(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(building.build_pillow_simd).code == "no-compiler"


@pytest.mark.long
def test_pillow_simd_is_real(fresh):
    """About a minute, and needs a package index. It imports as PIL from its folder, and has AVX2 where the CPU has."""
    folder = building.build_pillow_simd()
    code = (
        "import PIL, sys; from PIL import Image, features; print(PIL.__file__, PIL.__version__, features.check('jpg'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(folder / "PIL" / "__init__.py"), building.PILLOW_SIMD, "True"]
    if building.has_avx2() and shutil.which("objdump"):
        (library,) = (folder / "PIL").glob("_imaging.*.so")
        listing = subprocess.run(["objdump", "-d", str(library)], capture_output=True, text=True, check=True)
        assert listing.stdout.count("ymm") > 1000
