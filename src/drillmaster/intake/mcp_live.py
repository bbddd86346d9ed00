"""What an MCP server offers, asked of the server itself: a process of ours, bounded, over its standard input and output.

1. It is started by words that the caller has judged already, with an environment of its own: PATH, HOME, LANG, and what the
   signed list gives it. Nothing of this process's environment goes along, no secret and no setting.
2. It has a folder of its own to stand in, so much memory, so many processor seconds, so much time. It and all that it starts
   are ended with it. It is not kept from the network: that takes more than a process may do to another.
3. The protocol is JSON-RPC, one message a line, spoken here by hand: an SDK drops the fields that it does not know, and a pin is
   over all of them. What is no JSON by the rules of `strict` is refused.
4. What the server asks of us is answered with "no such method", but for a ping. Its list is read to the last page, twice.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates.tools import Live
from drillmaster.intake.mcp_ending import adopting
from drillmaster.screen import screen_text
from drillmaster.strict import shown

__all__ = ["Bounds", "ask_server"]

VERSION = "2025-11-25"
"""Of the protocol; a server that knows an older one says so and is spoken to all the same: the list has not changed."""
MAX_PAGES = 200
MAX_TOOLS = 10_000
MAX_MESSAGES = 5_000
LINE_CAP_BYTES = 16 << 20
ALL_CAP_BYTES = 64 << 20
"""Of all that a server says, so that many large answers are no more than a few."""
STDERR_CAP_BYTES = 1 << 16
GRACE_S = 2.0


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much a server may take: wall seconds for all of it, processor seconds, bytes of memory, and of any file it writes."""

    limit_s: float = 30.0
    cpu_s: int = 60
    memory_bytes: int = 2 << 30
    file_bytes: int = 64 << 20


def ask_server(name: str, argv: Sequence[str], *, folder: Path, env: Mapping[str, str], bounds: Bounds) -> Live:
    """Start a server in `folder`, read its list of tools twice, and end it. Raises Problem."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    plain = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": os.fspath(home),
        "TMPDIR": os.fspath(home),
        "LANG": "C.UTF-8",
    }
    with adopting(), _Server(name, argv, folder=folder, env={**env, **plain}, bounds=bounds) as server:
        server.call(
            "initialize",
            {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": {"name": "drillmaster", "version": "1"},
            },
        )
        server.tell("notifications/initialized")
        first = server.tools()
        return Live(server=name, tools=first, again=server.tools())


class _Server:
    def __init__(self, name: str, argv: Sequence[str], *, folder: Path, env: Mapping[str, str], bounds: Bounds) -> None:
        self.name = name
        self._deadline = time.monotonic() + bounds.limit_s
        self._bounds = bounds
        self._id = 0
        self._seen = 0
        self._said = 0
        self._buffer = bytearray()
        self._complaints = bytearray()
        try:
            self._child = subprocess.Popen(  # noqa: S603 - words that were judged, and no shell
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=dict(env),
                start_new_session=True,
                preexec_fn=lambda: _limit(
                    bounds
                ),  # this process has one thread, and limits have to be there before it runs
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise self._problem(f"it does not start ({getattr(error, 'strerror', None) or error})") from None

    def __enter__(self) -> "_Server":
        self._ready = selectors.DefaultSelector()
        assert self._child.stdout is not None and self._child.stderr is not None and self._child.stdin is not None
        for stream in (self._child.stdout, self._child.stderr):
            os.set_blocking(stream.fileno(), False)
            self._ready.register(stream, selectors.EVENT_READ)
        os.set_blocking(self._child.stdin.fileno(), False)
        return self

    def __exit__(self, *_: object) -> None:
        self._ready.close()
        child = self._child
        assert child.stdout is not None and child.stderr is not None and child.stdin is not None
        for stream in (child.stdin, child.stdout, child.stderr):
            with contextlib.suppress(OSError):  # it went away first
                stream.close()
        try:
            child.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            _signal(child.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=GRACE_S)
        _signal(child.pid, signal.SIGKILL)  # whatever it has started is of its session
        child.wait()

    def tools(self) -> tuple[Any, ...]:
        """Read the whole list, page by page."""
        found: list[Any] = []
        cursor: str | None = None
        cursors: set[str] = set()
        for _ in range(MAX_PAGES):
            result = self.call("tools/list", {} if cursor is None else {"cursor": cursor})
            page = result.get("tools")
            if not isinstance(page, list):
                raise self._problem(f"tools/list with tools {shown(page)}")
            found += page
            if len(found) > MAX_TOOLS:
                raise self._problem(f"more than {MAX_TOOLS:,} tools")
            after = result.get("nextCursor")
            if after is None:
                return tuple(found)
            if not isinstance(after, str) or after in cursors:
                raise self._problem("a list that never ends: a page leads back to one before it")
            cursors.add(after)
            cursor = after
        raise self._problem(f"more than {MAX_PAGES} pages of tools")

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask one thing, and give its result."""
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        while True:
            message = self._message(method)
            if "method" in message:
                self._answer(message)
                continue
            if type(message.get("id")) is not int or message["id"] != self._id:
                continue  # an answer to nothing that was asked
            if "error" in message:
                error = message["error"]
                said = error.get("message") if isinstance(error, dict) else error
                raise self._problem(
                    f"{method} answered with an error, {shown(screen_text(said) if isinstance(said, str) else said)}"
                )
            result = message.get("result")
            if not isinstance(result, dict):
                raise self._problem(f"{method} answered with {shown(result)}")
            return result

    def tell(self, method: str) -> None:
        self._send({"jsonrpc": "2.0", "method": method})

    def _answer(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "ping":
            self._send({**reply, "result": {}})
        else:
            self._send({**reply, "error": {"code": -32601, "message": "Method not found"}})

    def _message(self, method: str) -> dict[str, Any]:
        while True:
            line = self._line(method)
            self._seen += 1  # an empty line is one too: whoever sends them without end is not listened to without end
            if self._seen > MAX_MESSAGES:
                raise self._problem(f"more than {MAX_MESSAGES:,} messages before the answer to {method}")
            if not line.strip():
                continue
            value = strict.load(line, place=f"server {self.name}: {method}", fmt="json", cap_bytes=LINE_CAP_BYTES)
            if isinstance(value, dict):
                return value
            raise self._problem(f"{shown(value)} where a message is wanted")

    def _line(self, method: str) -> bytes:
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            if len(self._buffer) > LINE_CAP_BYTES:
                raise self._problem(f"a message of more than {LINE_CAP_BYTES:,} bytes")
            self._read(method)

    def _read(self, method: str) -> None:
        left_s = self._deadline - time.monotonic()
        events = self._ready.select(left_s) if left_s > 0 else []  # one that never pauses has no more time than others
        if not events:
            raise self._problem(f"no answer to {method} within {self._bounds.limit_s:g} s")
        for key, _ in events:
            try:
                block = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            if key.fileobj is self._child.stderr:
                if not block:
                    self._ready.unregister(key.fileobj)
                self._complaints += block[: max(0, STDERR_CAP_BYTES - len(self._complaints))]
            elif not block:
                raise self._problem(f"it ended before it answered {method}")
            else:
                self._buffer += block
                self._said += len(block)
                if self._said > ALL_CAP_BYTES:
                    raise self._problem(f"more than {ALL_CAP_BYTES:,} bytes in all")

    def _send(self, message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        assert self._child.stdin is not None
        out = self._child.stdin.fileno()
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_WRITE)
            while data:
                if not ready.select(max(0.0, self._deadline - time.monotonic())):
                    raise self._problem("it does not read what it is asked")
                try:
                    data = data[os.write(out, data) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise self._problem("it ended before it was asked") from None

    def _problem(self, found: str) -> Problem:
        last = self._complaints.decode("utf-8", "replace").strip().splitlines()[-1:] if self._complaints else []
        said = f"{found}; it complained: {shown(screen_text(last[0]))}" if last else found
        return Problem(
            f"server {self.name}",
            found=said,
            wanted="an MCP server that lists its tools on standard output",
            remedy="start it by hand with the words of the allow-list at the base, and mend it or the list",
        )


def _limit(bounds: Bounds) -> None:
    """Bound the child, before its program runs. Data and not the whole address space: node reserves that by the terabyte."""
    for what, most in (
        (resource.RLIMIT_CPU, bounds.cpu_s),
        (resource.RLIMIT_DATA, bounds.memory_bytes),
        (resource.RLIMIT_FSIZE, bounds.file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody of it is left
        os.killpg(pid, number)
