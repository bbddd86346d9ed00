"""What a person sees of an interview: a bar on a terminal of any width, plain lines in a pipe."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.e2e.interviewlab import Lab, answer, interviewing, server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

WORDS = ("--levels", "1,4", "--warm", "24", "--idle", "0.6", "--open", "20:1")


def _on_a_terminal(lab: Lab, columns: int, *words: str) -> str:
    """Interview on a terminal so wide, and give all that was written to it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "drillmaster", "interview", *words],
        cwd=lab.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = b""
    try:
        with contextlib.suppress(OSError):  # the other end is closed: it is over
            while chunk := os.read(ours, 65_536):
                seen += chunk
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        os.close(ours)
    return seen.decode()


@pytest.mark.parametrize("columns", [80, 40, 24])
def test_a_terminal_has_a_bar_that_fits_it_and_whole_rows(tmp_path: Path, columns: int) -> None:
    number = iter(range(10_000))
    law = lambda _: (0.06, answer() if next(number) % 9 else answer(b"{}", b"503 Service Unavailable"))  # noqa: E731
    for lab in interviewing(tmp_path):
        with server(law) as (url, _):
            seen = _on_a_terminal(lab, columns, url, *WORDS)
    written_over = re.findall(r"\r\x1b\[K([^\r\n]*)(?=\r\x1b\[K)", seen)
    steps = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in written_over if " p9" in line]
    assert any(line.startswith("warm_c4") for line in steps) and any(line.startswith("open_r20") for line in steps)
    assert all(len(line) < columns for line in steps)
    if columns == 80:
        assert any(re.search(r"\[#+-+\] \d\d:\d\d left  p95 [\d.]+ ms  errors \d+ of \d+", line) for line in steps)
    lines = [re.sub(r".*\r\x1b\[K", "", line) for line in seen.replace("\r\n", "\n").split("\n")]
    rows = [line for line in lines if re.match(r"(cold|warm_c1|warm_c4|open_r20) +n ", line)]
    assert [row.split()[0] for row in rows] == ["cold", "warm_c1", "warm_c4", "open_r20"]


def test_a_pipe_has_no_escape_codes_and_stdout_has_results_alone(tmp_path: Path) -> None:
    for lab in interviewing(tmp_path):
        with server(lambda _: (0.02, answer())) as (url, _):
            done = lab.run(url, *WORDS, env={"TERM": "xterm", "FORCE_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr and "\r" not in done.stdout + done.stderr
    assert "[#" not in done.stderr
    assert "phase warm_c4, 24 calls" in done.stderr and "phase" not in done.stdout
