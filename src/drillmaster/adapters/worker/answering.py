"""`drillmaster guard serve`: the guards of a file for workers in any language, over `serving`.

1. `POST /v1/NAME` takes facts and gives the decision. Only an allowed one is a 200: a denial is 403, no answer of the store 503,
   facts that are none 400, and each of their bodies says `"allowed": false`. So a client that looks at the status alone denies
   as well, and no retry of an HTTP library takes a denial for a passing trouble.
2. Facts are read strictly; what is wrong with them is told to whoever sent them, with its place, and written nowhere.
3. Who gets no answer has got none: nothing here can make a worker wait for longer than it wants. It denies by itself.
4. SIGTERM and SIGINT end it when what was begun is answered. SIGHUP reads the guards file again; one that cannot be used is
   told, and changes nothing.
"""

import asyncio
import contextlib
import gc
import re
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.adapters.worker.recording import label
from drillmaster.adapters.worker.serving import Asked, Bounds, Reply, Server
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.guards import Decision
from drillmaster.intake.guards_files import read_facts

__all__ = ["Answers", "serve"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}", re.ASCII)
_WORDS = {"route": _NAME, "session": _NAME, "calls": _NAME, "id": re.compile(r"[0-9A-Za-z_-]{1,40}", re.ASCII)}
_ENTRY = re.compile(r"/v1/([a-z][a-z0-9-]{0,63})(/succeeded)?")
_OTHER_FILES = 128
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_encode = msgspec.json.Encoder().encode
_PREFIX = "drillmaster_guard"


class Answers:
    """What each request gets."""

    def __init__(self, guarding: Guarding) -> None:
        self._guarding = guarding
        self._refused: dict[int, int] = {}
        self.reloads = {True: 0, False: 0}
        self.server: Server | None = None

    def answer(self, asked: Asked) -> Reply | Awaitable[Reply]:
        """Answer one request, at once where no store is asked."""
        match = _ENTRY.fullmatch(asked.path)
        if match is not None:
            return self._of_guard(asked, match[1], is_success=match[2] is not None)
        page = {"/healthz": self._health, "/metrics": self._metrics, "/v1": self._list}.get(asked.path)
        if page is None:
            return self.refuse(404, "no such path: POST /v1/NAME, GET /v1, /healthz, /metrics")
        return page() if asked.method in ("GET", "HEAD") else self.refuse(405, "GET it")

    def refuse(self, status: int, why: str) -> Reply:
        """Refuse a request that no guard saw."""
        return self._no(status, _denial("request-refused"), why=why)

    def _of_guard(self, asked: Asked, name: str, *, is_success: bool) -> Reply | Awaitable[Reply]:
        words = _words(asked.query)
        kind = self._guarding.kind(name)
        if words is None:
            why = "behind the question mark only route=NAME, session=NAME, calls=NUMBER and id=NAME, each once"
            return self.refuse(400, why)
        if kind is None:
            return self._no(404, _denial("unlisted-guard"), why="the guards file has no guard of that name: GET /v1")
        route, session = words.get("route", ""), words.get("session", "")
        if asked.method == "DELETE" and session and not is_success:
            self._guarding.forget(name, session=session)
            return Reply(204, b"")
        if asked.method != "POST":
            return self.refuse(405, "POST the facts")
        if is_success:
            calls = words.get("calls", "1")
            if asked.body or not calls.isdigit() or not 1 <= int(calls) <= 1_000_000 or not self._guarding.earns(name):
                return self.refuse(400, "this guard has no budget that good calls give back to, or there is a body")
            return self._repaid(name, int(calls), words.get("id", ""))
        try:
            facts = read_facts(asked.body, kind, place="facts")
        except Problem as problem:
            told = {"place": problem.place, "found": problem.found, "wanted": problem.wanted, "remedy": problem.remedy}
            return self._no(400, _denial("facts-unusable"), error=told)
        if kind.by_law:
            return self._later(name, facts, route, session)
        return _decided(self._guarding.decide(name, facts, route=route, session=session))

    async def _later(self, name: str, facts: Any, route: str, session: str) -> Reply:
        return _decided(await self._guarding.decide_async(name, facts, route=route, session=session))

    async def _repaid(self, name: str, calls: int, mark: str) -> Reply:
        if await self._guarding.succeeded_async(name, calls=calls, mark=mark):
            return Reply(204, b"")
        return self._no(503, _denial("store-unavailable"))

    def _no(self, status: int, decision: dict[str, Any], **more: object) -> Reply:
        self._refused[status] = self._refused.get(status, 0) + 1
        return Reply(status, _encode({**decision, **more}))

    # -- pages --

    def _health(self) -> Reply:
        guards = self._guarding.guards
        said = {"ok": True, "guards": list(guards.entries), "digest": guards.digest, "review_by": guards.pin.review_by}
        return Reply(200, _encode(said))

    def _list(self) -> Reply:
        entries = self._guarding.guards.entries
        kinds = {name: kind for name in entries if (kind := self._guarding.kind(name)) is not None}
        rows = [
            {"name": name, "guard": kind.tag, "facts": _fields(kind.facts), "reasons": list(kind.reasons)}
            for name, kind in kinds.items()
        ]
        return Reply(200, _encode(rows))

    def _metrics(self) -> Reply:
        guards = self._guarding.guards
        until_ns = parse_rfc3339(f"{guards.pin.review_by}T23:59:59Z") or 0
        connections = 0 if self.server is None else len(self.server.connections)
        text = self._guarding.recorder.exposition()
        text += _series(
            "requests_refused_total",
            "counter",
            "Requests that no guard decided on, by status.",
            {f'status="{status}"': count for status, count in sorted(self._refused.items())},
        )
        text += _series(
            "reloads_total",
            "counter",
            "Times that the guards file was read again.",
            {f'taken="{str(taken).lower()}"': count for taken, count in self.reloads.items()},
        )
        text += _series("connections", "gauge", "Clients that are connected.", {"": connections})
        text += _series(
            "review_by_timestamp_seconds",
            "gauge",
            "When the limits have to have been read again.",
            {f'digest="{label(guards.digest)}"': until_ns // 1_000_000_000},
        )
        return Reply(200, text.encode(), content_type=_METRICS)


def serve(guarding: Guarding, sock: socket.socket, name: str, *, token: str = "", bounds: Bounds | None = None) -> None:
    """Serve on a bound socket until SIGTERM or SIGINT. Says its address on a line of stdout, and reloads on stderr."""
    _make_room(bounds or Bounds())
    asyncio.run(_until_told(guarding, sock, name, token, bounds))


def _make_room(bounds: Bounds) -> None:
    """Raise the limit of open files to what the connections need, as far as the system lets us."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.connections + _OTHER_FILES
    if least < wanted and (most == resource.RLIM_INFINITY or least < most):
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def _until_told(guarding: Guarding, sock: socket.socket, name: str, token: str, bounds: Bounds | None) -> None:
    loop = asyncio.get_running_loop()
    told, again = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    answers = Answers(guarding)
    # A browser reaches neither a socket file nor what wants a token, whatever name its page has.
    names = bool(token) or sock.family == socket.AF_UNIX
    server = Server(answers.answer, answers.refuse, bounds=bounds, token=token, names=names, failed=_say_of(_complain))
    answers.server = server
    await server.start(sock)
    reloading = loop.create_task(_reload(guarding, answers, again))
    gc.freeze()  # what was loaded by now stays: a collection has not to look at it each time
    sys.stdout.write(f"guard serve listening on {name}\n")
    sys.stdout.flush()
    await told.wait()
    reloading.cancel()
    await server.drain()
    await guarding.close_async()


async def _reload(guarding: Guarding, answers: Answers, again: asyncio.Event) -> None:
    while True:
        await again.wait()
        again.clear()
        try:
            guards = await asyncio.to_thread(guarding.reload)
        except Problem as problem:
            answers.reloads[False] += 1
            _complain(f"not reloaded, the guards before stay in force: {problem}")
        except Exception as error:  # noqa: BLE001 - a mistake of ours is no reason to hear no signal any more
            answers.reloads[False] += 1
            _complain(f"not reloaded, the guards before stay in force: {type(error).__name__}")
        else:
            answers.reloads[True] += 1
            _complain(f"reloaded {guards.place}: {', '.join(guards.entries)} ({guards.digest[:19]})")


def _say_of(say: Callable[[str], None]) -> Callable[[BaseException], None]:
    def failed(error: BaseException) -> None:
        say(f"a request was answered with 500: {type(error).__name__}")

    return failed


def _complain(text: str) -> None:
    print(f"guard serve: {text}", file=sys.stderr, flush=True)


def _decided(decision: Decision) -> Reply:
    status = 200 if decision.allowed is True else 503 if decision.reason == "store-unavailable" else 403
    return Reply(status, _encode(decision))


def _denial(reason: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(Decision(allowed=False, reason=reason))
    return found


def _words(query: str) -> dict[str, str] | None:
    """Read `route=NAME&session=NAME&calls=NUMBER&id=NAME`; None for anything else."""
    words: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        if name not in _WORDS or name in words or _WORDS[name].fullmatch(value) is None:
            return None
        words[name] = value
    return words


def _fields(facts: Any) -> list[str]:
    fields = getattr(facts, "__struct_encode_fields__", ())
    return list(fields)


def _series(name: str, kind: str, said: str, values: dict[str, int]) -> str:
    lines = [f"# HELP {_PREFIX}_{name} {said}", f"# TYPE {_PREFIX}_{name} {kind}"]
    lines += [
        f"{_PREFIX}_{name}{{{labels}}} {value}" if labels else f"{_PREFIX}_{name} {value}"
        for labels, value in values.items()
    ]
    return "\n".join(lines) + "\n"
