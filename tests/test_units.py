"""Numbers and names as text, exactly."""

import os
import shutil
import subprocess

import pytest

from pipebench import units


def test_a_column_has_one_scale_set_by_its_smallest_value():
    scale = units.seconds_scale([0.0012, 2.5])
    assert [scale.text(value) for value in (0.0012, 2.5)] == ["1.20 ms", "2,500 ms"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.00 s"), (3.0, "3.00 s"), (0.0421, "42.1 ms"), (19e-6, "19.0 µs"), (216e-9, "216 ns"), (1e-10, "0.10 ns")],
)
def test_seconds(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.1 - 1e-16, "100 ms"), (9.996, "10.0 s"), (9.994, "9.99 s")])
def test_what_rounds_up_to_a_power_of_ten_has_no_digit_more(value, text):
    assert units.seconds(value) == text


def test_sizes_and_rates_are_decimal():
    assert (units.size(105_000), units.rate(13.5e9)) == ("105 kB", "13.5 GB/s")
    assert units.count_scale([1640]).text(1640) == "1.64 k"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.jpg", "plain.jpg"),
        ("Überraschung €.jpg", "Überraschung €.jpg"),
        (b"caf\xe9.jpg", "caf\\xe9.jpg"),
        ("caf\udce9.jpg", "caf\\xe9.jpg"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("[/x].jpg", "[/x].jpg"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("tab\there", "tab\\there"),
    ],
)
def test_names_from_data_are_inert(name, text):
    assert units.printable(name) == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ((110_000.0, 2.071, 0.468), "110 kB each, 2.07 ± 0.47 bits a pixel"),
        ((110_000.0, 2.071, None), "110 kB each, 2.07 bits a pixel"),
        ((None, None, None), "none of which could be read"),
    ],
)
def test_what_is_not_known_of_the_images_is_left_out(facts, text):
    assert units.of_images(*facts) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((10.0, 8.0, 12.0), "±20 %"),
        ((10.0, 5.5, 15.5), "±50 %"),
        ((10.0, 2.5, 40.0), "×÷4"),
        ((10.0, 1.0, 40.0), "×÷10"),
        ((10.0, 0.0, 40.0), "unknown"),
        ((0.0, 0.0, 0.0), ""),
    ],
)
def test_an_interval_that_reaches_far_is_a_factor(interval, text):
    assert units.width(*interval) == text


@pytest.mark.skipif(shutil.which("bash") is None, reason="the words are for bash")
@pytest.mark.parametrize(
    "word",
    [
        "train.py",
        "my train.py",
        "a\nb.py",
        "it's\t\\n.py",
        "a\u0085b\u202ec.py",
        os.fsdecode(b"a\xffb\n.py"),
        "$x\x1b[1m",
    ],
)
def test_a_quoted_word_names_the_same_file_in_a_shell(word):
    assert units.quoted(word).isprintable()
    done = subprocess.run(
        ["bash", "-c", f"printf %s {units.quoted(word)}"], capture_output=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout == os.fsencode(word)
