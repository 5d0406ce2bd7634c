"""Writes `docs/licences.md`: the licence of each package that pipebench needs or can use, as the package states it.

python tools/licences.py
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
PAGE = ROOT / "docs" / "licences.md"
UNSTATED = "not stated in its metadata"
LONGEST = 40  # characters: longer texts are the licence itself
HEAD = """# Licences

pipebench is under the [MIT licence](../LICENSE). It bundles no code of others; `pip` installs these packages. The
licences are those that the packages state in their metadata. `python tools/licences.py` makes this page.

| package | for | licence |
|---|---|---|
"""


def wanted():
    """The packages of `pyproject.toml`, each with what it is for: "all", or the extra that has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [("all", one) for one in project["dependencies"]]
    listed += [(extra, one) for extra, names in project["optional-dependencies"].items() for one in names]
    found = {}
    for purpose, requirement in listed:
        name = re.match(r"[\w.-]+", requirement)[0]
        if name != "pipebench":
            found.setdefault(name, purpose)
    return found


def licence(name):
    """The licence of an installed package; None if it is not installed."""
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if expression := facts.get("License-Expression"):
        return expression
    stated = (facts.get("License") or "").strip()
    if stated and len(stated) <= LONGEST and "\n" not in stated:
        return stated
    kinds = [one.split(" :: ")[-1] for one in facts.get_all("Classifier") or [] if one.startswith("License ::")]
    return ", ".join(kinds) or UNSTATED


def listed():
    """What the page says of each package: what it is for, and its licence."""
    text = PAGE.read_text() if PAGE.exists() else ""
    rows = re.findall(r"^\| ([\w.-]+) \| ([\w-]+) \| (.+) \|$", text, re.MULTILINE)
    return {name: (purpose, told) for name, purpose, told in rows if name != "package"}


def page():
    """The page. Of a package that is not installed here, it keeps what it said."""
    known = listed()
    rows = [
        f"| {name} | {purpose} | {licence(name) or known.get(name, ('', 'not installed here'))[1]} |"
        for name, purpose in wanted().items()
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written\n")
