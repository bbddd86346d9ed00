"""A worker's transcripts: what was said in a mission, in a file of this process's own, and nothing that can hurt the mission.

1. No DRILL_TRANSCRIPTS, or no mission in the request: everything here looks and returns. The variable is read at each mission.
2. Nothing is raised into the worker. A disk that is full, gone or slow costs lines, which are counted and told: once on stderr,
   and in the file (`lost`) as soon as it takes a line again.
3. A record is one `write`, when it is over. After one that took more than half a second the next go to a queue and a thread, as
   the lines of `mark` do; that takes all that waits in one write, so that it catches up with many. What took less was the
   machine's doing more often than the disk's, and what waits in a queue is lost with a process that is killed.
4. What is written is screened first, with its length kept. A process that is killed leaves at most one torn line.
5. A mission that goes on in a forked child is the parent's to tell: the child writes nothing of it.
"""

import contextlib
import errno
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from time import monotonic_ns
from types import TracebackType
from typing import Any, Self

from drillmaster.rules.transcripts import MISSION
from drillmaster.timeline.marks import Marks
from drillmaster.transcripts.composing import RECORD_CAP_BYTES, Composer, Piece, Record, as_bytes, lost_line
from drillmaster.transcripts.redacting import redact_headers, redact_url

__all__ = ["HEADER", "Mission", "Stream", "current", "mission", "mission_of"]

HEADER = "x-drill-mission"
_OF_RUN = "x-drill-run"
STALL_NS = 500_000_000
_AT_ONCE = 512  # records that the thread writes in one piece
_environ = os.environb
_SAID_PIECES = 100_000  # of one stream; behind that they are put together

Headers = Any
"""A mapping, pairs, or what a framework calls headers; text or bytes."""


class _Lines(Marks):
    """The file of this process, with the manners of `mark`: no line waits for a disk that is slow, none is lost unsaid."""

    def __init__(self, write: Callable[[int, bytes], int] = os.write) -> None:
        super().__init__(write)
        self._files: dict[tuple[bytes, int], bytes] = {}
        self._token = os.urandom(4).hex()
        self.run = ""

    def put(self, lines: bytes) -> None:
        folder = _environ.get(b"DRILL_TRANSCRIPTS")
        if not folder:
            self.lose("gone", "DRILL_TRANSCRIPTS was there when the mission began, and is not any more")
            return
        name = self._own_file(folder)
        # As long as anything waits or is under way there, what follows goes the same way: a mission's lines keep their order.
        if (self._stalled or self._draining or not self._queue.empty()) and not self._ending:
            self._enqueue(name, lines)
            return
        before_ns = monotonic_ns()
        self._put(name, lines, before_ns)
        if monotonic_ns() - before_ns > STALL_NS:
            self._stalled = True

    def _own_file(self, folder: bytes) -> bytes:
        key = (folder, os.getpid())
        name = self._files.get(key)
        if name is None:
            if len(self._files) > 64:
                self._files.clear()
            with contextlib.suppress(OSError):  # whoever opens the file says what is wrong
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - bytes
            name = self._files[key] = os.path.join(  # noqa: PTH118 - bytes
                folder, b"worker-%d-%b.ndjson" % (key[1], self._token.encode())
            )
        return name

    def _drain(self) -> None:
        queue = self._queue  # a forked child has another
        while True:
            name, line = queue.get()
            self._busy = True
            lines, kept = [line], None
            while len(lines) < _AT_ONCE and not queue.empty():
                kept = queue.get()
                if kept[0] != name:
                    break
                lines.append(kept[1])
                kept = None
            before_ns, lost = monotonic_ns(), self._lost
            try:
                self._put(name, b"".join(lines), before_ns)
                if self._lost > lost:
                    self.lose("stalled", "", len(lines) - 1)
                if kept is not None:
                    self._put(kept[0], kept[1], before_ns)
            except Exception as error:  # noqa: BLE001 - the thread that saves lines does not end because of one of them
                self.lose("unexpected", f"lines were lost: {type(error).__name__}", len(lines))
            self._busy = False
            if monotonic_ns() - before_ns <= STALL_NS and queue.empty():
                self._stalled = False
                self._draining = False
                if queue.empty():
                    return
                self._draining = True

    def _write(self, fd: int, line: bytes) -> None:
        # Behind a part of a line the second try begins a line of its own.
        if self._system_write(fd, line) != len(line) and self._system_write(fd, b"\n" + line) != len(line) + 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _confess(self, fd: int) -> None:
        with self._counting:
            lost, self._lost = self._lost, 0
        line = b"\n" + lost_line(self.run, lost)  # a file that took no line may have taken a part of one
        try:
            wrote = self._system_write(fd, line)
        except OSError:
            wrote = 0
        if wrote != len(line):
            with self._counting:
                self._lost += lost

    def say(self, kind: str, text: str) -> None:
        if kind in self._said or not text:
            return
        self._said.add(kind)
        try:
            sys.stderr.write(f"drillmaster.transcript: {text.replace('DRILL_LOG=', 'DRILL_TRANSCRIPTS: ')}\n")
        except Exception:  # noqa: BLE001 - there is nobody to tell
            self._said.add("stderr")


_lines = _Lines()
_parts = itertools.count(1)


class Mission:
    """The transcript of one mission in this process: a context manager; what was begun is ended, with whether it went well.

    Without a drill it is one object that does nothing and is false.
    """

    def __init__(self, name: str = "", run: str = "") -> None:
        self.id = name
        self._pid = os.getpid() if name else 0
        self._composer = Composer(name, run, str(next(_parts)), _lines.put) if name else None
        self._calls = itertools.count(1)
        self._ok: bool | None = None
        self._outer: Token[Mission] | None = None

    def __bool__(self) -> bool:
        return self._composer is not None

    # -- what is said --

    def user(
        self, body: object = None, *, method: str = "", url: str = "", headers: Headers = (), **fields: object
    ) -> None:
        """A message of the user, as it came: each request, or each message of a WebSocket, is one."""
        self._say("user", _request(method, url, headers, fields), body)

    def model_request(
        self, body: object = None, *, url: str = "", method: str = "POST", headers: Headers = (), **fields: object
    ) -> str:
        """What goes to a model. Gives the name of the call, which the response is recorded with."""
        return self._call("model_request", "m", _request(method, url, headers, fields), body)

    def model_response(
        self,
        call: str,
        body: object = None,
        *,
        status: int | None = None,
        headers: Headers = (),
        pieces: Iterable[tuple[float, bytes]] | None = None,
        error: BaseException | str | None = None,
        **fields: object,
    ) -> None:
        """What came from a model: whole, or in pieces with the milliseconds at which each came; or the error instead."""
        self._say("model_response", {"call": call, **_response(status, headers, error, fields)}, body, pieces)

    def tool_call(
        self,
        tool: str,
        arguments: object = None,
        *,
        body: object = None,
        url: str = "",
        method: str = "",
        headers: Headers = (),
        **fields: object,
    ) -> str:
        """A tool that is called, once for each attempt. Gives the name of the call."""
        return self._call(
            "tool_call", "t", {"tool": tool, "arguments": arguments, **_request(method, url, headers, fields)}, body
        )

    def tool_result(
        self,
        call: str,
        result: object = None,
        *,
        ok: bool = True,
        body: object = None,
        status: int | None = None,
        headers: Headers = (),
        pieces: Iterable[tuple[float, bytes]] | None = None,
        error: BaseException | str | None = None,
        **fields: object,
    ) -> None:
        """What a tool gave back; `ok` False where it failed."""
        said: dict[str, Any] = {"call": call, "ok": ok and error is None}
        if result is not None:
            said["result"] = result
        self._say("tool_result", {**said, **_response(status, headers, error, fields)}, body, pieces)

    def answer(
        self,
        body: object = None,
        *,
        status: int | None = None,
        headers: Headers = (),
        pieces: Iterable[tuple[float, bytes]] | None = None,
        **fields: object,
    ) -> None:
        """What the user gets: whole, or in pieces (chunks of a stream, frames of a WebSocket)."""
        if status is not None and status >= 500:
            self._ok = False
        self._say("answer", _response(status, headers, None, fields), body, pieces)

    def stream(self, kind: str, call: str = "", *, status: int | None = None, headers: Headers = ()) -> "Stream":
        """Record something that comes in pieces: `model_response`, `tool_result` or `answer`."""
        fields = {**({"call": call} if call else {}), **({"ok": True} if kind == "tool_result" else {})}
        return Stream(self, kind, {**fields, **_response(status, headers, None, {})})

    def failed(self) -> None:
        """Say that the mission did not go well, where nothing is raised that would say so."""
        self._ok = False

    def end(self, *, ok: bool | None = None) -> None:
        """End the part; twice does no harm. `ok` None: as far as it was seen."""
        self._ok = ok if ok is not None else self._ok is not False
        self._say("ended", {"ok": self._ok})

    # -- how --

    def _call(self, kind: str, letter: str, fields: dict[str, Any], body: object) -> str:
        if self._composer is None:
            return ""
        call = f"{letter}{next(self._calls)}"
        self._say(kind, {"call": call, **fields}, body)
        return call

    def _say(
        self,
        kind: str,
        fields: dict[str, Any],
        body: object = None,
        pieces: Iterable[tuple[float, bytes]] | None = None,
    ) -> None:
        composer = self._composer
        if composer is None or self._pid != os.getpid():
            return
        try:
            if pieces is not None:
                composer.put(Record(kind, fields, pieces=[Piece(at_ms, data) for at_ms, data in pieces]))
            else:
                composer.put(Record(kind, fields, body=None if body is None else as_bytes(body)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the user's request is not where it may end
            _lines.lose("unexpected", f"a line was lost: {type(error).__name__}")

    def __enter__(self) -> Self:
        if self._composer is not None:
            self._outer = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._composer is None:
            return
        if self._outer is not None:
            try:
                _current.reset(self._outer)
            except ValueError:  # ended in another context than it began in
                _current.set(_NOTHING)
        self.end(ok=False if error is not None else None)


class Stream:
    """Something that comes in pieces, kept until its end with the pace of it, at most 4 MiB."""

    def __init__(self, mission: Mission, kind: str, fields: dict[str, Any]) -> None:
        self._mission = mission
        self._kind = kind
        self._fields = fields
        self._began_ns = monotonic_ns()
        self._pieces: list[tuple[float, bytes]] = []
        self._bytes = 0
        self._clipped = 0
        self._over = not mission

    def piece(self, data: bytes | str) -> None:
        """What came just now."""
        if self._over:
            return
        data = as_bytes(data)
        if self._bytes >= RECORD_CAP_BYTES or len(self._pieces) >= _SAID_PIECES:
            self._clipped += len(data)
            return
        self._bytes += len(data)
        self._pieces.append(((monotonic_ns() - self._began_ns) / 1e6, data))

    def end(self, *, error: BaseException | str | None = None) -> None:
        """It is over, or broke off; twice does no harm."""
        if self._over:
            return
        self._over = True
        fields = self._fields
        if error is not None:
            fields = {**fields, "error": _named(error), **({"ok": False} if "ok" in fields else {})}
        if self._clipped:
            fields = {**fields, "dropped_bytes": self._clipped}
        self._mission._say(self._kind, fields, pieces=self._pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end(error=error)


_NOTHING = Mission()
_current: ContextVar[Mission] = ContextVar("drillmaster_mission", default=_NOTHING)


def mission(source: Headers, *, entry: str = "http", **fields: object) -> Mission:
    """Begin the transcript of a request: `with mission(request.headers) as said:`. `source` is its headers, or the id itself.

    Which run it is of the header X-Drill-Run says, and where there is none DRILL_RUN in the environment.
    `entry` is `http` or `websocket`. Costs a look into the environment where there is no drill.
    """
    if not _environ.get(b"DRILL_TRANSCRIPTS"):
        return _NOTHING
    try:
        name = source if isinstance(source, str) else mission_of(source)
        if not name:
            return _NOTHING
        if MISSION.fullmatch(name) is None:
            _lines.say("name", "a mission's id is 1 to 40 letters, digits, dots, dashes or underscores")
            return _NOTHING
        # A worker that was there before the drill cannot have been told by its environment.
        run = "" if isinstance(source, str) else _named_in(source, _OF_RUN)
        if MISSION.fullmatch(run) is None:
            run = _environ.get(b"DRILL_RUN", b"").decode("utf-8", "replace")
        if not run:
            _lines.say("run", "no X-Drill-Run and no DRILL_RUN: no run will take these transcripts for its own")
        _lines.run = run
        begun = Mission(name, run)
        begun._say("started", {"entry": entry, "pid": os.getpid(), **fields})
    except Exception as error:  # noqa: BLE001 - whatever it is, the user's request is not where it may end
        _lines.lose("unexpected", f"a line was lost: {type(error).__name__}")
        return _NOTHING
    return begun


def current() -> Mission:
    """The mission that is under way here, in this thread or task; where there is none, the one that does nothing."""
    return _current.get()


def mission_of(headers: Headers) -> str:
    """Find the mission's id among headers: a mapping (WSGI's too) or pairs, in text or bytes; "" where there is none."""
    return _named_in(headers, HEADER)


def _named_in(headers: Headers, wanted: str) -> str:
    if headers is None:
        return ""
    if hasattr(headers, "get"):
        for name in (wanted, wanted.title(), f"HTTP_{wanted.upper().replace('-', '_')}"):
            value = headers.get(name)
            if value is not None:
                return _text(value).strip()
    for name, value in _pairs(headers):
        if name.lower() == wanted:
            return value.strip()
    return ""


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    # Fields may come more than once: frameworks have their own word for all of them.
    named = next((name for name in ("raw_items", "multi_items", "items") if hasattr(headers, name)), None)
    found: Iterable[tuple[Any, Any]] = headers if named is None else getattr(headers, named)()
    return [(_text(name), _text(value)) for name, value in found]


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _request(method: str, url: str, headers: Headers, fields: dict[str, object]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if method:
        said["method"] = method
    if url:
        said["url"] = redact_url(str(url))
    if headers:
        said["headers"] = redact_headers(_pairs(headers))
    return {**fields, **said}


def _response(
    status: int | None, headers: Headers, error: BaseException | str | None, fields: dict[str, object]
) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if status is not None:
        said["status"] = status
    if headers:
        said["headers"] = redact_headers(_pairs(headers))
    if error is not None:
        said["error"] = _named(error)
    return {**fields, **said}


def _named(error: BaseException | str) -> str:
    return error if isinstance(error, str) else type(error).__name__
