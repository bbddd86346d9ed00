"""What a worker prints, screened, in its log: off the drill's loop, and never so much that the drill would feel it."""

import contextlib
import os
import select
import threading
import time
from pathlib import Path

from drillmaster.screen import Screener

__all__ = ["OutputCopy"]

MAX_LOG_BYTES = 20 * 1024 * 1024
MAX_BYTES_PER_S = 256 * 1024
"""What is screened and kept of one second: text full of secrets takes a core a second for 1.2 MB (measured). A worker that
prints faster is read on, so that it never blocks, and cut."""
_PIECE_BYTES = 65_536
_PIECES_AFTER_END = 64
_POLL_MS = 200


class OutputCopy:
    """A pipe and the thread that reads it. `inlet` is the end for the worker to write to, until `begin`."""

    def __init__(self, log: Path) -> None:
        """Raises OSError where the log cannot be opened."""
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._outlet, self.inlet = os.pipe2(os.O_CLOEXEC)
        except OSError:
            os.close(self._log)
            raise
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._screener = Screener()
        self._left_bytes = MAX_LOG_BYTES
        self._second_s = 0.0
        self._second_bytes = 0
        self._cut_bytes = 0

    def begin(self) -> None:
        """The worker has its end: read what comes."""
        os.close(self.inlet)
        self.inlet = -1
        self._thread = threading.Thread(target=self._run, name="worker output", daemon=True)
        self._thread.start()

    def settle(self, at_most_s: float) -> None:
        """Wait until all writers are gone and what they wrote is in the log; blocks, for at most so long."""
        if self._thread is not None:
            self._thread.join(at_most_s)

    def close(self) -> None:
        """Read what there is still, and end; blocks for a moment. Twice does no harm."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(5.0)
            return
        for fd in {self.inlet, self._outlet, self._log} - {-1}:
            os.close(fd)
        self.inlet = self._outlet = self._log = -1

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._outlet, select.POLLIN)
        pieces_left = _PIECES_AFTER_END
        try:
            while pieces_left > 0:
                over = self._over.is_set()
                if not poll.poll(0 if over else _POLL_MS):
                    if over:
                        break
                    continue
                piece = os.read(self._outlet, _PIECE_BYTES)
                if not piece:
                    break
                self.take(piece, time.monotonic())
                pieces_left -= over  # somebody may print on for ever
            self.end()
        finally:
            os.close(self._outlet)
            os.close(self._log)

    def take(self, piece: bytes, now_s: float) -> None:
        """Keep a piece, or as much of it as this second and the log allow: whole lines, since half a secret has no look."""
        if not 0 <= now_s - self._second_s < 1:
            self._second_s, self._second_bytes = now_s, 0
        kept = piece[: max(0, min(MAX_BYTES_PER_S - self._second_bytes, self._left_bytes))]
        if self._cut_bytes:
            begin = kept.find(b"\n") + 1
            self._cut_bytes += begin if begin else len(kept)
            piece, kept = (piece[begin:], kept[begin:]) if begin else (piece[len(kept) :], b"")
        if len(kept) < len(piece):
            kept = kept[: kept.rfind(b"\n") + 1]
        if kept:
            self._say_what_is_cut()
            self._second_bytes += len(kept)
            self._left_bytes -= len(kept)
            self._write(self._screener.feed(kept))
        if len(kept) < len(piece):
            if self._cut_bytes == 0:
                self._write(self._screener.close())
            self._cut_bytes += len(piece) - len(kept)

    def end(self) -> None:
        """Nothing comes any more."""
        self._write(self._screener.close())
        self._say_what_is_cut()

    def _say_what_is_cut(self) -> None:
        if self._cut_bytes:
            self._write(b"\n(%d bytes cut here: it printed too much)\n" % self._cut_bytes)
            self._cut_bytes = 0

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # its log is a convenience; evidence is watched elsewhere
            os.write(self._log, data)
