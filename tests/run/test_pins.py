"""What somebody does to a live run's files is noticed: one row for each way."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.evidence import SealedFile
from drillmaster.run.pins import Pins


@pytest.fixture
def pins(tmp_path: Path) -> Iterator[Pins]:
    (tmp_path / "events").mkdir()
    (tmp_path / "events/a.jsonl").write_text("one\n")
    pins = Pins(tmp_path)
    pins.hold("events/a.jsonl")
    yield pins
    pins.close()


def _replaced(path: Path) -> None:
    path.unlink()
    path.write_text("one\ntwo\n")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked(path: Path) -> None:
    path.rename(path.with_suffix(".old"))
    path.symlink_to(path.with_suffix(".old"))


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (Path.unlink, "was taken away"),
        (_replaced, "another file"),
        (_fifo, "no regular file"),
        (_linked, "no regular file"),
        (lambda path: os.truncate(path, 1), "was cut from 4 to 1 bytes"),
        (lambda path: path.parent.rename(path.parent.with_name("elsewhere")), "was taken away"),
    ],
)
def test_each_way_to_take_evidence_away_is_named(
    pins: Pins, tmp_path: Path, deed: Callable[[Path], object], said: str
) -> None:
    assert pins.complaint() is None
    deed(tmp_path / "events/a.jsonl")
    complaint = pins.complaint()
    assert complaint is not None and "events/a.jsonl" in complaint and said in complaint


def test_a_file_that_grows_is_well_and_may_not_shrink_to_what_it_was(pins: Pins, tmp_path: Path) -> None:
    path = tmp_path / "events/a.jsonl"
    path.write_text("one\ntwo\n")
    assert pins.complaint() is None
    os.truncate(path, 4)
    assert pins.complaint() is not None


def test_a_file_that_is_not_there_is_not_held(pins: Pins) -> None:
    with pytest.raises(Problem):
        pins.hold("events/b.jsonl")


def test_a_seal_that_ends_before_the_last_line_does_not_cover_the_run(pins: Pins) -> None:
    def sealed(size: int) -> SealedFile:
        return SealedFile(sha256="0" * 64, bytes=size, lines=1, blocks=())

    assert pins.uncovered({}) is not None
    assert pins.uncovered({"events/a.jsonl": sealed(3)}) is not None
    assert pins.uncovered({"events/a.jsonl": sealed(4)}) is None
