"""A module imports only modules listed above it; discovery of the stages by name is the one exception."""

import ast
from pathlib import Path

import pytest

import pipebench

ROOT = Path(pipebench.__file__).parent
ORDER = [
    "errors", "units", "saving", "clock", "stats", "machine", "pagecache", "native", "region",
    "stage", "runner", "measurement", "trying", "measure",
    "recipes", "header", "listing", "datasets",
    "stages", "stages.read", "stages.decode", "stages.crop", "stages.transform", "stages.collate", "stages.transfer",
    "stages.step", "ceilings",
    "guard", "workers", "feed", "live", "training", "loader", "bound",
    "watch", "studies", "calibrate",
    "report", "lab", "render", "render.cells", "render.feeding", "render.study", "render.tables",
    "render.watched", "render.text",
    "abstats", "own", "abchild", "ab", "abtable", "commits", "scaffold", "asvbench", "commands", "cli", "__main__",
]  # fmt: skip
MODULES = sorted(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in ROOT.rglob("*.py"))


def _rank(module):
    """Position in the order; a module of a package that is listed only as a whole shares the package's."""
    name = module.removesuffix(".__init__")
    while name not in ORDER and "." in name:
        name = name.rpartition(".")[0]
    assert name in ORDER, f"{module} has no place in the layers"
    return ORDER.index(name)


def _imports(module):
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pipebench":
            yield from _names(node.module.split(".")[1:], node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name.removeprefix("pipebench.") for one in node.names if one.name.startswith("pipebench."))


def _names(package, aliases):
    """The modules that `from package import aliases` names: a submodule where there is one, else the package itself."""
    for alias in aliases:
        inner = ".".join([*package, alias.name])
        if {inner, inner + ".__init__"} & set(MODULES):
            yield inner
        elif package:
            yield ".".join(package)


@pytest.mark.parametrize("module", [name for name in MODULES if name != "__init__"])
def test_a_module_imports_only_what_is_above_it(module):
    for imported in _imports(module):
        assert _rank(imported) <= _rank(module), f"{module} imports {imported}"


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "py.typed").exists()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_fits_in_400_lines(module):
    lines = (ROOT / (module.replace(".", "/") + ".py")).read_text().count("\n")
    assert lines <= 400, f"{module} has {lines}"
