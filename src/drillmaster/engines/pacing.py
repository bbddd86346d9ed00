"""A timer that an epoll loop can wait on, finer than its timeout of whole milliseconds, and the arrivals it is armed for.

Linux's timerfd (timerfd_create(2)), which Python gained in 3.13: called through the C library until then.
"""

import contextlib
import ctypes
import os
import random
from collections.abc import Iterator

from drillmaster.engines import Stage

__all__ = ["LONGEST_PAUSE", "Timer", "arrivals", "pause_ns"]

LONGEST_PAUSE = 10
"""An exponential pause is cut at so many times its mean."""

QUANTUM_NS = 100_000
"""It is armed no closer than this: a wake-up for each of many arrivals would burn the core that has to send them."""
_CLOCK_MONOTONIC, _TFD_NONBLOCK, _TFD_CLOEXEC = 1, 0o4000, 0o2000000


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("ns", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timer:
    """One timerfd."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Itimerspec()

    def arm(self, in_ns: int) -> None:
        """Become readable once, `in_ns` from now, but not before `QUANTUM_NS`."""
        in_ns = max(in_ns, QUANTUM_NS)
        self._spec.value.seconds, self._spec.value.ns = divmod(in_ns, 1_000_000_000)
        self._libc.timerfd_settime(self.fd, 0, ctypes.byref(self._spec), None)

    def heard(self) -> None:
        """It was readable; it no longer is."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)


def arrivals(stage: Stage, start_ns: int, seed: int) -> Iterator[int]:
    """When the calls of an open stage are due. Blind to what became of the calls before."""
    assert stage.seconds is not None
    length_s = stage.seconds
    first = stage.rate_per_s
    last = first if stage.rate_to_per_s is None else stage.rate_to_per_s
    rng = random.Random(f"{seed}/{stage.label}")  # noqa: S311 - arrivals, not secrets
    # The n-th arrival is where the integral of the rate reaches n - 1/2: evenly spaced, and midway at the edges.
    mass = 0.0
    total = (first + last) / 2 * length_s
    while True:
        mass += rng.expovariate(1.0) if stage.poisson else (0.5 if mass == 0 else 1.0)
        if mass >= total:
            return
        if first == last:
            at_s = mass / first
        else:
            slope = (last - first) / length_s
            at_s = ((first * first + 2 * slope * mass) ** 0.5 - first) / slope
        yield start_ns + round(at_s * 1e9)


def pause_ns(mean_s: float, drawn_by: str | None) -> int:
    """One pause: of that length, or exponential of that mean as the seed `drawn_by` has it."""
    if drawn_by is not None:
        rng = random.Random(f"{drawn_by}/pause")  # noqa: S311 - a pause, no secret
        mean_s *= min(rng.expovariate(1.0), LONGEST_PAUSE)
    return round(mean_s * 1e9)
