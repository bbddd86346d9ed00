"""What is on and what is killed, as a value that orders change. No socket, no file, no loop; the clock is given.

1. Several windows may be on, each with flags of its own; a flag is on once. A window's name is used once.
2. Nothing extends a flag past `auto_off_s` from when it went on, nor past its deadline's day; a renewal moves the window's
   deadline only. A clock that went back has passed every deadline, and so has what was counted out by other means.
3. Each change makes a new revision. Revisions of two servers never meet: each begins with a mark of its own.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from drillmaster.clock import Clock
from drillmaster.errors import Problem
from drillmaster.friday.flags import (
    Aim,
    Hits,
    Registered,
    Registry,
    Shape,
    Switched,
    last_instant_ns,
    plain,
    unknown_flag,
)

__all__ = ["MAX_TTL_S", "Board", "Conflict", "On", "Window"]

MAX_TTL_S = 3_600.0
COUNTED_LATE_S = 0.5
"""How much later than by the clock a flag ends by count: the count is coarse."""
MAX_WINDOWS = 10_000


class Conflict(Exception):
    """The order does not fit the state; nothing was changed."""


class On:
    """One flag that is on."""

    __slots__ = ("_hits", "aim", "by", "flag", "last_ns", "left_s", "shape", "since_ns", "until_ns", "window")

    def __init__(
        self, flag: Registered, aim: Aim, shape: Shape, window: str, by: str, since_ns: int, seed: int
    ) -> None:
        self.flag = flag
        self.aim = aim
        self.shape = shape
        self.window = window
        self.by = by
        self.since_ns = since_ns
        limit_s = math.inf if flag.auto_off_s is None else flag.auto_off_s
        self.until_ns = None if limit_s == math.inf else since_ns + round(limit_s * 1e9)
        """By its auto-off; None: a kill without one."""
        self.left_s = limit_s + COUNTED_LATE_S
        self.last_ns = None if flag.deadline is None else last_instant_ns(flag.deadline)
        """Of the clock on the wall, by its deadline."""
        self._hits = Hits(aim, f"{seed}/{window}/{flag.name}")

    def hit(self, mission: str) -> bool:
        """Whether an evaluation that is asked of the server is met."""
        return self._hits.hit(mission)

    def told(self) -> dict[str, Any]:
        """As evidence and readers are told."""
        aim = {name: value for name, value in msgspec.structs.asdict(self.aim).items() if value is not None}
        return {
            "flag": self.flag.name,
            "kind": self.flag.kind,
            **aim,
            "params": plain(self.shape),
            "window": self.window,
        }


class Window:
    """Flags that are put on and lifted together."""

    __slots__ = ("deadline_ns", "injected_ns", "left_s", "lifted_ns", "names", "window")

    def __init__(self, window: str, names: tuple[str, ...], injected_ns: int, ttl_s: float) -> None:
        self.window = window
        self.names = names
        self.injected_ns = injected_ns
        self.deadline_ns = injected_ns + round(ttl_s * 1e9)
        self.left_s = ttl_s + COUNTED_LATE_S
        self.lifted_ns: int | None = None


class Board:
    """The state. `on_off` is told of each flag that went off and why, `on_lift` of each window that is over."""

    def __init__(self, registry: Registry, clock: Clock, *, mark: str, seed: int = 1) -> None:
        """`mark` begins each revision of this server's."""
        self.registry = registry
        self.flags: Mapping[str, Registered] = registry.by_name
        self.on: dict[str, On] = {}
        self.killed: dict[str, str] = {}
        """Capability -> who killed it."""
        self._clock = clock
        self._mark = mark
        self._seed = seed
        self._count = 0
        self._used: set[str] = set()
        self.windows: dict[str, Window] = {}
        self._over: dict[str, int] = {}
        self._latest_ns = 0
        self.on_off: Callable[[On, str], None] = lambda on, why: None
        self.on_lift: Callable[[Window, str], None] = lambda window, why: None
        self.on_change: Callable[[], None] = lambda: None

    @property
    def revision(self) -> str:
        return f"{self._mark}-{self._count}"

    @property
    def count(self) -> int:
        """Where the present revision stands in their order."""
        return self._count

    def number(self, revision: str) -> int | None:
        """Where a revision of this server's stands in their order; None for one of another's."""
        mark, _, count = revision.partition("-")
        return int(count) if mark == self._mark and count.isascii() and count.isdigit() and len(count) < 16 else None

    def state(self, name: str) -> str:
        """`on`, `off` or `killed`."""
        return "killed" if name in self.killed else "on" if name in self.on else "off"

    # Switching on

    def prepare(self, window: str, wanted: Iterable[Switched], ttl_s: float, by: str) -> tuple[Window, list[On]]:
        """A window that is not on yet. Raises Conflict, Problem, ValueError; nothing is changed."""
        self.expire()
        if window in self._used:
            raise Conflict(f"window {window} has been already")
        if len(self._used) >= MAX_WINDOWS:
            raise Conflict(f"{MAX_WINDOWS} windows have been already; start the server again")
        now_ns = self._clock.mono_ns()
        self._latest_ns = max(self._latest_ns, now_ns)
        fresh: dict[str, On] = {}
        for at, one in enumerate(wanted):
            flag = self.flags.get(one.flag)
            if flag is None:
                raise unknown_flag(one.flag, self.flags, place=f"/flags/{at}/flag")
            if one.flag in fresh:
                raise ValueError(f"/flags/{at}/flag: {one.flag} twice")
            if one.flag in self.on:
                raise Conflict(f"{one.flag} is on already, in window {self.on[one.flag].window}")
            self._may_go_on(flag)
            shape, aim = one.shape(flag, place="order", path=("flags", at, "params")), one.aim(flag)
            if flag.kind == "kill" and aim != Aim():
                raise ValueError(f"/flags/{at}: a kill meets every call")
            fresh[one.flag] = On(flag, aim, shape, window, by, now_ns, self._seed)
        if not fresh:
            raise ValueError("/flags: no flag")
        return Window(window, tuple(fresh), now_ns, _ttl(ttl_s)), list(fresh.values())

    def _may_go_on(self, flag: Registered) -> None:
        if flag.deadline is not None and self._clock.wall_ns() >= (last_instant_ns(flag.deadline) or 0):
            raise Problem(
                f"flag {flag.name}",
                found=f"a deadline that has passed ({flag.deadline})",
                wanted="a flag that may still be switched on",
                remedy=f"ask {flag.owner}; a later deadline goes into the registry",
            )

    def put_on(self, window: Window, fresh: Iterable[On]) -> None:
        """Put on what was prepared."""
        self._used.add(window.window)
        self.windows[window.window] = window
        for on in fresh:
            self.on[on.flag.name] = on
        self._changed()

    def renew(self, window: str, ttl_s: float) -> bool:
        """Move a window's deadline; False where it is not on any more."""
        ttl_s = _ttl(ttl_s)
        self.expire()
        held = self.windows.get(window)
        if held is None:
            return False
        held.deadline_ns = self._clock.mono_ns() + round(ttl_s * 1e9)
        held.left_s = ttl_s + COUNTED_LATE_S
        return True

    # Going off

    def lift(self, window: str, why: str) -> int | None:
        """Take a window's flags off; when it was lifted, now or before. None: it never was on."""
        self.expire()
        held = self.windows.get(window)
        if held is None:
            return self._over.get(window)
        for name in held.names:
            self._off(name, why)
        return self._close(held, why)

    def switch_off(self, name: str, why: str) -> bool:
        """Take one flag off; False where it was off."""
        self.expire()
        on = self.on.get(name)
        if on is None:
            return False
        self._off(name, why)
        self._close_empty(why)
        return True

    def lift_all(self, why: str) -> None:
        for window in tuple(self.windows):
            self.lift(window, why)

    def _off(self, name: str, why: str) -> None:
        on = self.on.pop(name, None)
        if on is not None:
            self._changed()
            self.on_off(on, why)

    def _close(self, held: Window, why: str) -> int:
        held.lifted_ns = self._clock.mono_ns()
        del self.windows[held.window]
        self._over[held.window] = held.lifted_ns
        self.on_lift(held, why)
        return held.lifted_ns

    def _close_empty(self, why: str) -> None:
        for held in tuple(self.windows.values()):
            if not any(name in self.on and self.on[name].window == held.window for name in held.names):
                self._close(held, why)

    def expire(self) -> None:
        """Take off what is past its time."""
        if not self.on:
            return
        before_ns, self._latest_ns = self._latest_ns, self._clock.mono_ns()
        now_ns = self._latest_ns
        went_back = now_ns < before_ns
        wall_ns = self._clock.wall_ns()
        revision = self._count
        for on in tuple(self.on.values()):
            held = self.windows[on.window]
            if went_back or now_ns >= held.deadline_ns or held.left_s <= 0:
                self._off(on.flag.name, "expired")
            elif (on.until_ns is not None and now_ns >= on.until_ns) or on.left_s <= 0:
                self._off(on.flag.name, "auto-off")
            elif on.last_ns is not None and wall_ns >= on.last_ns:
                self._off(on.flag.name, "deadline")
        if self._count != revision:
            self._close_empty("expired")

    def pass_time(self, seconds: float) -> None:
        """Count time that passed by other means than the clock, and take off what is counted out."""
        for held in self.windows.values():
            held.left_s -= seconds
        for on in self.on.values():
            on.left_s -= seconds
        self.expire()

    def left_s(self, on: On) -> float:
        """Seconds until a flag goes off if nobody renews."""
        now_ns = self._clock.mono_ns()
        held = self.windows[on.window]
        until_ns = held.deadline_ns if on.until_ns is None else min(held.deadline_ns, on.until_ns)
        return max(0.0, min((until_ns - now_ns) / 1e9, held.left_s, on.left_s))

    # Kills

    def capability(self, name: str) -> Registered:
        """The flag of a capability. Raises Problem for none."""
        flag = self.flags.get(name)
        if flag is None or flag.kind != "kill":
            raise unknown_flag(name, self.registry.capabilities, place="capability", what="capability")
        return flag

    def kill(self, name: str, by: str) -> bool:
        """Kill a capability; False where it was killed already."""
        self.capability(name)
        if name in self.killed:
            return False
        self.killed[name] = by
        self._changed()
        return True

    def restore(self, name: str) -> bool:
        """End a kill; False where there was none."""
        self.capability(name)
        if self.killed.pop(name, None) is None:
            return False
        self._changed()
        return True

    def _changed(self) -> None:
        self._count += 1
        self.on_change()


def _ttl(ttl_s: float) -> float:
    if not 0 < ttl_s <= MAX_TTL_S:  # not a number is refused too
        raise ValueError(f"ttl_s {ttl_s} is not in 0 < s <= {MAX_TTL_S:g}")
    return ttl_s
