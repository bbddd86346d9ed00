"""The stand-in that acts, as a program: `POST /agent/mission` over HTTP, its twin over a WebSocket, and an alert where tools fail.

Two workers share one port, as such agents are run: what a flag does to one of them shows only where each is looked at.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from drillmaster import http1, ws
from drillmaster.adapters.worker import chaos, transcript
from drillmaster.clock import SystemClock
from drillmaster.errors import Problem
from drillmaster.standins import check_port, say, watch_parent
from drillmaster.standins.agent import SWITCH
from drillmaster.standins.concierge import RULE, Concierge, Pace, concierge_class
from drillmaster.timeline import mark

__all__ = ["serve_concierge"]

ALERT_URL = "ALERT_URL"
ALERT_TOKEN = "ALERT_TOKEN"  # noqa: S105  # a variable's name
_BODY_BYTES = 1 << 20
_IDLE_S = 60.0
_LOOK_S = 0.5
_PATH = "/agent/mission"
_SOCKET_PATH = "/agent/mission/ws"


def serve_concierge(
    host: str, port: int, *, environ: Mapping[str, str], pace: Pace, workers: int, die_with_parent: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT. Reads CHAOS_URL, STANDIN_BUG, ALERT_URL and ALERT_TOKEN. Raises Problem."""
    kind = concierge_class(environ.get(SWITCH))
    socks = []
    try:
        for _ in range(workers):
            socks.append(_listening(host, port))
            port = socks[0].getsockname()[1]
    except OSError as error:
        raise check_port(host, port, error) from None
    parent = os.getpid()
    children: list[int] = []
    worker = 0
    for nth in range(1, workers):
        pid = os.fork()
        if pid == 0:
            worker, children = nth, []
            break
        children.append(pid)
    for nth, sock in enumerate(socks):
        if nth != worker:
            sock.close()

    def leave(*_: object) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        chaos.stop()
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    if die_with_parent or worker:
        watch_parent(leave)
    if worker and os.getppid() != parent:
        leave()
    try:
        agent = kind(pace, SystemClock(), worker=worker)
        chaos.start(worker=f"concierge-{worker}-{os.getpid()}")
    except (Problem, ValueError):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        raise
    if environ.get(ALERT_URL) and agent.severity is not None:
        threading.Thread(target=_tell, args=(agent, environ, worker), name="alarm", daemon=True).start()
    if worker == 0:
        say(f"standin concierge listening on http://{host}:{port}{_PATH}")
    asyncio.run(_serve(agent, socks[worker]))


def _listening(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, port))
    sock.listen(1024)
    sock.setblocking(False)
    return sock


async def _serve(agent: Concierge, sock: socket.socket) -> None:
    server = await asyncio.start_server(lambda r, w: _client(agent, r, w), sock=sock, limit=1 << 17)
    async with server:
        await server.serve_forever()


async def _client(agent: Concierge, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, kept alive."""
    heads = http1.HeadReader(keep=frozenset({b"x-drill-mission", b"x-drill-run", b"sec-websocket-key", b"traceparent"}))
    try:
        while True:
            async with asyncio.timeout(_IDLE_S):
                data = await reader.readuntil(b"\r\n\r\n")
            head = heads.request(data)
            fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.named.items()}
            if head.upgrade is not None and head.path == _SOCKET_PATH:
                await _socket(agent, reader, writer, fields, head.named.get(b"sec-websocket-key", b""))
                return
            length = head.length or 0
            if head.chunked or length > _BODY_BYTES:
                _reply(writer, 413, {"error": "a body of known length up to 1 MB"}, keep=False)
                return
            async with asyncio.timeout(_IDLE_S):
                body = await reader.readexactly(length)
            status, reply = await _mission(agent, head.method, head.path, body, fields)
            _reply(writer, status, reply, keep=head.keep_alive)
            await writer.drain()
            if not head.keep_alive:
                return
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, http1.Malformed):
        return
    finally:
        writer.close()


async def _mission(
    agent: Concierge, method: str, path: str, body: bytes, fields: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    if path == "/healthz":
        return 200, {"ok": True}
    if path != _PATH or method != "POST":
        return 404, {"error": f"only POST {_PATH} is here, and its twin at {_SOCKET_PATH}"}
    mission = transcript.mission_of(fields)
    with transcript.mission(fields if agent.records() else None) as said:
        if mission:
            mark("mission_taken", mission=mission)
        said.user(body, method=method, url=path)
        status, reply = await _answer(agent, body, said, mission)
        said.answer(reply, status=status)
    return status, reply


async def _answer(agent: Concierge, body: bytes, said: transcript.Mission, mission: str) -> tuple[int, dict[str, Any]]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return 400, {"error": "no JSON"}
    return await agent.serve(asked if isinstance(asked, dict) else {}, said, mission)


def _reply(writer: asyncio.StreamWriter, status: int, value: dict[str, Any], *, keep: bool) -> None:
    data = json.dumps(value).encode()
    fields = [("content-type", "application/json"), ("content-length", str(len(data)))]
    writer.write(http1.answer_head(status, fields if keep else [*fields, ("connection", "close")]) + data)


# The twin


async def _socket(
    agent: Concierge, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, of: dict[str, str], key: bytes
) -> None:
    """A user's messages, each answered by one; a stranger's frames that are more than that end the connection."""
    accept = ws.accept_of(key).decode("ascii")
    fields = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-accept", accept)]
    writer.write(http1.answer_head(101, fields))
    await writer.drain()
    mission = transcript.mission_of(of)
    with transcript.mission(of if agent.records() else None, entry="websocket") as said:
        if mission:
            mark("mission_taken", mission=mission)
        while True:
            async with asyncio.timeout(_IDLE_S):
                kind, payload = await _frame(reader)
            if kind == ws.CLOSE:
                writer.write(_framed(ws.CLOSE, payload[:2]))
                return
            if kind == ws.PING:
                writer.write(_framed(ws.PONG, payload))
                continue
            if kind != ws.TEXT:
                continue
            said.user(payload, url=_SOCKET_PATH)
            status, reply = await _answer(agent, payload, said, mission)
            said.answer(reply, status=status)
            writer.write(_framed(ws.TEXT, json.dumps(reply).encode()))
            await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One frame of a client's: final, masked, of at most 1 MB."""
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    if not first & 0x80 or not second & 0x80 or size > _BODY_BYTES:
        raise http1.Malformed("a frame that this stand-in does not take")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    if not data:
        return first & 0x0F, b""
    whole = (mask * (size // 4 + 1))[:size]
    return first & 0x0F, (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")


def _framed(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x80 | kind, size) + payload
    return struct.pack("!BBH", 0x80 | kind, 126, size) + payload


# The alert


def _tell(agent: Concierge, environ: Mapping[str, str], worker: int) -> None:
    """Look twice a second, and tell whoever is at ALERT_URL of what has begun or ended."""
    while True:
        time.sleep(_LOOK_S)
        change = agent.alarm.look()
        if change is None:
            continue
        content = json.dumps(_alert(agent, worker, firing=change)).encode()
        asked = urllib.request.Request(  # noqa: S310  # an address that the person who started this named
            environ[ALERT_URL],
            data=content,
            headers={"content-type": "application/json", "authorization": f"Bearer {environ.get(ALERT_TOKEN, '')}"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for _ in range(3):
            try:
                with opener.open(asked, timeout=5):
                    break
            except OSError as error:
                print(f"standin concierge: alert: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                time.sleep(1)


def _alert(agent: Concierge, worker: int, *, firing: bool) -> dict[str, Any]:
    """As Alertmanager words it for a webhook."""
    status = "firing" if firing else "resolved"
    labels = {
        "alertname": RULE,
        "severity": agent.alarm.severity,
        "service": "escalation-concierge",
        "worker": str(worker),
    }
    at = (
        datetime.fromtimestamp(agent.alarm.since_ns / 1e9, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
    never = "0001-01-01T00:00:00Z"
    one = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": "refunds fail"},
        "startsAt": at,
        "endsAt": never if firing else at,
        "generatorURL": "",
        "fingerprint": f"{worker:016x}",
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{RULE}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "drill",
        "groupLabels": {"alertname": RULE},
        "commonLabels": labels,
        "commonAnnotations": {"summary": "refunds fail"},
        "externalURL": "",
        "alerts": [one],
    }
