"""Records over a channel: whole, or known not to be."""

import hashlib
from pathlib import Path

import pytest

from drillmaster.adapters.drill.pieces import PIECE_BYTES, Growing, Received


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_that_grows_comes_over_whole(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    growing, received = Growing(here), Received({"samples": str(there)})
    assert growing.next() is None  # it is not there yet
    for more in (b"a" * (PIECE_BYTES + 7), b"", b"b" * 100):
        with here.open("ab") as file:
            file.write(more)
        while (piece := growing.next()) is not None:
            assert received.take("samples", piece.at, piece.data, piece.sha256) is None
    assert received.differ({"samples": growing.sha256}) is None
    received.close()
    assert there.read_bytes() == here.read_bytes()


def test_a_piece_that_is_missing_came_twice_or_was_altered_is_told(tmp_path: Path) -> None:
    received = Received({"samples": str(tmp_path / "there")})
    assert received.take("samples", 0, b"abc", sha256(b"abc")) is None
    assert received.take("samples", 6, b"ghi", sha256(b"ghi")) == "a piece of its samples from byte 6, and 3 are there"
    assert received.take("samples", 0, b"abc", sha256(b"abc")) == "a piece of its samples from byte 0, and 3 are there"
    assert received.take("samples", 3, b"def", sha256(b"deg")) == "a piece of its samples that is not as it was sent"
    assert received.take("gaps", 0, b"abc", sha256(b"abc")) == "a piece of its gaps from byte 0, and 0 are there"
    received.close()
    assert (tmp_path / "there").read_bytes() == b"abc"  # nothing of them is in the file


def test_an_end_that_did_not_come_is_told(tmp_path: Path) -> None:
    received = Received({"samples": str(tmp_path / "one"), "gaps": str(tmp_path / "two")})
    assert received.take("samples", 0, b"abc", sha256(b"abc")) is None
    assert received.differ({"samples": sha256(b"abc"), "gaps": sha256(b"")}) is None
    assert (
        received.differ({"samples": sha256(b"abcd"), "gaps": sha256(b"")})
        == "its samples are not here as it wrote them"
    )
    assert received.differ({"samples": sha256(b"abc")}) == "its gaps are not here as it wrote them"
    received.close()


def test_records_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        Received({"samples": str(tmp_path / "there")})
