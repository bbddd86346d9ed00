"""What a person sees while a drill runs: phase, countdown and live counts on a terminal, plain lines elsewhere.

Everything goes to stderr; stdout is for results. A terminal that goes away takes the drill's picture along, not the drill;
and one that was stopped (Ctrl-S), or a pipe that nobody reads, loses lines: a drill never waits for its picture.
"""

import contextlib
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TextIO

from drillmaster.spans import span_text

__all__ = ["Plain", "Progress", "Silent", "Step", "Terminal", "bar", "large", "progress_for"]

PLAIN_EVERY_S = 10.0

# Five rows of three, for the one moment that is to be read across a room.
_FONT = {
    "0": "███ █ █ █ █ █ █ ███",
    "1": " █  ██   █   █  ███",
    "2": "███   █ ███ █   ███",
    "3": "███   █ ███   █ ███",
    "4": "█ █ █ █ ███   █   █",
    "5": "███ █   ███   █ ███",
    "6": "███ █   ███ █ █ ███",
    "7": "███   █   █   █   █",
    "8": "███ █ █ ███ █ █ ███",
    "9": "███ █ █ ███   █ ███",
    ":": "     █       █     ",
    "Z": "███   █  █  █   ███",
}


def large(text: str) -> list[str]:
    """Write digits, `:` and `Z` in large type, five rows."""
    return [
        "  ".join(_FONT[char].ljust(19)[4 * row : 4 * row + 3] for char in text if char in _FONT) for row in range(5)
    ]


class Step(NamedTuple):
    """How far one step of an interview is."""

    name: str
    done_ratio: float | None
    """None: nobody can tell yet."""
    left_s: float | None
    p95_s: float | None
    """Of its good calls so far."""
    failed: int
    calls: int
    """That have ended."""
    in_flight: int


class Progress(Protocol):
    """Where a drill says what it is doing."""

    def line(self, text: str) -> None:
        """Say something once."""

    def phase(self, name: str, planned_s: float | None) -> None:
        """A phase began. `planned_s` None: it lasts until somebody orders its end."""

    def tick(self, name: str, left_s: float | None, counts: Mapping[str, int], in_flight: int) -> None:
        """The phase goes on; called about once a second."""

    def step(self, step: Step) -> None:
        """A step of an interview goes on; called a few times a second."""

    def injected(self, at: str, fault: str) -> None:
        """The fault is on since `at` (RFC 3339): to be said aloud."""


class Out(Protocol):
    """Where text goes: a stream, or what is like one."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...

    def fileno(self) -> int: ...


class Lossy:
    """A descriptor that is written to without ever waiting. What finds no room is dropped, and counted where there is."""

    def __init__(self, fd: int) -> None:
        """Raises OSError for a descriptor that is closed."""
        self._fd = fd
        self._ask = True
        self._dropped = 0
        mode = os.fstat(fd).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
            # Opened anew: O_NONBLOCK on the one we were given would hold for everybody who shares it, the shell included.
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                self._fd, self._ask = os.open(f"/proc/self/fd/{fd}", flags), False

    def write(self, text: str) -> None:
        if self._dropped:
            text = f"\n({self._dropped} lines of progress found no room here)\n" + text
        data = text.encode("utf-8", "backslashreplace")
        wrote = 0
        with contextlib.suppress(BlockingIOError):
            if not self._ask or select.select((), (self._fd,), (), 0)[1]:
                wrote = os.write(self._fd, data)
        self._dropped = 0 if wrote == len(data) else self._dropped + 1

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return self._fd


class Silent:
    """Says nothing."""

    def line(self, text: str) -> None:
        pass

    def phase(self, name: str, planned_s: float | None) -> None:
        pass

    def tick(self, name: str, left_s: float | None, counts: Mapping[str, int], in_flight: int) -> None:
        pass

    def step(self, step: Step) -> None:
        pass

    def injected(self, at: str, fault: str) -> None:
        pass


class Plain:
    """Plain lines: one at each change, and one about every ten seconds."""

    def __init__(self, out: Out, now_s: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._now_s = now_s
        self._said_s = now_s()

    def line(self, text: str) -> None:
        self._write(text + "\n")

    def phase(self, name: str, planned_s: float | None) -> None:
        self._said_s = self._now_s()
        self.line(f"phase {name}" + (f", {_span(planned_s)}" if planned_s is not None else ", until ordered"))

    def tick(self, name: str, left_s: float | None, counts: Mapping[str, int], in_flight: int) -> None:
        if self._now_s() - self._said_s >= PLAIN_EVERY_S:
            self._said_s = self._now_s()
            self.line(_status(name, left_s, counts, in_flight))

    def step(self, step: Step) -> None:
        if self._now_s() - self._said_s >= PLAIN_EVERY_S:
            self._said_s = self._now_s()
            done = "" if step.done_ratio is None else f" {min(1.0, step.done_ratio):.0%} done"
            self.line(
                f"{step.name}{done}{_left(step.left_s)}  {_so_far(step)} of {step.calls}  in flight {step.in_flight}"
            )

    def injected(self, at: str, fault: str) -> None:
        self.line(f"FAULT INJECTED at {at}: {fault}. Lead: say the time aloud; Scribe: drillmaster note injection_seen")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            self._out.write(text)
            self._out.flush()


class Terminal(Plain):
    """A status line that is written over, and large type for the injection."""

    def __init__(self, out: Out, *, colour: bool, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(out, now_s)
        self._colour = colour
        self._open = False

    def line(self, text: str) -> None:
        self._write(("\r\x1b[K" if self._open else "") + text + "\n")
        self._open = False

    def tick(self, name: str, left_s: float | None, counts: Mapping[str, int], in_flight: int) -> None:
        self._write("\r\x1b[K" + _status(name, left_s, counts, in_flight)[: self._columns() - 1])
        self._open = True

    def step(self, step: Step) -> None:
        text = bar(step, self._columns() - 1)
        if self._colour and step.failed:
            said = f"errors {step.failed}"
            text = text.replace(said, f"\x1b[1;31m{said}\x1b[0m")
        self._write("\r\x1b[K" + text)
        self._open = True

    def _columns(self) -> int:
        columns = 0
        with contextlib.suppress(OSError, ValueError):
            columns = os.get_terminal_size(self._out.fileno()).columns
        return columns or 80

    def injected(self, at: str, fault: str) -> None:
        on, off = ("\x1b[1;31m", "\x1b[0m") if self._colour else ("", "")
        rows = "\n".join(f"    {on}{row}{off}" for row in large(at[11:19] + "Z"))
        self.line(f"\n{rows}\n\n    FAULT INJECTED at {at}: {fault}")
        self.line("    Lead: say the time aloud.  Scribe: drillmaster note injection_seen\n")


def progress_for(out: TextIO | None = None) -> Progress:
    """The right kind for stderr (or `out`): a terminal's, or plain lines. Neither ever waits for a reader."""
    out = out or sys.stderr
    lossy: Out = out
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor keeps nobody waiting
        lossy = Lossy(out.fileno())
    if out.isatty() and os.environ.get("TERM") != "dumb":
        return Terminal(lossy, colour="NO_COLOR" not in os.environ)
    return Plain(lossy)


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" + (f" {rest} s" if rest else "")


def bar(step: Step, columns: int) -> str:
    """One line on a step in so many columns: name, bar, countdown, p95 and errors; what has no room goes, the least of it first."""
    left = "" if step.left_s is None else f"{_clock(step.left_s)} left"
    short = left.removesuffix(" left")
    so_far = _so_far(step)
    for words, least in (
        ((left, f"{so_far} of {step.calls}", f"in flight {step.in_flight}"), 2 * _LEAST_BAR),
        ((left, f"{so_far} of {step.calls}"), 2 * _LEAST_BAR),
        ((left, so_far), _LEAST_BAR),
        ((short, so_far), _LEAST_BAR),
    ):
        tail = "  ".join(word for word in words if word)
        room = columns - len(step.name) - len(tail) - 2
        if room >= least:
            return f"{step.name} {_bar(step.done_ratio, min(room, _MOST_BAR))} {tail}"
    done = "" if step.done_ratio is None else f"{min(1.0, step.done_ratio):.0%}"
    least_of_it = (step.name, done, short, so_far.replace("  ", " "))
    return " ".join(word for word in least_of_it if word)[:columns]


_LEAST_BAR = 7
_MOST_BAR = 26


def _bar(ratio: float | None, columns: int) -> str:
    """A bar with its ends; before anybody can tell, an empty one."""
    room = columns - 2
    full = 0 if ratio is None else round(room * min(1.0, max(0.0, ratio)))
    return f"[{'#' * full}{'-' * (room - full)}]"


def _so_far(step: Step) -> str:
    p95 = "none yet" if step.p95_s is None else span_text(step.p95_s)
    return f"p95 {p95}  errors {step.failed}"


def _left(left_s: float | None) -> str:
    return "" if left_s is None else f" {_clock(left_s)} left"


def _clock(seconds: float) -> str:
    whole = int(max(0.0, seconds))
    return f"{whole // 60:02d}:{whole % 60:02d}"


def _status(name: str, left_s: float | None, counts: Mapping[str, int], in_flight: int) -> str:
    left = _left(left_s)
    seen = "  ".join(f"{word} {n}" for word, n in sorted(counts.items(), key=lambda item: (item[0] != "ok", item[0])))
    return f"{name}{left}  {seen or 'no answer yet'}  in flight {in_flight}"
