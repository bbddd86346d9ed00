"""Kills on the disk: whole, or refused."""

from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.flags.kills import Killed, read_kills, write_kills

ONE = Killed(capability="refund", by="bea", why="INC-1", at="2026-12-01T09:00:00Z")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kills.json"
    assert read_kills(path) == ()
    write_kills(path, (ONE,))
    assert read_kills(path) == (ONE,)
    assert path.stat().st_mode & 0o777 == 0o600
    write_kills(path, ())
    assert read_kills(path) == ()
    assert [one.name for one in tmp_path.iterdir()] == ["kills.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"kind":"kills","version":1}',
        b'{"kind":"kills","version":1,"killed":[],"killed":[]}',
        b"\x00" * 40,
    ],
)
def test_a_file_that_is_torn_or_foreign_is_refused_and_not_taken_for_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kills.json"
    path.write_bytes(content)
    with pytest.raises(Problem):
        read_kills(path)


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kills.json").symlink_to("elsewhere")
    with pytest.raises(Problem):
        read_kills(tmp_path / "kills.json")


def test_a_folder_that_takes_nothing_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_kills(tmp_path / "none" / "kills.json", (ONE,))
