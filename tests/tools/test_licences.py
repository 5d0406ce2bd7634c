"""The page of licences names each package of the project, with what the installed package states."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import licences

LISTED = licences.listed()


def test_each_package_is_listed_with_what_it_is_for_and_no_other():
    assert {name: purpose for name, (purpose, _) in LISTED.items()} == licences.wanted()


def test_what_is_installed_states_the_listed_licence():
    found = {name: licences.licence(name) for name in licences.wanted()}
    assert found["msgspec"] == "BSD-3-Clause" and licences.licence("no-such-package") is None
    unlisted = {name: _terms(one) - _terms(LISTED[name][1]) for name, one in found.items() if one is not None}
    assert {name: one for name, one in unlisted.items() if one} == {}  # versions of a package bundle more or less


def _terms(licence):
    return set(licence.split(" AND "))
