"""A turn at a file to which several processes add lines: had by one at a time, and waited for, though not for ever.

1. The lock is of the open file (`flock`), so a process that ends in whatever way gives it back.
2. What was put in the file's place while somebody waited is the file from then on: a line in the old one would be lost.
"""

import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path

from drillmaster.errors import Problem

__all__ = ["WAIT_S", "open_in_turn"]

WAIT_S = 30.0
"""A turn takes milliseconds. Whoever has had the file for so long was stopped, and will not give it back."""


def open_in_turn(path: Path, open_: Callable[[], int]) -> int:
    """Open a file and have it alone until the descriptor is closed. Raises OSError as `open_` does, and Problem."""
    ends = time.monotonic() + WAIT_S
    while True:
        descriptor = open_()
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "no regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there, here = path.stat(), os.fstat(descriptor)
            if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() > ends:
            raise Problem(
                str(path),
                found=f"a file that somebody else has held for {WAIT_S:g} s",
                wanted="a turn at it",
                remedy=f"see who has it: fuser {shlex.quote(str(path))}",
            )
        time.sleep(0.01)
