"""A beat that no clock can be talked out of: periods counted by the kernel's own timer.

Clocks can be set, faked and misread, and an event loop that sleeps by one of them sleeps as long as it says. A timer
descriptor wakes the loop as a socket does, and counts in the kernel: also while this process is stopped, and while the
machine sleeps. What must end whatever the clocks say counts beats.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable

__all__ = ["Pulse"]

_CLOCK_BOOTTIME = 7  # goes on while the machine sleeps
_COUNT_BYTES = 8


class _Span(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("every", _Span), ("first", _Span))


class Pulse:
    """Calls `on_beat` with the periods that have passed since the last call: 1, more where the loop was held up."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_beat: Callable[[int], None], *, period_s: float) -> None:
        """Begins at once; the first beat comes one period from now. Where there is no such timer the loop's own serves."""
        self._loop = loop
        self._on_beat = on_beat
        self._period_s = period_s
        self._handle: asyncio.TimerHandle | None = None
        self._fd = _timer_fd(period_s)
        if self._fd is None:
            self._handle = loop.call_later(period_s, self._late)
        else:
            loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """No further beat; twice does no harm."""
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def count(self) -> int:
        """Take the periods that have passed and were not told yet, 0 where none have: for who cannot wait for a beat."""
        if self._fd is None:
            return 0
        try:
            return int.from_bytes(os.read(self._fd, _COUNT_BYTES), "little")
        except BlockingIOError:
            return 0

    def _read(self) -> None:
        passed = self.count()
        if passed:
            self._on_beat(passed)

    def _late(self) -> None:
        self._handle = self._loop.call_later(self._period_s, self._late)
        self._on_beat(1)


def _timer_fd(period_s: float) -> int | None:
    """A kernel timer of this period, started; None where there is none to be had. Python has its own from 3.13."""
    whole_s, rest_ns = divmod(round(period_s * 1e9), 1_000_000_000)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = int(libc.timerfd_create(_CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC))
        if fd < 0:
            return None
        timer = _Timer(_Span(whole_s, rest_ns), _Span(whole_s, rest_ns))
        if libc.timerfd_settime(fd, 0, ctypes.byref(timer), None) == 0:
            return fd
    except (OSError, AttributeError):
        return None
    os.close(fd)
    return None
