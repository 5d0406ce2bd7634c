"""Recipes make the same bytes for the same index, with the size, the bits per pixel and the companions they state."""

import io
import json
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from pipebench.data import synthetic
from pipebench.data.datasets import manifests

FOLDER = manifests()
PHOTOGRAPHS = FOLDER / "photographs"


def manifest(name, **changes):
    return tomllib.loads((FOLDER / f"{name}.toml").read_text()) | changes


def maker(name, **changes):
    return synthetic.maker(synthetic.read_recipe(manifest(name, **changes), PHOTOGRAPHS))


@pytest.mark.parametrize("name", ["tiny", "synthetic"])
def test_an_index_gives_the_same_bytes_however_many_are_made_and_in_whatever_order(name):
    first = maker(name)
    again = maker(name)
    forwards = [first(index) for index in range(4)]
    backwards = [again(index) for index in reversed(range(4))]
    assert forwards == backwards[::-1]


def test_samples_differ_from_one_another_and_between_seeds():
    make = maker("tiny")
    images = {make(index).members["jpg"] for index in range(12)}
    assert len(images) == 12
    assert maker("tiny", seed=99)(0).members["jpg"] not in images


@pytest.mark.parametrize("name", ["photos", "tiny", "synthetic"])
def test_images_have_the_stated_size_and_are_subsampled(name):
    image = Image.open(io.BytesIO(maker(name)(1).members["jpg"]))
    assert list(image.size) == manifest(name)["sizes"][0]
    assert image.layer[0][1:3] == (2, 2), "4:2:0"


def test_every_class_of_the_photographs_comes_up():
    make = maker("tiny")
    made = [make(index) for index in range(8)]
    assert [sample.label for sample in made[:4]] == manifest("tiny")["photographs"]
    assert [sample.members["cls"] for sample in made] == [b"0", b"1", b"2", b"3"] * 2


def test_web_images_vary_in_size_and_carry_caption_and_metadata():
    make = maker("web")
    made = [make(index).members for index in range(7)]
    sizes = {Image.open(io.BytesIO(members["jpg"])).size for members in made}
    assert len(sizes) > 2
    for members in made:
        assert list(members) == ["jpg", "json", "txt"]
        facts = json.loads(members["json"])
        assert (facts["width"], facts["height"]) == Image.open(io.BytesIO(members["jpg"])).size
        assert facts["caption"] == members["txt"].decode()
        assert facts["author"] and facts["licence"] and facts["source"]


def test_a_photograph_that_is_too_small_is_scaled_up():
    image = Image.open(io.BytesIO(maker("tiny", sizes=[[2400, 1600]])(0).members["jpg"]))
    assert image.size == (2400, 1600)


def test_every_photograph_has_its_licence_author_and_origin():
    photographs = synthetic.read_photographs(PHOTOGRAPHS)
    assert set(photographs) == {path.stem for path in PHOTOGRAPHS.glob("*.jpg")}
    for photograph in photographs.values():
        assert photograph.title and photograph.author and photograph.source
        assert photograph.licence.startswith(("CC0-1.0", "Public domain"))


def test_the_photographs_stay_small_and_carry_no_metadata():
    paths = list(PHOTOGRAPHS.glob("*.jpg"))
    assert sum(path.stat().st_size for path in paths) < 6_000_000
    for path in paths:
        with Image.open(path) as image:
            assert (1300 <= image.width <= 2300) and image.height >= 800
            assert not image.getexif() and "icc_profile" not in image.info


def test_the_photographs_of_web_are_large():
    for name in manifest("web")["photographs"]:
        with Image.open(PHOTOGRAPHS / f"{name}.jpg") as image:
            assert image.width >= 1600 and image.height >= 1200


def test_manifests_name_only_photographs_that_are_there():
    known = set(synthetic.read_photographs(PHOTOGRAPHS))
    for path in Path(FOLDER).glob("*.toml"):
        assert set(manifest(path.stem).get("photographs", ())) <= known
