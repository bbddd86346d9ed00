"""Logs and files as they change."""

import os
from pathlib import Path

import pytest

from drillmaster.detectors.watching import MAX_LINE_BYTES, FileWatch, LogTail, refuse_odd
from drillmaster.errors import Problem


def add(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_lines_count_from_the_end_on_and_half_of_an_old_one_does_not(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    add(log, "old\nhalf")
    tail = LogTail(log)
    add(log, " of it\nnew\nto be ")
    assert list(tail.new()) == ["new"]
    add(log, "continued\n")
    assert list(tail.new()) == ["to be continued"]
    assert list(tail.new()) == []
    tail.close()


def test_a_log_that_comes_later_counts_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    tail = LogTail(log)
    assert list(tail.new()) == []
    add(log, "one\n")
    assert list(tail.new()) == ["one"]
    tail.close()


def test_a_moved_log_is_read_to_its_end_then_the_new_one(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    add(log, "")
    tail = LogTail(log)
    add(log, "last of the old\n")
    log.rename(tmp_path / "app.log.1")
    add(log, "first of the new\n")
    assert list(tail.new()) == ["last of the old", "first of the new"]
    add(log, "second\n")
    assert list(tail.new()) == ["second"]
    tail.close()


def test_a_moved_log_with_nothing_in_its_place_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    add(log, "")
    tail = LogTail(log)
    log.rename(tmp_path / "app.log.1")
    add(tmp_path / "app.log.1", "late\n")
    assert list(tail.new()) == ["late"]
    tail.close()


def test_a_log_that_was_cut_short_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    add(log, "a longer first line\n")
    tail = LogTail(log)
    os.truncate(log, 0)
    add(log, "after\n")
    assert list(tail.new()) == ["after"]
    tail.close()


def test_a_line_that_never_ends_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    tail = LogTail(log)
    add(log, "x" * (MAX_LINE_BYTES + 1))
    assert list(tail.new()) == []
    add(log, "still the same\nnext\n")
    assert list(tail.new()) == ["next"]
    tail.close()


def test_bytes_that_are_no_text_break_nothing(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    tail = LogTail(log)
    log.write_bytes(b"\xff\xfe alert\n")
    assert list(tail.new()) == ["\ufffd\ufffd alert"]
    tail.close()


def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(Problem, match="regular file"):
            refuse_odd(tmp_path / name, "app")
    tail = LogTail(tmp_path / "fifo")
    assert list(tail.new()) == []
    refuse_odd(tmp_path / "not there", "app")


def test_a_file_that_appears_fires_and_is_over_when_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "alert"
    watch = FileWatch(path, on_change=False)
    assert watch.new() is None
    add(path, "x")
    assert watch.new() == ("firing", path.stat().st_mtime_ns)
    add(path, "y")
    assert watch.new() is None
    path.unlink()
    assert watch.new() == ("resolved", 0)


def test_a_file_that_was_there_before_is_an_alert_of_before(tmp_path: Path) -> None:
    path = tmp_path / "alert"
    add(path, "x")
    watch = FileWatch(path, on_change=False)
    assert watch.new() is not None


def test_a_file_that_changes_fires_each_time(tmp_path: Path) -> None:
    path = tmp_path / "alert"
    add(path, "x")
    watch = FileWatch(path, on_change=True)
    assert watch.new() is None
    add(path, "y")
    assert watch.new() is not None
    assert watch.new() is None
    path.unlink()
    assert watch.new() is None
