"""The law of calls that are kept for later: names with the time at which each is handed out, and nothing else.

1. A queue holds names (a job's, of at most 200 visible ASCII characters) and times. What was asked, and by whom, lies with the
   job's owner.
2. What is put twice is there once, at the later of its times: nobody comes too early. A claim that was given out for it before is
   no claim any more.
3. A claim hands out the name that has been due the longest, and no other worker gets it before `hold_us` are over. Then it is
   handed out anew: the worker that had it has crashed.
4. Each claim has a number. Who finishes says it; a number that is no longer the last one finishes nothing.
5. An empty claim says how long it is until the next name is due; None: there is none.
6. A queue holds 10,000 names. What is put into a full one is refused, which its owner has to be told.
7. Time that goes backwards is taken to stand still. A putting that is carried out twice changes nothing, a claim hands a name out
   later, and a finishing says that there is nothing left to finish.
"""

import re
from typing import Literal

import msgspec

from drillmaster.rules import Law, Step

__all__ = ["LAW", "MOST_NAMES", "Kept", "Told", "What", "Word", "answer"]

What = Literal["put", "claim", "finish"]
MOST_NAMES = 10_000
MOST_US = 2**51
_NAME = re.compile(r"[!-~]{1,200}", re.ASCII)


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """One question: put a name, due in `span_us`; claim one for `span_us`; finish claim `nth` of a name."""

    what: What
    name: str = ""
    """"" for a claim."""
    span_us: int = 0
    nth: int = 0

    def __post_init__(self) -> None:
        if type(self.span_us) is not int or type(self.nth) is not int:
            raise ValueError("whole numbers for span and nth")
        if self.what not in ("put", "claim", "finish"):
            raise ValueError("put, claim or finish")
        if type(self.name) is not str or not (self.what == "claim" or _NAME.fullmatch(self.name)):
            raise ValueError("a name of 1 to 200 visible ASCII characters")
        if self.what == "claim" and (self.name or self.span_us < 1):
            raise ValueError("a claim without a name, for 1 microsecond or more")
        if not (0 <= self.span_us <= MOST_US and 0 <= self.nth <= MOST_US):
            raise ValueError("a span and a number from 0 to 2^51")


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By name, when it is handed out next and how often it was put or claimed."""

    names: dict[str, tuple[int, int]] = {}
    seen_us: int = 0


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """`allowed`: it was put, handed out, or finished. `wait_us`: until the next one is due; None: there is none."""

    allowed: bool
    name: str
    nth: int
    wait_us: int | None


def answer(kept: Kept | None, asked: Word, now_us: int) -> Step[Kept, Told]:
    """Carry out one question. Raises ValueError for a time that is none."""
    if type(now_us) is not int:
        raise ValueError("a time in whole microseconds")
    was = kept or Kept()
    now_us = max(now_us, was.seen_us)
    names = dict(was.names)
    if asked.what == "put":
        told = _put(names, asked, now_us)
    elif asked.what == "claim":
        told = _claimed(names, asked, now_us)
    else:
        fits = names.get(asked.name, (0, 0))[1] == asked.nth > 0
        if fits:
            del names[asked.name]
        told = Told(allowed=fits, name=asked.name, nth=asked.nth, wait_us=None)
    return Step(Kept(names, now_us) if names else None, told, None)


def _put(names: dict[str, tuple[int, int]], asked: Word, now_us: int) -> Told:
    at_us, nth = names.get(asked.name, (0, 0))
    if not nth and len(names) >= MOST_NAMES:
        return Told(allowed=False, name=asked.name, nth=0, wait_us=None)
    at_us = max(at_us, now_us + asked.span_us)
    names[asked.name] = at_us, nth + 1
    return Told(allowed=True, name=asked.name, nth=nth + 1, wait_us=at_us - now_us)


def _claimed(names: dict[str, tuple[int, int]], asked: Word, now_us: int) -> Told:
    first = min(((at_us, name) for name, (at_us, _) in names.items()), default=None)
    if first is None:
        return Told(allowed=False, name="", nth=0, wait_us=None)
    at_us, name = first
    if at_us > now_us:
        return Told(allowed=False, name="", nth=0, wait_us=at_us - now_us)
    nth = names[name][1] + 1
    names[name] = now_us + asked.span_us, nth
    return Told(allowed=True, name=name, nth=nth, wait_us=0)


LAW = Law(name="later", state=Kept, asked=Word, told=Told, step=answer)
