"""Stand-ins: a model provider and an agent that exist to be drilled. No key, no network, nothing but loopback.

They are ordinary programs. Neither knows that a drill is on, and nothing of drillmaster reads anything from them but
what it would read from a stranger's: the wire, the answers, the timeline.
"""

import ipaddress
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from drillmaster.errors import Problem, Refused

__all__ = ["Told", "arm", "check_host", "check_port", "disarm", "say", "watch_parent"]

_PARENT_CHECK_S = 0.25


def check_host(host: str, allowed: str | None) -> None:
    """Let a stand-in listen on loopback, or on the one address that was said a second time (`allowed`).

    Raises Refused otherwise.
    """
    if host == allowed:
        return
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise Problem("--host", found=repr(host), wanted="an IP address", remedy="use --host 127.0.0.1") from None
    if not loopback:
        raise Refused(
            "--host",
            found=f"{host}, which other machines can reach",
            wanted="a loopback address",
            remedy=f"if you mean it, say it twice: --host {host} --allow-host {host}",
        )


def check_port(host: str, port: int, error: OSError) -> Problem:
    """Turn a failed bind into what a person can do about it."""
    return Problem(
        f"{host}:{port}",
        found=f"a port that cannot be had ({error.strerror or error})",
        wanted="a free port",
        remedy="use --port 0 and read the address it prints",
    )


class Told(BaseException):
    """Somebody wants this to end. Not an Exception, so that nothing on the way takes it for its own."""


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def arm() -> None:
    """Turn the ending signals into `Told`, once; from then on they are ignored, so that tidying up is not cut short."""

    def told(number: int, frame: FrameType | None) -> NoReturn:
        disarm()
        raise Told(signal.Signals(number).name)

    for number in _ENDING:
        signal.signal(number, told)


def disarm() -> None:
    """Ignore the ending signals: it is over anyhow."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def watch_parent(gone: Callable[..., object], *args: Any) -> None:
    """Call `gone(*args)` once, from a thread of its own, when the process that started this one is no more.

    A pipe as standard input is the better witness (it cannot be missed, however early the parent died); without one the
    parent's id is looked at four times a second.
    """
    parent = os.getppid()

    def by_pipe() -> None:
        while os.read(0, 4096):
            pass
        gone(*args)

    def by_id() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        gone(*args)

    try:
        piped = stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        piped = False
    threading.Thread(target=by_pipe if piped else by_id, name="parent", daemon=True).start()


def say(text: str) -> None:
    """Print one line at once: whoever started a stand-in on port 0 is waiting for it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
