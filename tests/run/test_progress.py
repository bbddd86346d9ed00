"""What a person sees while a drill runs."""

import io
import os
import termios

import pytest

from drillmaster.run.progress import Lossy, Plain, Step, Terminal, bar, large, progress_for


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_plain_lines_come_at_each_change_and_about_every_ten_seconds() -> None:
    out, clock = io.StringIO(), Clock()
    plain = Plain(out, clock)
    plain.phase("baseline", 600)
    for _ in range(25):
        clock.now_s += 1
        plain.tick("baseline", 600 - clock.now_s, {"http 503": 1, "ok": 3}, 2)
    assert out.getvalue().splitlines() == [
        "phase baseline, 10 min",
        "baseline 09:50 left  ok 3  http 503 1  in flight 2",
        "baseline 09:40 left  ok 3  http 503 1  in flight 2",
    ]


def test_plain_output_has_no_control_characters() -> None:
    out = io.StringIO()
    plain = Plain(out)
    plain.injected("2026-11-29T15:40:02.123Z", "reset")
    plain.phase("fault", None)
    assert out.getvalue().replace("\n", "").isprintable()
    assert "2026-11-29T15:40:02.123Z" in out.getvalue()


def test_a_terminal_writes_one_line_over_and_clears_it_for_the_next() -> None:
    out = io.StringIO()
    terminal = Terminal(out, colour=False)
    terminal.tick("fault", 61.4, {}, 0)
    terminal.tick("fault", 60.4, {"ok": 1}, 0)
    terminal.line("note")
    terminal.line("another")
    assert out.getvalue() == (
        "\r\x1b[Kfault 01:01 left  no answer yet  in flight 0\r\x1b[Kfault 01:00 left  ok 1  in flight 0\r\x1b[Knote\nanother\n"
    )


@pytest.mark.parametrize("colour", [True, False])
def test_the_injection_is_in_large_type_and_coloured_only_where_wanted(colour: bool) -> None:
    out = io.StringIO()
    Terminal(out, colour=colour).injected("2026-11-29T15:40:02.123Z", "hang")
    assert sum("█" in line for line in out.getvalue().splitlines()) == 5
    assert ("\x1b[1;31m" in out.getvalue()) is colour


def test_large_type_is_five_rows_of_one_width() -> None:
    rows = large("01:23:45Z 6789")
    assert len(rows) == 5 and len({len(row) for row in rows}) == 1
    assert rows[0].startswith("███")


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_terminal_that_went_away_does_not_end_the_drill() -> None:
    for progress in (Plain(Gone()), Terminal(Gone(), colour=True)):
        progress.line("x")
        progress.injected("2026-11-29T15:40:02.123Z", "reset")
        progress.tick("fault", None, {}, 1)


def test_a_file_gets_plain_lines() -> None:
    assert type(progress_for(io.StringIO())) is Plain


def test_a_pipe_that_nobody_reads_loses_lines_and_says_how_many() -> None:
    reader, writer = os.pipe()
    try:
        plain = Plain(Lossy(writer))
        for number in range(2_000):
            plain.line(f"line {number} " + "x" * 100)
        os.set_blocking(reader, False)
        first = b""
        while len(piece := _read(reader)):
            first += piece
        plain.line("the last")
        assert first.startswith(b"line 0 ") and b"line 1999" not in first
        said = _read(reader).decode()
        assert "lines of progress found no room here)\nthe last\n" in said
    finally:
        os.close(reader)
        os.close(writer)


def test_a_terminal_that_was_stopped_does_not_hold_the_drill_up() -> None:
    master, slave = os.openpty()
    try:
        out = os.fdopen(os.dup(slave), "w")
        progress = progress_for(out)
        termios.tcflow(slave, termios.TCOOFF)  # what Ctrl-S does
        for number in range(500):
            progress.line(f"line {number}")
        termios.tcflow(slave, termios.TCOON)
        progress.line("goes on")
        os.set_blocking(master, False)
        assert b"goes on" in _read(master)
        out.close()
    finally:
        os.close(master)
        os.close(slave)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return b""


STEP = Step("warm_c4", 0.25, 62.0, 0.0634, 0, 15, 4)


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (100, "warm_c4 [######------------------] 01:02 left  p95 63.4 ms  errors 0 of 15  in flight 4"),
        (79, "warm_c4 [####------------] 01:02 left  p95 63.4 ms  errors 0 of 15  in flight 4"),
        (70, "warm_c4 [#####---------------] 01:02 left  p95 63.4 ms  errors 0 of 15"),
        (52, "warm_c4 [##------] 01:02 left  p95 63.4 ms  errors 0"),
        (44, "warm_c4 [#----] 01:02  p95 63.4 ms  errors 0"),
        (39, "warm_c4 25% 01:02 p95 63.4 ms errors 0"),
        (20, "warm_c4 25% 01:02 p9"),
    ],
)
def test_a_step_of_an_interview_fits_its_terminal(columns: int, line: str) -> None:
    assert bar(STEP, columns) == line
    assert len(line) <= columns


def test_before_anybody_can_tell_the_bar_is_empty_and_there_is_no_countdown() -> None:
    line = bar(Step("warm_c1", None, None, None, 0, 0, 1), 79)
    assert line == "warm_c1 [------------------------] p95 none yet  errors 0 of 0  in flight 1"


@pytest.mark.parametrize("ratio", [-1.0, 0.0, 1.0, 7.0])
def test_a_bar_is_as_long_whatever_its_ratio(ratio: float) -> None:
    assert len(bar(STEP._replace(done_ratio=ratio), 79)) == len(bar(STEP, 79))


def test_on_a_terminal_a_step_is_written_over_and_failures_are_red_there_alone() -> None:
    out = io.StringIO()
    Terminal(out, colour=True).step(STEP._replace(failed=3))
    assert out.getvalue().startswith("\r\x1b[Kwarm_c4 [") and "\x1b[1;31merrors 3\x1b[0m of 15" in out.getvalue()
    out = io.StringIO()
    Terminal(out, colour=False).step(STEP._replace(failed=3))
    assert out.getvalue().count("\x1b") == 1


def test_elsewhere_a_step_is_a_plain_line_every_ten_seconds() -> None:
    now_s = [0.0]
    out = io.StringIO()
    plain = Plain(out, now_s=lambda: now_s[0])
    for now_s[0] in (1.0, 9.9, 10.0, 12.0, 20.0):
        plain.step(STEP)
    line = "warm_c4 25% done 01:02 left  p95 63.4 ms  errors 0 of 15  in flight 4\n"
    assert out.getvalue() == 2 * line
