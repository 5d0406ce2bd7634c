"""Another decoder in place of Pillow's: who is asked, what is measured first, and what the user's file then reads."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from jpeg_files import Files, seen_with, write
from made_up_script import MADE, Planted
from PIL import Image, ImageOps
from small_worker import fetched

from pipebench.advise.conductor import Conductor
from pipebench.advise.snippet import written
from pipebench.remedies import decoders, files
from pipebench.results.advice import Change, Finding
from pipebench.results.batches import SlowSample
from pipebench.watch.trial.edits import Refused

TEXT = """import os
from PIL import Image


def load(path):
    return Image.open(path).convert("RGB")


class Photos:
    def __getitem__(self, path):
        return load(path)


loader = DataLoader(data)
"""
DECODE = ("ImageFile.load", "decode", 0.6)


class Clock:
    """Seconds that pass only when a decoder says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds, result=None):
        def decode(image):
            self.now += seconds
            if isinstance(result, Exception):
                raise result

        return decode


def _chain():
    from torchvision import transforms

    return transforms.Resize(20), transforms.ToTensor()


@pytest.fixture(autouse=True)
def forgotten():
    decoders._faster.cache_clear()


@pytest.mark.parametrize("name", ["simplejpeg", "torchvision", "torchcodec"])
@pytest.mark.parametrize("way", ["convert", "with"])
def test_the_samples_are_those_of_pillow_within_the_tolerance(name, way, tmp_path):
    pytest.importorskip(name)
    dataset, differences = Files(tmp_path, _chain(), way), []
    plain = [dataset[one][0] for one in range(4)]
    (found,) = fetched(dataset, decoders.edit(name, exact=False), [[0, 1, 2, 3]], told=differences)
    largest = max(float((one - other).abs().max()) for (one, _), other in zip(found, plain, strict=True))
    assert differences[0].largest == pytest.approx(largest) and differences[0].mean <= decoders.TOLERANCE
    assert "convert" not in vars(type(Image.open(tmp_path / "0.jpg")))


@pytest.mark.parametrize("name", ["simplejpeg", "torchvision", "torchcodec"])
def test_what_pillow_makes_of_damaged_data_and_of_what_a_camera_noted_is_kept(name, tmp_path):
    pytest.importorskip(name)
    write(tmp_path)
    data = (tmp_path / "0.jpg").read_bytes()
    (tmp_path / "damaged.jpg").write_bytes(data[:-40] + bytes(38) + data[-2:])
    noted = Image.Exif()
    noted[0x0112] = 6  # a quarter turn
    Image.open(tmp_path / "0.jpg").save(tmp_path / "turned.jpg", exif=noted)
    for way, file in ((lambda image: image, "damaged.jpg"), (lambda image: image, "turned.jpg"),
                      (ImageOps.exif_transpose, "turned.jpg")):  # fmt: skip
        usual = way(Image.open(tmp_path / file).convert("RGB"))
        found = way(decoders._WRITTEN[name](tmp_path / file))
        apart = abs(np.asarray(found).astype(float) - np.asarray(usual))
        assert found.size == usual.size and apart.mean() <= 255 * decoders.TOLERANCE


def test_a_decoder_that_gives_other_pixels_is_refused_or_its_difference_is_told(tmp_path, monkeypatch):
    def brighter(by):
        return lambda image: image.copy().point(lambda value: min(255, value + by))

    dataset = Files(tmp_path, _chain())
    for by, exact, refused in ((0, True, False), (1, True, True), (1, False, False), (40, False, True)):
        monkeypatch.setitem(decoders._WRITTEN, "simplejpeg", brighter(by))
        differences = []
        try:
            fetched(dataset, decoders.edit("simplejpeg", exact), [[0, 1]], told=differences)
        except Refused as error:
            assert refused and str(error) == "samples-differ"
        else:
            assert not refused and differences[0].largest == pytest.approx(by / 255, abs=1e-6)


def test_speed_ups_are_measured_in_turn_and_one_that_fails_has_none(tmp_path):
    write(tmp_path)
    clock = Clock()
    encoded = [(tmp_path / "0.jpg").read_bytes()] * 2
    slow = Image.Image.convert

    def convert(self, *given):
        clock.now += 0.004
        return slow(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image.Image, "convert", convert)
        ways = {"twice": clock.takes(0.002), "half": clock.takes(0.008), "broken": clock.takes(1, OSError("no"))}
        assert decoders.speedups(encoded, ways, clock) == {"twice": pytest.approx(2.0), "half": pytest.approx(0.5)}


def test_large_images_have_fewer_rounds(tmp_path):
    write(tmp_path)
    clock, encoded = Clock(), [(tmp_path / "0.jpg").read_bytes()] * 3
    decode = clock.takes(0.5)
    asked = []
    found = decoders.speedups(encoded, {"slow": lambda image: asked.append(1) or decode(image)}, clock)
    assert found == {"slow": 0.0} and len(asked) == 1 + 3 * decoders.LEAST_ROUNDS


def _seen(path, slow=(), measures=True, **more):
    figures = seen_with(path, TEXT, DECODE, **more)
    names = tuple(SlowSample(str(one), 1, 0, 0.1) for one in slow)
    return replace(figures, watched=replace(figures.watched, slowest=names), measures=measures)


def test_only_a_decoder_that_is_faster_on_the_users_own_files_is_offered(tmp_path, monkeypatch):
    write(tmp_path)
    asked = []
    monkeypatch.setattr(decoders, "speedups", lambda data, ways: asked.append((len(data), set(ways))) or gains)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)  # all are installed
    gains = {"simplejpeg": 2.0, "torchvision": 0.9}
    figures = _seen(tmp_path / "train.py", [tmp_path / "1.jpg"])
    change = decoders.propose(figures, [])
    assert asked == [(4, {"simplejpeg", "torchvision", "torchcodec"})]
    assert change.predicted == pytest.approx(1 / (1 - 0.6 / 2)) and change.title == "decoding with simplejpeg"
    tried = [Finding(change, "no-gain")]
    assert decoders.propose(figures, tried) is None and len(asked) == 1
    assert decoders.propose(replace(figures, discards=True), tried) is None
    differed = [replace(tried[0], reason="samples-differ")]
    gains["torchvision"] = 1.9
    decoders._faster.cache_clear()
    other = decoders.propose(figures, differed)
    assert other.edits == {"decoders": {"name": "torchvision", "exact": True}}
    assert decoders.propose(figures, [*differed, Finding(other, "not-tried", reason="budget")]) is None
    differed.append(Finding(other, "not-tried", reason="samples-differ"))
    again = decoders.propose(replace(figures, discards=True), differed)
    assert again.discards and again.edits == {"decoders": {"name": "simplejpeg", "exact": False}}
    assert decoders.propose(figures, differed) is None


def test_it_is_measured_before_the_first_trial_only(tmp_path, monkeypatch):
    """Until then its limit is assumed. What is not faster costs no trial; what may gain more is tried before."""
    write(tmp_path)
    figures = _seen(tmp_path / "train.py", [tmp_path / "1.jpg"], measures=False)
    figures = replace(figures, settings={**figures.settings, "num_workers": 2})
    gains, measured = {"simplejpeg": 0.9}, []
    monkeypatch.setattr(decoders, "speedups", lambda data, ways: measured.append(run.clock) or gains)
    change = decoders.propose(figures, [])
    assert change.rough and change.title == decoders.OTHER and change.predicted == pytest.approx(1 / 0.8)

    def more(seen, tried):
        return None if tried else Change("more", {"num_workers": 4}, predicted=1.4)

    run = Planted(lambda order: 1.0, figures, made=MADE)
    conductor = Conductor(run, {"decoders": decoders.propose, "more": more}, 400)
    conductor.conduct()
    assert [one.change.remedy for one in conductor.findings] == ["more"] and len(measured) == 1 and measured[0] > 12
    decoders._faster.cache_clear()
    slow = replace(figures, loader=replace(figures.loader, s_per_iteration=10.0))
    short = Conductor(Planted(lambda order: 1.0, slow, made=MADE), {"decoders": decoders.propose}, 60)
    short.conduct()
    assert len(measured) == 1 and short.findings[0].reason == "budget" and short.findings[0].change.rough


def test_nothing_is_measured_where_it_could_bring_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(decoders, "speedups", None)  # a call would fail
    for figures in (
        _seen(tmp_path / "train.py", wait_share=0.01), _seen(tmp_path / "train.py"),
        _seen(tmp_path / "train.py", ["17", tmp_path / "train.py"]),
    ):  # fmt: skip
        assert decoders.propose(figures, []) is None
    monkeypatch.setattr(decoders.importlib.util, "find_spec", lambda name: None)
    write(tmp_path)
    assert decoders.propose(_seen(tmp_path / "train.py", [tmp_path / "1.jpg"]), []) is None


def test_files_are_spread_over_the_folder_of_the_slow_ones(tmp_path):
    for number in range(20):
        (tmp_path / f"class-{number % 4}").mkdir(exist_ok=True)
        (tmp_path / f"class-{number % 4}" / f"{number:02}.jpg").write_bytes(b"\xff\xd8\xff" if number else b"no")
    slow = [tmp_path / "class-1" / "01.jpg", tmp_path / "class-3" / "03.jpg"]
    figures = _seen(tmp_path / "train.py", slow)
    found = files.jpegs(figures, 5)
    assert len(found) == 4 and len({one.split("class-")[1][0] for one in found}) == 4  # one of five is no JPEG
    assert files.folder_of(_seen(tmp_path / "train.py", [])) == ""


def test_no_file_system_is_searched_whole(tmp_path, monkeypatch):
    """Samples of two discs have only the root in common, and a folder may hold much besides JPEGs."""
    monkeypatch.setattr(files, "_is_jpeg", lambda name: True)
    assert files.folder_of(_seen(tmp_path / "train.py", ["/one/0.jpg", "/two/0.jpg"])) == ""
    monkeypatch.setattr(files, "_LOOKED_AT", 30)
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(20):
            (tmp_path / folder / f"{number}.{'jpg' if folder == 'c' else 'txt'}").touch()
    assert files.jpegs(_seen(tmp_path / "train.py", [tmp_path / "a" / "0.jpg", tmp_path / "c" / "0.jpg"]), 5) == ()


def test_it_is_written_into_the_users_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    monkeypatch.setattr(decoders, "speedups", lambda data, ways: {"simplejpeg": 2.0})
    figures = _seen(tmp_path / "train.py", [tmp_path / "1.jpg"])
    change = decoders.propose(figures, [])
    assert written(figures.made, change).snippet.after == ("    return decoded_by_simplejpeg(Image.open(path))",)
    (tmp_path / "fix.diff").write_text(written(figures.made, change).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_text()
    pytest.importorskip("simplejpeg")
    space = {"DataLoader": list, "data": ()}
    exec(compile(after, "train.py", "exec"), space)
    found, plain = space["load"](tmp_path / "1.jpg"), Image.open(tmp_path / "1.jpg").convert("RGB")
    assert found.size == plain.size and found.mode == "RGB" and "type: ignore" not in after
    assert space["decoded_by_simplejpeg"](tmp_path / "1.jpg").size == plain.size
