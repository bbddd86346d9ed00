"""How long this process was ready to run and was not let, since others had its core.

1. Linux counts it: the second number of `/proc/self/schedstat`, in ns. What a host takes from a virtual machine is not
   in it.
2. Where the kernel does not count it, each time that this process was put off its core (getrusage(2), `ru_nivcsw`) stands for one
   turn of somebody else, `SLICE_NS`: that is what others are given at once where nobody says otherwise.
3. It is looked at once a millisecond at most. What came between two looks counts as one wait, so that none is missed and a long
   one is hardly made longer; those under `LEAST_NS` are not kept one by one.
"""

import os
import resource
from array import array

__all__ = ["LEAST_NS", "LOOK_NS", "SLICE_NS", "RunDelay"]

LOOK_NS = 1_000_000
LEAST_NS = 1_000_000
SLICE_NS = 3_000_000
SCHEDSTAT = "/proc/self/schedstat"


class RunDelay:
    """The waits of this process for a core, from one `begin` to the next."""

    def __init__(self, path: str = SCHEDSTAT) -> None:
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._counted_ns()
        except (OSError, ValueError, IndexError):
            self.close()
        self.begin()

    @property
    def is_counted(self) -> bool:
        """Whether the kernel counts it; else it is rule 2."""
        return self._fd is not None

    def begin(self) -> None:
        """Count from here."""
        self._begun_ns = self._seen_ns = self._now_ns()
        self.longest_ns = 0
        self.long_ns = array("q")
        """Waits of `LEAST_NS` and more."""

    def look(self) -> None:
        """See what came since the last look."""
        now_ns = self._now_ns()
        waited_ns = now_ns - self._seen_ns
        self._seen_ns = now_ns
        if waited_ns > self.longest_ns:
            self.longest_ns = waited_ns
        if waited_ns >= LEAST_NS:
            self.long_ns.append(waited_ns)

    @property
    def whole_ns(self) -> int:
        """All of it up to the last look."""
        return self._seen_ns - self._begun_ns

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _now_ns(self) -> int:
        if self._fd is None:
            return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw * SLICE_NS
        return self._counted_ns()

    def _counted_ns(self) -> int:
        assert self._fd is not None
        return int(os.pread(self._fd, 64, 0).split()[1])
