"""The colours of pictures: words in them and on them have the contrast that small text needs (WCAG 2.2, 1.4.3)."""

import re

import pytest

from pipebench.render import pictures
from pipebench.render.pictures.sheet import on

NEEDED = 4.5


def parts(colour):
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def light(colour):
    """The relative luminance."""
    shares = [one / 255 for one in colour]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def themes():
    """The variables of the style, light and dark."""
    found = re.findall(r":root\{(.*?)\}", pictures.CSS)
    return [{name: parts(value) for name, value in re.findall(r"--c(\S+?):(#\w{6})", one)} for one in found[:2]]


@pytest.mark.parametrize("theme", [0, 1])
def test_words_can_be_read_on_bars_and_in_the_colour_of_a_series(theme):
    colours = themes()[theme]
    share = pictures.INKED / 100
    for name in map(str, range(len(pictures.SERIES))):
        assert contrast(colours[name], colours["-" + on(name)]) >= NEEDED, name
        mixed = [share * one + (1 - share) * ink for one, ink in zip(colours[name], colours["-ink"], strict=True)]
        assert contrast(mixed, colours["-page"]) >= NEEDED, name
    assert f"text.f0{{fill:color-mix(in srgb,var(--c0) {pictures.INKED}%,var(--c-ink))}}" in pictures.CSS
