"""The law of a token bucket: a capacity, a steady refill, and what is left at a moment.

1. A bucket that was never used is full. It refills continuously at `per_s` and never holds more than `capacity`.
2. A taking is all or nothing. One that is refused takes nothing and moves nothing, so that being refused costs no time.
3. What is larger than the capacity is never granted, however long one waits.
4. Time that goes backwards refills nothing.
"""

import msgspec

__all__ = ["Level", "Taken", "take"]

# A refill is a product of floats: what is short by less than this is there. Without it the wait that was told could be
# just too short.
_SLACK = 1e-6


class Level(msgspec.Struct, frozen=True):
    """How full a bucket was at a moment of the monotonic clock."""

    amount: float
    at_ns: int


class Taken(msgspec.Struct, frozen=True):
    """What came of a taking."""

    level: Level
    allowed: bool
    wait_s: float | None
    """Until the same taking would be granted; 0 where it was, None: never."""
    full_s: float
    """Until the bucket is full again."""


def take(level: Level | None, amount: float, *, capacity: float, per_s: float, now_ns: int) -> Taken:
    """Take `amount` (>= 0) from a bucket; `level` None: never used. `capacity` and `per_s` are > 0."""
    have = capacity
    if level is not None:
        have = min(capacity, level.amount + max(0, now_ns - level.at_ns) / 1e9 * per_s)
        now_ns = max(now_ns, level.at_ns)
    allowed = have + _SLACK >= amount
    left = max(0.0, have - amount) if allowed else have
    wait_s = 0.0 if allowed else None if amount > capacity else (amount - have) / per_s
    return Taken(Level(left, now_ns), allowed, wait_s, (capacity - left) / per_s)
