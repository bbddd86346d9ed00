"""The law of a retry budget: how much all calls together may retry, over every worker that shares it.

1. A bucket of tokens, in thousandths. It begins full. A retry takes `take_milli` (1000 is one), or nothing where not so much
   is left; what is refused takes nothing.
2. Calls that went well give back: `give_milli`, a tenth of a token each, say. The bucket holds at most `full_milli`. Time gives
   nothing back: in a long outage retries fade away, and return as calls go well again (gRPC's retry throttling, A6).
3. What is given comes before what is taken of the same question.
4. A giving has a name of its own (`mark`), and one that was carried out is not carried out again: a worker whose connection broke
   asks once more. The last 32 names are known.
5. Limits are read anew each time. A bucket that was made smaller is smaller at once; one that was made larger has more left by
   just that.
"""

import re

import msgspec

from drillmaster.rules import Law, Step

__all__ = ["LAW", "MOST_MILLI", "Draw", "Drawn", "Spent", "draw"]

MOST_MILLI = 1_000_000_000
_MARKS = 32
_KEEP_US = 60_000_000
_MARK = re.compile(r"[0-9A-Za-z_-]{0,40}", re.ASCII)


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """Give so much back, then take so much, of a bucket that holds `full_milli`. Thousandths of a token."""

    take_milli: int
    give_milli: int
    full_milli: int
    mark: str = ""
    """The name of a giving, of at most 40 letters, digits, `_` and `-`; "" where nothing is given."""

    def __post_init__(self) -> None:
        if not type(self.take_milli) is type(self.give_milli) is type(self.full_milli) is int:
            raise ValueError("whole numbers for take, give and full")
        if not 0 < self.full_milli <= MOST_MILLI:
            raise ValueError("a bucket of 1 to 1,000,000,000 thousandths")
        if not (0 <= self.take_milli <= MOST_MILLI and 0 <= self.give_milli <= MOST_MILLI):
            raise ValueError("0 to 1,000,000,000 thousandths to take and to give")
        if type(self.mark) is not str or not _MARK.fullmatch(self.mark):
            raise ValueError("a mark of at most 40 letters and digits")
        if (self.give_milli > 0) != bool(self.mark):
            raise ValueError("a mark for each giving, and none without one")


class Spent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is missing of a full bucket, and the last givings, oldest first."""

    milli: int = 0
    marks: tuple[str, ...] = ()


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    allowed: bool
    left_milli: int


def draw(spent: Spent | None, asked: Draw, now_us: int) -> Step[Spent, Drawn]:
    """Carry out one question. Raises ValueError for a time that is none; time moves nothing."""
    if type(now_us) is not int:
        raise ValueError("a time in whole microseconds")
    was = spent or Spent()
    milli, marks = was.milli, was.marks
    if asked.give_milli and asked.mark not in marks:
        milli = max(0, milli - asked.give_milli)
        marks = (*marks, asked.mark)[-_MARKS:]
    allowed = milli + asked.take_milli <= asked.full_milli
    if allowed:
        milli += asked.take_milli
    told = Drawn(allowed=allowed, left_milli=max(0, asked.full_milli - milli))
    # A full bucket says no more than none; its marks do, as long as a question may come again.
    return Step(Spent(milli, marks), told, None if milli else _KEEP_US)


LAW = Law(name="retry_budget", state=Spent, asked=Draw, told=Drawn, step=draw)
