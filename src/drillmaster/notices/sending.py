"""Sending a notice: one POST, and again where the retry guard lets it. What it says of an address is its host."""

import contextlib
import random
import ssl
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

import drillmaster
from drillmaster.clock import Clock
from drillmaster.errors import Problem, one_line
from drillmaster.guards.retry import PINNED, FailedCall, Retry
from drillmaster.rules.retry_after import Unreadable, read
from drillmaster.rules.retryable import HTTP
from drillmaster.sanity import is_loopback, split_url
from drillmaster.screen import MARK, screen_text

__all__ = ["LIMITS", "Answer", "Post", "Sent", "Where", "address", "http_post", "send"]

# No policy's: how long a job may stand behind a verdict that is given, and how often a receiver is asked.
LIMITS = Retry(max_calls=4, deadline_ms=60_000, base_ms=500, cap_ms=20_000, budget_tokens=3, refund=0.0)
TIME_LIMIT_S = 15.0
_MOST_ANSWER_BYTES = 4_096


class Where(msgspec.Struct, frozen=True):
    """An address, in parts; `host` is all of it that may be printed."""

    scheme: str
    host: str
    port: int | None
    path: str


class Answer(msgspec.Struct, frozen=True):
    """What a receiver said: `status` None where no answer came, with `why`."""

    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    why: str = ""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """How it went with one receiver."""

    to: Literal["slack", "webhook"]
    host: str
    ok: bool
    calls: int
    status: int | None = None
    why: str = ""


Post = Callable[[Where, Sequence[tuple[str, str]], bytes], Answer]


def address(text: str | None, *, place: str) -> Where:
    """Read the address that a variable holds. Raises Problem, which names the variable and nothing of its value."""
    remedy = f"export {place.removeprefix('$')}=https://... from where secrets are kept"
    if not text:
        raise Problem(place, found="nothing", wanted="the receiver's address", remedy=remedy)
    parts = split_url(text.strip())
    usable = parts is not None and parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if parts is None or not usable or not text.strip().isascii() or not text.strip().isprintable():
        raise Problem(place, found="text that is no address", wanted="https://HOST/PATH", remedy=remedy)
    host = parts.hostname or ""
    if parts.scheme == "http" and not is_loopback(host):
        raise Problem(
            place,
            found=f"an open wire to {one_line(host)}",
            wanted="https, or loopback",
            remedy="name its https address",
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Where(parts.scheme, host, parts.port, path)


def send(
    to: Literal["slack", "webhook"],
    where: Where,
    body: bytes,
    headers: Callable[[int], Sequence[tuple[str, str]]],
    *,
    clock: Clock,
    key: str = "",
    post: "Post | None" = None,
    wait: Callable[[float], None],
    jitter: Callable[[], float] = random.random,
) -> Sent:
    """Send a body until it was taken or the retry guard says no. `headers` are those of a moment, in seconds since 1970.

    `key` is an identifier by which the receiver knows a second one for the first; empty: it has none.
    """
    post = post or http_post
    begun_ns, state, calls = clock.mono_ns(), None, 0
    while True:
        calls += 1
        answer = post(where, headers(clock.wall_ns() // 10**9), body)
        if answer.status is not None and 200 <= answer.status < 300:
            return Sent(to=to, host=where.host, ok=True, calls=calls, status=answer.status)
        end = HTTP.get(answer.status or 0)
        # A request that was turned away without being worked on has had no effect: the second is the first.
        known_again = key or (f"turned away, call {calls}" if end is not None and not end.worked else "")
        told = read(answer.headers, now_s=clock.wall_ns() / 1e9) if answer.headers else None
        call = FailedCall(
            source=PINNED,
            protocol="http",
            method="POST",
            code=answer.status,
            attempt=calls,
            elapsed_ms=(clock.mono_ns() - begun_ns) // 1_000_000,
            asked_wait_ms=None if told is None or isinstance(told, Unreadable) else round(told.wait_s * 1_000),
            asked_unreadable=isinstance(told, Unreadable),
            idempotency_key=known_again,
            jitter=jitter(),
        )
        state, decision = LIMITS.step(state, call, clock.mono_ns() // 1_000_000)
        if not decision.allowed:
            said = answer.why or f"status {answer.status}" + (f": {answer.body}" if answer.body else "")
            why = f"{said}; not sent again: {decision.reason}"
            return Sent(to=to, host=where.host, ok=False, calls=calls, status=answer.status, why=why)
        wait(decision.wait_ms / 1_000)


def http_post(where: Where, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
    """Post once, within `TIME_LIMIT_S` from end to end. What fails is an answer too."""
    import socket
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from threading import Timer

    connection: HTTPConnection
    if where.scheme == "https":
        connection = HTTPSConnection(where.host, where.port, timeout=TIME_LIMIT_S, context=ssl.create_default_context())
    else:
        connection = HTTPConnection(where.host, where.port, timeout=TIME_LIMIT_S)
    all_of_them = {
        "content-type": "application/json",
        "user-agent": f"drillmaster/{drillmaster.__version__}",
        **dict(headers),
    }

    def cut() -> None:
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = Timer(TIME_LIMIT_S, cut)  # a socket's own limit starts again with each byte that drips in
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        if where.scheme == "http" and not is_loopback(connection.sock.getpeername()[0]):
            return Answer(None, why="a name that leads to another machine, over an open wire")
        connection.request("POST", where.path, body=body, headers=all_of_them)
        got = connection.getresponse()
        said = got.read(_MOST_ANSWER_BYTES).decode("utf-8", "replace")
        fields = tuple((name.lower(), value) for name, value in got.getheaders())
        for secret in (where.path, where.path.strip("/")):
            said = said.replace(secret, MARK) if len(secret) > 3 else said
        return Answer(got.status, fields, screen_text(one_line(said.strip())[:200]))
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return Answer(None, why=one_line(str(why)).lower())
    finally:
        timer.cancel()
        connection.close()
