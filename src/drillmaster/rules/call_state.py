"""The law of a call that has a key: who is making it, how often it was made, and when it may be made next.

1. A key is held by one holder at a time. Who begins a call while another one holds its key is told `in-flight`, and for how long
   at most. A holder that crashed says nothing more, and the key comes free when its time is over.
2. Calls are counted over all holders, from 1, as they begin. At `most` it is `spent`: a worker that takes over goes on counting.
3. Where an answer asked for a wait, nobody but the holder who heard it begins before its end (`early`). The holder waits on its
   own clock, and holds the key for so much longer. One that leaves lets go of the key, with the wait.
4. A call that is done is done for everybody: `done`. It may be said by whoever knows, but not over a living holder.
5. Who let the key run out and lost it to another is told `lost`, and changes nothing. One that nobody took is still its own.
6. What was last said is remembered for `keep_us` from when the key is free and may be used. Then counting begins anew.
7. Time that goes backwards is taken to stand still. A question that is asked twice counts a call too many, never one too few.
"""

import re
from typing import Literal

import msgspec

from drillmaster.rules import Law, Step

__all__ = ["LAW", "MOST_US", "CallState", "Held", "Report", "What", "report"]

What = Literal["begin", "wait", "leave", "done"]
MOST_US = 2**51
"""About 71 years: a time and three of these stay below 2^53, where carriers that know only doubles count alike."""
_HOLDER = re.compile(r"[0-9A-Za-z_-]{1,40}", re.ASCII)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a holder says: it begins a call, waits before the next, leaves (with a wait, or 0), or is done."""

    what: What
    holder: str
    """A name that no other call has, of at most 40 letters, digits, `_` and `-`."""
    hold_us: int
    wait_us: int
    keep_us: int
    most: int

    def __post_init__(self) -> None:
        numbers = (self.hold_us, self.wait_us, self.keep_us, self.most)
        if any(type(one) is not int for one in numbers):
            raise ValueError("whole numbers for hold, wait, keep and most")
        if self.what not in ("begin", "wait", "leave", "done"):
            raise ValueError("begin, wait, leave or done")
        if type(self.holder) is not str or not _HOLDER.fullmatch(self.holder):
            raise ValueError("a holder of 1 to 40 letters and digits")
        if not (0 < self.hold_us <= MOST_US and 0 <= self.wait_us <= MOST_US and 0 < self.keep_us <= MOST_US):
            raise ValueError("0 < hold, 0 <= wait and 0 < keep, each at most 2^51 microseconds")
        if not 0 < self.most <= 1_000:
            raise ValueError("1 to 1,000 calls")


class CallState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    holder: str = ""
    until_us: int = 0
    calls: int = 0
    not_before_us: int = 0
    done: bool = False
    seen_us: int = 0
    forget_us: int = 2**53


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What is told: `begun` or `noted`, or why not. `calls` were begun, this one included; `wait_us`: not before so long."""

    allowed: bool
    why: str
    calls: int
    wait_us: int


def report(state: CallState | None, asked: Report, now_us: int) -> Step[CallState, Held]:
    """Carry out one question. Raises ValueError for a time that is none."""
    if type(now_us) is not int:
        raise ValueError("a time in whole microseconds")
    was = state or CallState()
    now_us = max(now_us, was.seen_us)
    if was.forget_us <= now_us:
        was = CallState()
    if asked.what == "begin":
        after, allowed, why, wait_us = _begun(was, asked, now_us)
    else:
        after, allowed, why, wait_us = _noted(was, asked, now_us)
    forget_us = max(now_us, after.not_before_us, after.until_us) + asked.keep_us
    after = msgspec.structs.replace(after, seen_us=now_us, forget_us=forget_us)
    return Step(after, Held(allowed=allowed, why=why, calls=after.calls, wait_us=wait_us), forget_us - now_us)


def _begun(was: CallState, asked: Report, now_us: int) -> tuple[CallState, bool, str, int]:
    mine = was.holder == asked.holder
    if was.done:
        return was, False, "done", 0
    if was.holder and not mine and was.until_us > now_us:
        return was, False, "in-flight", was.until_us - now_us
    if was.calls >= asked.most:
        return was, False, "spent", 0
    if not mine and was.not_before_us > now_us:
        return was, False, "early", was.not_before_us - now_us
    after = CallState(asked.holder, now_us + asked.hold_us, was.calls + 1, was.not_before_us)
    return after, True, "begun", 0


def _noted(was: CallState, asked: Report, now_us: int) -> tuple[CallState, bool, str, int]:
    if asked.what == "done" and was.until_us <= now_us:
        return CallState("", 0, was.calls, was.not_before_us, done=True), True, "noted", 0
    if was.holder != asked.holder:
        return was, False, "lost", 0
    not_before_us = max(was.not_before_us, now_us + asked.wait_us)
    if asked.what == "wait":
        until_us = max(was.until_us, not_before_us + asked.hold_us)
        return CallState(was.holder, until_us, was.calls, not_before_us), True, "noted", 0
    if asked.what == "leave":
        return CallState("", 0, was.calls, not_before_us), True, "noted", 0
    return CallState("", 0, was.calls, was.not_before_us, done=True), True, "noted", 0


LAW = Law(name="call_state", state=CallState, asked=Report, told=Held, step=report)
