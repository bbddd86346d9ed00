"""What a worker prints is kept, screened, up to so much a second and so much in all."""

import os
from pathlib import Path

import pytest

from drillmaster.run.output import MAX_BYTES_PER_S, MAX_LOG_BYTES, OutputCopy


def test_what_is_printed_is_in_the_log_when_all_writers_are_gone(tmp_path: Path) -> None:
    copy = OutputCopy(tmp_path / "log")
    writer = os.dup(copy.inlet)
    copy.begin()
    os.write(writer, b"up\napi_key=sk-proj-0123456789abcdefghijklmnop\nno newline")
    os.close(writer)
    copy.settle(5)
    log = (tmp_path / "log").read_bytes()
    assert log.startswith(b"up\n") and log.endswith(b"no newline") and b"0123456789" not in log
    copy.close()


def test_an_end_does_not_wait_for_who_holds_the_pipe(tmp_path: Path) -> None:
    copy = OutputCopy(tmp_path / "log")
    writer = os.dup(copy.inlet)
    copy.begin()
    os.write(writer, b"words\n")
    copy.close()
    os.close(writer)
    assert (tmp_path / "log").read_bytes() == b"words\n"


def test_a_flood_is_cut_by_the_second_and_the_cut_is_told(tmp_path: Path) -> None:
    copy = OutputCopy(tmp_path / "log")
    line = b"an ordinary line of words\n" * 4_000
    for _ in range(10):
        copy.take(line, 100.0)
    copy.take(b"the end of a line\ncalm again\n", 101.5)
    copy.end()
    log = (tmp_path / "log").read_bytes()
    before, said, after = log.partition(b"\n(")
    assert said and len(before) <= MAX_BYTES_PER_S and before.endswith(b"words\n")
    lost = 10 * len(line) + len(b"the end of a line\n") - len(before)
    assert after == b"%d bytes cut here: it printed too much)\ncalm again\n" % lost
    copy.close()


@pytest.mark.parametrize("step", [7, 999, 4_096, 65_536])
def test_no_part_of_a_secret_is_left_beside_a_cut(tmp_path: Path, step: int) -> None:
    copy = OutputCopy(tmp_path / "log")
    text = b"api_key=sk-proj-0123456789abcdefghijklmnop some words " * 20_000
    for at in range(0, len(text), step):
        copy.take(text[at : at + step], 1.0 + 3 * at / len(text))
    copy.take(b"\nlast\n", 9.0)
    copy.end()
    log = (tmp_path / "log").read_bytes()
    assert b"56789abc" not in log and log.endswith(b"last\n")
    copy.close()


def test_the_log_has_a_bound_whatever_comes(tmp_path: Path) -> None:
    copy = OutputCopy(tmp_path / "log")
    piece = b"x" * 63 + b"\n"
    for second in range(100):
        copy.take(piece * 4_096, float(second))
    copy.end()
    assert MAX_LOG_BYTES <= (tmp_path / "log").stat().st_size < MAX_LOG_BYTES + 200
    copy.close()


def test_a_secret_that_the_cut_would_halve_is_not_in_the_log(tmp_path: Path) -> None:
    copy = OutputCopy(tmp_path / "log")
    filler = b"w " * ((MAX_BYTES_PER_S - 40) // 2)
    copy.take(filler + b" key=sk-" + b"proj-0123456789abcdefghijklmnop", 5.0)
    copy.end()
    assert b"abcdefgh" not in (tmp_path / "log").read_bytes()
    copy.close()
