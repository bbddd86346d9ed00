"""How far a walk over files is, on a terminal and nowhere else."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["shown_progress"]

_EVERY_S = 0.25


@contextlib.contextmanager
def shown_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Lend a function that is told entries and bytes; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    last = time.monotonic()
    shown = False

    def tell(entries: int, size: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - last >= _EVERY_S:
            last, shown = now, True
            print(f"\r{entries:,} entries, {size / 1e6:,.0f} MB", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
