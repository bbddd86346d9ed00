"""The law of a fence: what has seen a newer token takes nothing under an older one.

1. A fencing token is a text of digits, as it was given: `[1-9][0-9]{0,18}`, ASCII, at most 2^63 - 1. No sign, no space, no leading
   zero, no digit of another alphabet, and 0 is nobody's. A number is no token: what was computed was not given.
2. A resource remembers the highest token that it was written under. It takes a write under that one or a higher, and remembers it;
   under a lower one it takes nothing.
3. It never forgets: a writer may come back after any pause.
"""

import msgspec

from drillmaster.rules import Law, Step

__all__ = ["LAW", "MOST_TOKEN", "REASONS", "Fenced", "FencedWrite", "Seen", "fence", "read_token"]

MOST_TOKEN = 2**63 - 1
REASONS: dict[str, str] = {
    "current": "No newer token was seen; this one is remembered.",
    "stale-token": "The resource was written under a newer token.",
}


class FencedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """May this resource be written under this token."""

    token: int

    def __post_init__(self) -> None:
        if type(self.token) is not int or not 0 < self.token <= MOST_TOKEN:
            raise ValueError("a token of 1 to 2^63 - 1")


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The highest token that was seen."""

    token: int


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    allowed: bool
    reason: str


def fence(seen: Seen | None, asked: FencedWrite, now_us: int) -> Step[Seen, Fenced]:
    """Let a write through under the newest token, or refuse it. The time says nothing here."""
    if seen is not None and asked.token < seen.token:
        return Step(seen, Fenced(allowed=False, reason="stale-token"), None)
    return Step(Seen(asked.token), Fenced(allowed=True, reason="current"), None)


def read_token(value: object) -> int | None:
    """Read a token as it was given, by rule 1; None for whatever else. Raises nothing."""
    if not isinstance(value, str) or not 1 <= len(value) <= 19 or not value.isascii() or not value.isdigit():
        return None
    number = int(value) if value[0] != "0" else 0
    return number if 0 < number <= MOST_TOKEN else None


LAW = Law(name="fence", state=Seen, asked=FencedWrite, told=Fenced, step=fence)
