import errno
import os
import socket
from pathlib import Path

import msgspec
import pytest

from drillmaster.errors import Problem
from drillmaster.intake import _unreadable, read_bytes, read_strict


class Small(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    a: int


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.json", '{"a":1}'), ("x.yaml", "a: 1"), ("x.yml", "a: 1"), ("x.toml", "a = 1"), ("X.JSON", '{"a":1}')],
)
def test_the_suffix_says_the_format(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert read_strict(tmp_path / name, Small) == Small(1)


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":1}')
    (tmp_path / "l.json").symlink_to("x.json")
    assert read_strict(str(tmp_path / "l.json"), Small) == Small(1)


def refused(path: Path | str, cap_bytes: int = 100) -> Problem:
    with pytest.raises(Problem) as caught:
        read_strict(path, Small, cap_bytes=cap_bytes)
    assert caught.value.remedy
    return caught.value


def test_a_folder_a_pipe_a_socket_and_a_device_are_refused_and_nothing_hangs(tmp_path: Path) -> None:
    (tmp_path / "d.json").mkdir()
    os.mkfifo(tmp_path / "f.json")
    (tmp_path / "n.json").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.json"))
        assert refused(tmp_path / "s.json").found == "a socket"
    assert refused(tmp_path / "d.json").found == "a folder"
    assert refused(tmp_path / "f.json").found == "a named pipe"
    assert refused(tmp_path / "n.json").found == "a device"
    for name in ("d.json", "f.json", "n.json"):
        with pytest.raises(Problem):
            read_bytes(tmp_path / name, 100)


def test_a_file_that_is_not_there_gets_a_near_miss_or_a_look_at_the_folder(tmp_path: Path) -> None:
    (tmp_path / "eviction.yaml").write_text("a: 1")
    assert refused(tmp_path / "evicton.yaml").remedy == f"Did you mean {tmp_path / 'eviction.yaml'}?"
    assert refused(tmp_path / "eviction").remedy == f"Did you mean {tmp_path / 'eviction.yaml'}?"
    assert refused(tmp_path / "eviction.yml").remedy == f"Did you mean {tmp_path / 'eviction.yaml'}?"
    assert refused(tmp_path / "other.json").remedy.startswith("correct the path: ls ")
    assert "there is no folder" in refused(tmp_path / "none" / "x.json").remedy


def test_links_that_lead_nowhere_or_in_a_circle_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "gone.json").symlink_to("never.json")
    (tmp_path / "a.json").symlink_to("b.json")
    (tmp_path / "b.json").symlink_to("a.json")
    assert "a link to never.json, which is gone" in refused(tmp_path / "gone.json").remedy
    assert refused(tmp_path / "a.json").found == "links that lead in a circle"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", "an empty path"),
        ("a\0b.json", "a zero character in the path"),
        ("x" * 300 + ".json", "a path that is too long"),
        (f"{__file__}/x.json", "a file where the path needs a folder"),
    ],
)
def test_a_path_that_cannot_be_one_is_refused(path: str, found: str) -> None:
    assert refused(path).found == found


def test_another_suffix_is_refused_with_those_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.ini").write_text("a=1")
    (tmp_path / "x").write_text("a=1")
    assert refused(tmp_path / "x.ini").found == "the suffix .ini"
    assert refused(tmp_path / "x").found == "a name without a suffix"
    assert refused(tmp_path / "x").wanted == "one of .json, .yaml, .yml, .toml"


def test_a_file_over_the_cap_is_refused_and_one_at_the_cap_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a":1}' + " " * 93)
    assert read_strict(path, Small, cap_bytes=100) == Small(1)
    assert refused(path, cap_bytes=99).found == "100 bytes"
    assert len(read_bytes(path, 100)) == 100


def test_a_sparse_giant_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refused(path).found == f"{1 << 40:,} bytes"


def test_a_file_that_may_not_be_read_names_the_command() -> None:
    # Root may read everything, so the system's answer is handed in.
    raised = _unreadable("my x.json", PermissionError(errno.EACCES, "Permission denied"))
    assert raised.found == "a file that you may not read"
    assert raised.remedy == "chmod u+r 'my x.json'"


def test_an_error_of_the_disk_is_told_in_the_systems_words() -> None:
    assert "Input/output error" in _unreadable("x.json", OSError(errno.EIO, "Input/output error")).found


def test_what_is_wrong_inside_has_the_path_and_the_pointer(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: off\n")
    assert str(refused(path)) == (f'{path}:1: /a: found text "off", wanted a whole number; change the value of a')
