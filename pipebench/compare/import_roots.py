"""The folders of a checkout that its installation would put on the import path, and the modules that lie in them."""

from __future__ import annotations

import ast
import configparser
import contextlib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

INSTALLED = ".pipebench-installed"  # in a checkout that must be built: where it is built and installed
COMPILING = ("maturin", "scikit_build_core", "mesonpy", "py_build_cmake")  # build backends
WRITTEN = (  # what pyproject.toml has below `tool` if building compiles or writes modules
    ("setuptools", "ext-modules"), ("setuptools-rust", "ext-modules"), ("poetry", "build"),
    ("hatch", "build", "hooks"), ("hatch", "build", "targets", "wheel", "hooks"),
    ("setuptools_scm", "version_file"), ("setuptools_scm", "write_to"), ("pdm", "version", "write_to"),
)  # fmt: skip
NOT_LOOKED_UP = frozenset({"console_scripts", "gui_scripts", "pytest11"})  # entry points that no data pipeline looks up
NOT_IMPORTED = frozenset({"setup", "conftest", "noxfile", "tasks"})  # programs that lie beside a project's packages


def import_roots(folder: Path, named: Sequence[str] = ()) -> tuple[Path, ...]:
    """The import roots of the project in `folder`, the most specific first; `folder` itself is the last.

    They are the folder into which it was built and installed, if it was, and then those that the user `named`; or those
    that the project's build configuration declares (setuptools, hatch, poetry, pdm, maturin, scikit-build, uv); or
    `src` if modules lie in it. What leads out of `folder` is left out.
    """
    built = [INSTALLED] if (folder / INSTALLED).is_dir() else []
    wanted = list(named) or list(_declared(folder)) or (["src"] if names_in([folder / "src"]) else [])
    top = folder.resolve()
    found = [(folder / one) for one in [*built, *wanted] if (folder / one).resolve().is_relative_to(top)]
    return tuple(dict.fromkeys([one for one in found if one.is_dir() and one.resolve() != top] + [folder]))


def must_be_built(folder: Path) -> bool:
    """Whether the files of the project in `folder` are not all that its installation has.

    It is so if it has compiled modules, or modules that building writes, such as one with the version. It is so too if
    it has entry points: an installed copy would be asked for them, and that copy may be of another commit.
    """
    tables, setup = _tables(folder / "pyproject.toml"), _keywords(folder / "setup.py")
    backend = str(_table(tables, "build-system").get("build-backend", ""))
    written = any(_table(tables, "tool", *place[:-1]).get(place[-1]) for place in WRITTEN)
    made = any(keyword.arg in ("ext_modules", "cffi_modules", "rust_extensions") for keyword in setup)
    points = {*_table(tables, "project", "entry-points"), *_table(tables, "tool", "poetry", "plugins")}
    points |= {*_section(folder / "setup.cfg", "options.entry_points"), *_literal(setup, "entry_points")}
    return backend.startswith(COMPILING) or written or made or bool(points - NOT_LOOKED_UP)


def names_in(roots: Sequence[Path]) -> frozenset[str]:
    """The top-level modules in these folders: packages with an `__init__.py`, Python files and compiled modules.

    In a folder called `src` a package needs no `__init__.py`.
    """
    found = set()
    for root in roots:
        for entry in root.iterdir() if root.is_dir() else ():
            name = entry.name.partition(".")[0]
            module = entry.suffix in (".py", ".so") or (entry / "__init__.py").is_file()
            module = module or (root.name == "src" and any(entry.rglob("*.py")))
            if module and name.isidentifier() and name not in NOT_IMPORTED:
                found.add(name)
    return frozenset(found)


def plain_folders_in(roots: Sequence[Path]) -> frozenset[str]:
    """The folders in these that have Python files and no `__init__.py`.

    Python joins such a package from all places that have a folder of its name, so another checkout may complete it.
    """
    entries = [entry for root in roots if root.is_dir() for entry in root.iterdir() if entry.name.isidentifier()]
    plain = [one for one in entries if one.is_dir() and not (one / "__init__.py").exists()]
    return frozenset(one.name for one in plain if any(any(one.glob(part)) for part in ("*.py", "*/*.py")))


def _declared(folder: Path) -> Iterator[str]:
    tool = _table(_tables(folder / "pyproject.toml"), "tool")
    yield from _of_setuptools(_table(tool, "setuptools"))
    yield from _of_setup_cfg(folder / "setup.cfg")
    yield from _of_setup_py(folder / "setup.py")
    wheel = _table(tool, "hatch", "build", "targets", "wheel")
    packages = [*_texts(wheel.get("packages")), *_texts(_table(tool, "scikit-build", "wheel").get("packages"))]
    yield from (str(Path(one).parent) for one in packages)
    yield from _texts(wheel.get("sources"))
    found = tool.get("poetry")
    included = found.get("packages", []) if isinstance(found, dict) else []
    yield from (str(one["from"]) for one in included if isinstance(one, dict) and "from" in one)
    for keys in (("pdm", "build", "package-dir"), ("maturin", "python-source"), ("uv", "build-backend", "module-root")):
        yield from _texts(_table(tool, *keys[:-1]).get(keys[-1]))


def _of_setuptools(settings: dict[str, Any]) -> Iterator[str]:
    yield from _of_package_dir(settings.get("package-dir"))
    yield from _texts(_table(settings, "packages", "find").get("where"))


def _of_setup_cfg(path: Path) -> Iterator[str]:
    lines = _section(path, "options").get("package_dir", "").splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line]
    yield from _of_package_dir({name.strip(): place.strip() for name, _, place in pairs})
    yield from _section(path, "options.packages.find").get("where", "").split()


def _section(path: Path, name: str) -> dict[str, str]:
    """The values of a section of setup.cfg; none if it does not have the section."""
    parser = configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        if path.is_file():
            parser.read(path, encoding="utf-8")
    return dict(parser[name]) if parser.has_section(name) else {}


def _of_setup_py(path: Path) -> Iterator[str]:
    """The literal `package_dir` of a setup.py."""
    yield from _of_package_dir(_literal(_keywords(path), "package_dir"))


def _literal(keywords: Sequence[ast.keyword], name: str) -> dict[str, Any]:
    """The mapping that a keyword has; empty if it is computed. The proof after arming says what was imported."""
    found: dict[str, Any] = {}
    for keyword in (one for one in keywords if one.arg == name):
        with contextlib.suppress(ValueError):
            found |= _table(ast.literal_eval(keyword.value))
    return found


def _keywords(path: Path) -> list[ast.keyword]:
    """The keywords of all calls in a Python file, which is read and not executed."""
    if not path.is_file():
        return []
    try:
        calls = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
    except (OSError, ValueError, SyntaxError):
        return []
    return [keyword for call in calls for keyword in call.keywords]


def _of_package_dir(mapping: Any) -> Iterator[str]:
    """The roots in a mapping from packages to folders; the key "" stands for all packages."""
    for name, place in mapping.items() if isinstance(mapping, dict) else ():
        if not name:
            yield str(place)
        elif Path(str(place)).name == name:
            yield str(Path(str(place)).parent)


def _tables(path: Path) -> dict[str, Any]:
    if not path.is_file():  # to read a pipe could take for ever
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _table(within: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        within = within.get(key) if isinstance(within, dict) else None
    return within if isinstance(within, dict) else {}


def _texts(found: Any) -> list[str]:
    many = found if isinstance(found, list) else [found]
    return [one for one in many if isinstance(one, str)]
