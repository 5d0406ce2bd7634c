"""Which folders can be trusted, on every kind of way to them."""

import os
import stat

import pytest

from pipebench.errors import PipebenchError
from pipebench.host import private


def test_a_folder_of_ours_is_trusted_also_below_one_that_all_may_use_and_before_it_exists(tmp_path):
    tmp_path.chmod(0o1777)  # as /tmp
    assert private.trusted(tmp_path / "cache" / "native") == tmp_path / "cache" / "native"
    (tmp_path / "cache").mkdir(mode=0o755)
    assert private.trusted(tmp_path / "cache") == tmp_path / "cache"


def test_the_sticky_bit_does_not_help_the_folder_itself(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(PipebenchError, match="can be changed by everybody"):
        private.trusted(tmp_path)


def test_where_a_link_leads_is_looked_at_and_where_it_lies(tmp_path):
    for name in ("real", "links"):
        (tmp_path / name / "cache").mkdir(parents=True)
    (tmp_path / "links" / "here").symlink_to(tmp_path / "real" / "cache")
    assert private.trusted(tmp_path / "links" / "here")
    for name in ("real", "links"):
        (tmp_path / name).chmod(0o777)
        with pytest.raises(PipebenchError, match=f"{name} can be changed by everybody"):
            private.trusted(tmp_path / "links" / "here")
        (tmp_path / name).chmod(0o755)


def test_each_link_of_a_chain_is_looked_at(tmp_path):
    for name in ("real", "between"):
        (tmp_path / name).mkdir()
    (tmp_path / "between" / "second").symlink_to("../real")
    (tmp_path / "first").symlink_to("between/second")
    assert private.trusted(tmp_path / "first") and private.trusted(tmp_path / "first" / "native")
    (tmp_path / "between").chmod(0o777)
    with pytest.raises(PipebenchError, match="between can be changed by everybody"):
        private.trusted(tmp_path / "first")
    (tmp_path / "loop").symlink_to("loop")
    assert private.trusted(tmp_path / "loop")  # whoever makes a folder there hears of it


def test_a_link_of_another_user_can_be_turned_to_another_folder(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    known = os.lstat
    theirs = os.stat_result([*known(tmp_path / "link")[:4], 4242, *known(tmp_path / "link")[5:]])
    monkeypatch.setattr(os, "lstat", lambda path, **more: theirs if str(path).endswith("link") else known(path, **more))
    with pytest.raises(PipebenchError, match="link belongs to user 4242"):
        private.trusted(tmp_path / "link")


@pytest.mark.parametrize(("alone", "refused"), [(True, False), (False, True)])
def test_a_group_may_write_if_it_has_no_other_member(tmp_path, monkeypatch, alone, refused):
    tmp_path.chmod(0o775)
    monkeypatch.setattr(private, "_alone_in", lambda group: alone)
    try:
        assert private.trusted(tmp_path) and not refused
    except PipebenchError as error:
        assert refused and "can be changed by its group" in error.problem


def test_a_group_of_ones_own_is_told_from_a_shared_one(monkeypatch):
    def known(name, members):
        return type("Group", (), {"gr_name": name, "gr_mem": members})

    me = private.pwd.getpwuid(os.geteuid()).pw_name
    for group, alone in [((me, []), True), ((me, [me]), True), (("users", [me]), False), ((me, [me, "eve"]), False)]:
        monkeypatch.setattr(private.grp, "getgrgid", lambda number, group=group: known(*group))
        assert private._alone_in(7) is alone


def test_an_open_file_is_ours_only_if_nobody_else_may_write_it(tmp_path):
    file = tmp_path / "library.so"
    file.write_bytes(b"")
    for mode, expected in [(0o700, True), (0o644, True), (0o666, False)]:
        file.chmod(mode)
        with open(file) as opened:
            assert private.owned(opened.fileno()) is expected
    reading, writing = os.pipe()
    assert not private.owned(reading) and stat.S_ISFIFO(os.fstat(reading).st_mode)
    os.close(reading), os.close(writing)
