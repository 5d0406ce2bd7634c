"""Resize by OpenCV gives something up: its difference is told, and it is never the first advice."""

import subprocess
from dataclasses import replace

import pytest
from jpeg_files import Files, seen_with
from made_up_script import MADE, Planted
from small_worker import fetched

from pipebench.advise.conductor import Conductor
from pipebench.advise.snippet import written
from pipebench.remedies import opencv_resize
from pipebench.watch.trial.edits import Refused

TEXT = """steps = T.Compose([T.Resize(20), T.ToTensor()])
loader = DataLoader(data)
"""
RESIZE = ("Resize", "transform", 0.5)


@pytest.mark.parametrize("size", [20, (24, 18)])
def test_the_size_is_that_of_pillow_and_the_difference_is_told(size, tmp_path):
    pytest.importorskip("cv2")
    from torchvision import transforms

    dataset, differences = Files(tmp_path, (transforms.Resize(size), transforms.ToTensor())), []
    plain = [dataset[one][0] for one in range(4)]
    (found,) = fetched(dataset, opencv_resize.edit(), [[0, 1, 2, 3]], told=differences)
    assert [one.shape for one, _ in found] == [one.shape for one in plain]
    assert 0 < differences[0].mean < differences[0].largest < 0.5


def test_it_is_refused_where_no_image_of_pillow_is_resized(tmp_path):
    from torchvision import transforms

    entries = transforms.PILToTensor(), transforms.Resize(20)
    with pytest.raises(Refused, match="no-such-resize"):
        fetched(Files(tmp_path, entries), opencv_resize.edit(), [[0, 1]])


def test_it_is_offered_only_where_weights_may_be_spoiled(tmp_path, monkeypatch):
    figures = seen_with(tmp_path / "train.py", TEXT, RESIZE, discards=True)
    change = opencv_resize.propose(figures, [])
    assert change.discards and change.gives_up and change.predicted == pytest.approx(2.0)
    assert opencv_resize.propose(replace(figures, discards=False), []) is None
    monkeypatch.setattr(opencv_resize.importlib.util, "find_spec", lambda name: None)
    assert opencv_resize.propose(figures, []) is None


def test_it_is_never_the_first_advice(tmp_path):
    figures = seen_with(tmp_path / "train.py", TEXT, RESIZE, discards=True)
    run = Planted(lambda order: 2.0 if order.edits else 1.0, figures, made=MADE)
    conductor = Conductor(run, {"opencv_resize": opencv_resize.propose}, 400)
    conductor.conduct()
    advice = conductor.advice()
    assert [one.outcome for one in advice.findings] == ["gain"] and advice.best is None


def test_it_is_written_into_the_users_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figures = seen_with(tmp_path / "train.py", TEXT, RESIZE, discards=True)
    (tmp_path / "fix.diff").write_text(written(figures.made, opencv_resize.propose(figures, [])).diff)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "train.py").read_text()
    assert "[ResizedByOpenCV(T.Resize(20)), T.ToTensor()]" in after
    compile(after, "train.py", "exec")
