"""Orders from other terminals: one JSON line each way over a Unix socket that only this user can open.

The conductor decides; this carries. A line that is too long, too slow or no order is answered with what was wanted.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec

from drillmaster.asked import peer_uid
from drillmaster.errors import Problem, Refused

__all__ = ["Asked", "Told", "ask", "serve"]

MAX_LINE_BYTES = 8_192
LINE_S = 5.0
ANSWER_S = 30.0
MAX_TEXT_CHARS = 1_000
MAX_NAME_CHARS = 100
BUSY_WAIT_S = 0.2
SWALLOW_S = 0.5
_SWALLOWED_BYTES = 1 << 20
_MAX_CLIENTS = 16
_BUSY = "busy"


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order, with the token of the seat it comes from."""

    order: Literal["inject", "lift", "stop", "note", "state"]
    token: str
    kind: str = ""
    text: str = ""
    by: str = ""
    seen_at: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of it. Where `done` is false, the rest is a refusal in the four parts of every refusal."""

    done: bool
    state: str = ""
    text: str = ""
    place: str = ""
    found: str = ""
    wanted: str = ""
    remedy: str = ""


Handler = Callable[[Asked], Awaitable[Told]]


async def serve(path: Path, handler: Handler) -> asyncio.Server:
    """Listen for orders at `path` (made 0600). A client of another uid than ours and root's is turned away."""
    clients = 0

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal clients
        clients += 1
        try:
            if clients > _MAX_CLIENTS:
                await _swallow(reader)
                told = _refusal(
                    Refused(_BUSY, found="too many orders at once", wanted="one after another", remedy="try again")
                )
            else:
                told = await _answer(reader, writer, handler)
            writer.write(msgspec.json.encode(told) + b"\n")
            async with asyncio.timeout(LINE_S):
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # a client that is too slow, has gone, or sent too much: its own loss
        finally:
            clients -= 1
            writer.close()

    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108  # one call on a local name, before anything is served
    before = os.umask(0o177)  # the socket is never open to others, not even between bind and chmod
    try:
        return await asyncio.start_unix_server(one, path, limit=MAX_LINE_BYTES)
    finally:
        os.umask(before)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> Told:
    sock = writer.get_extra_info("socket")
    uid = peer_uid(sock)
    if uid not in (os.getuid(), 0):
        await _swallow(reader)
        return _refusal(
            Refused(
                "control socket", found=f"uid {uid}", wanted="the drill's user", remedy="give the order in its account"
            )
        )
    try:
        async with asyncio.timeout(LINE_S):
            line = await reader.readline()
    except ValueError:
        await _swallow(reader)
        return _refusal(
            Problem(
                "order",
                found=f"over {MAX_LINE_BYTES} bytes",
                wanted="one short JSON line",
                remedy="say it in fewer words",
            )
        )
    try:
        asked = msgspec.json.decode(line, type=Asked)
    except msgspec.DecodeError as error:
        return _refusal(
            Problem("order", found=str(error)[:200], wanted="one JSON line", remedy="use drillmaster's verbs")
        )
    try:
        return await handler(asked)
    except Problem as problem:
        return _refusal(problem)


async def _swallow(reader: asyncio.StreamReader) -> None:
    """Read on for a moment: an answer beside what was never read would be lost in a reset."""
    left_bytes = _SWALLOWED_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SWALLOW_S):
            while left_bytes > 0 and (piece := await reader.read(MAX_LINE_BYTES)):
                left_bytes -= len(piece)
                if piece.endswith(b"\n"):
                    return


def _refusal(problem: Problem) -> Told:
    return Told(done=False, place=problem.place, found=problem.found, wanted=problem.wanted, remedy=problem.remedy)


def ask(path: str, asked: Asked) -> Told:
    """Send an order to a live conductor and wait for its answer. Raises Refused where it is none.

    A conductor that is busy is asked again. Of a note that is too long its writer is told; of other orders the words are
    cut: a lift does not fail for a long reason.
    """
    asked = _short(_clean(asked))
    give_up_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return _ask_once(path, asked)
        except Refused as refused:
            if refused.place != _BUSY or time.monotonic() > give_up_s:
                raise
        time.sleep(BUSY_WAIT_S)


def _clean(asked: Asked) -> Asked:
    """Replace what is no UTF-8: a shell's words may be any bytes."""
    text, by = (word.encode("utf-8", "replace").decode() for word in (asked.text, asked.by))
    return msgspec.structs.replace(asked, text=text, by=by)


def _short(asked: Asked) -> Asked:
    if asked.order != "note":
        return msgspec.structs.replace(asked, text=asked.text[:MAX_TEXT_CHARS], by=asked.by[:MAX_NAME_CHARS])
    for place, text, at_most in (("note", asked.text, MAX_TEXT_CHARS), ("--by", asked.by, MAX_NAME_CHARS)):
        if len(text) > at_most:
            raise Refused(
                place,
                found=f"{len(text)} characters",
                wanted=f"at most {at_most}",
                remedy="say it in fewer words",
            )
    return asked


def _ask_once(path: str, asked: Asked) -> Told:
    line = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(ANSWER_S)
            sock.connect(path)
            sock.sendall(msgspec.json.encode(asked) + b"\n")
            while not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
                piece = sock.recv(65_536)
                if not piece:
                    break
                line += piece
    except OSError as error:
        line = b""
        why = error.strerror or type(error).__name__
    else:
        why = "no answer"
    with contextlib.suppress(msgspec.DecodeError):
        told = msgspec.json.decode(line, type=Told)
        if told.done:
            return told
        raise Refused(told.place, found=told.found, wanted=told.wanted, remedy=told.remedy)
    raise Refused(
        "the conductor",
        found=why,
        wanted="its answer",
        remedy="see its terminal: the run may be over (drillmaster report RUN)",
    )
