"""A file appears whole or not at all, and no link in its way is written through."""

import pytest
from ferry_tools.temporary_file import replacing


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_its_block_ends_well(tmp_path):
    with replacing(tmp_path / "x") as file:
        file.write(b"new")
        assert len(names(tmp_path)) == 1 and not (tmp_path / "x").exists()
    assert names(tmp_path) == ["x"] and (tmp_path / "x").read_bytes() == b"new"

    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "x") as file:
        raise KeyboardInterrupt
    assert names(tmp_path) == ["x"] and (tmp_path / "x").read_bytes() == b"new"


def test_a_link_in_the_way_is_not_written_through(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "x.tmp").symlink_to("victim")
    (tmp_path / "x").symlink_to("victim")
    with replacing(tmp_path / "x") as file:
        file.write(b"new")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / "x").read_bytes() == b"new"


def test_what_a_dead_writer_left_is_removed_and_a_living_ones_is_not(tmp_path):
    (tmp_path / "x.tmp0123abcd").write_text("left behind")
    (tmp_path / "x.tmpnotes").write_text("not ours")
    with replacing(tmp_path / "x") as first, replacing(tmp_path / "x") as second:
        assert len(names(tmp_path)) == 3
        first.write(b"first")
        second.write(b"second")
    assert names(tmp_path) == ["x", "x.tmpnotes"] and (tmp_path / "x").read_bytes() == b"first"
