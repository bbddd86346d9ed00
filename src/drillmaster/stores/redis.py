"""A store in Redis or Valkey: each law is a script (`laws/NAME.lua`), and a question is one EVALSHA.

1. A script runs alone, from its first line to its last, and reads the server's TIME.
2. It speaks to one server. A cluster's answer that the key is elsewhere (MOVED) is unavailable.
3. `prepare` writes a mark that never expires. Each new connection looks for it, and each question does: a server that came back
   without its data, that was emptied, or another one at the same address, has none and is unavailable.
4. What Redis has not written to disk is lost with it (`appendfsync`), and a replica may be behind when it takes over. A
   fencing token survives that, since it is never below the server's time; a quota may forget what was spent.
5. A server that throws keys away when memory is short (`maxmemory-policy`) is refused by `prepare`, and unavailable: each
   connection asks for the policy when it is new and then once a second, in front of a question and in the same packet. Who
   set it back between two looks has been seen by nobody. A server that does not tell its policy is not asked again.
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import re
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from drillmaster.errors import Problem, one_line
from drillmaster.rules import AnyLaw
from drillmaster.screen import screen_url
from drillmaster.stores import Unavailable
from drillmaster.stores.carrying import Telling, scripts, words

__all__ = ["AsyncRedisStore", "RedisStore"]

_MISSING = "pip install 'drillmaster[redis]'"
_MARK = "drillmaster:prepared"
_DATABASE = re.compile("(/[0-9]{0,5})?")
_POLICY = re.compile(rb"maxmemory_policy:([^\r\n]*)")
_KEEP = "redis-cli CONFIG SET maxmemory-policy noeviction, or a server of its own"
_THROWS = "it throws keys away when memory is short"
_LOOKS_S = 1.0
_NEVER = float("inf")


class _Said:
    """What both kinds have: how a question is put, how its answer is read, and what each new connection looks for."""

    def __init__(self, url: str, within_s: float) -> None:
        self.url, self.place = url, screen_url(url)
        try:
            import redis
        except ImportError:
            raise Problem(self.place, found="no driver for Redis", wanted="redis-py", remedy=_MISSING) from None
        self.redis: Any = redis
        self.errors: tuple[type[Exception], ...] = (redis.RedisError, OSError, TimeoutError)
        self.within_s = within_s
        self._scripts: dict[str, tuple[bytes, bytes, Telling]] = {}

    def reading(self, library: Any, retry: Any) -> tuple[Any, dict[str, Any]]:
        """Read the URL by the library's own reader: a kind of connection, and its options. Raises Problem where it is none."""
        from redis.backoff import NoBackoff

        try:
            if not self.url.startswith("unix:") and not _DATABASE.fullmatch(urlsplit(self.url).path):
                raise ValueError("a database that is no number, for which the library would take 0")
            read = dict(library.parse_url(self.url))
            kind = read.pop("connection_class", library.Connection)
            options = read | {
                "socket_timeout": self.within_s,
                "socket_connect_timeout": self.within_s,
                "retry_on_error": [],
                "retry": retry(NoBackoff(), 0),  # the library would try three times by itself, past every time limit
                "protocol": 2,
                "driver_info": None,
                "decode_responses": False,
            }
            kind(**options)  # nothing is connected; what it does not know it says
        except (TypeError, ValueError, self.redis.RedisError):
            raise Problem(
                self.place,
                found="a URL that cannot be read",
                wanted="redis://HOST:PORT/DATABASE",
                remedy="name the store by its URL",
            ) from None
        return kind, options

    def law(self, law: AnyLaw) -> tuple[bytes, bytes, Telling]:
        """Give how a question by digest begins, how one by the script's text does, and who reads the answer."""
        if law.name not in self._scripts:
            text = scripts("lua")[law.name].encode()
            sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
            self._scripts[law.name] = _packed(b"EVALSHA", sha), _packed(b"EVAL", text), Telling(law)
        return self._scripts[law.name]

    def words(self, law: AnyLaw, key: str, question: Any, now_us: int | None = None) -> tuple[int, bytes]:
        """Give what follows the script, packed, and how many words that is."""
        base = f"drillmaster:{law.name}:{{={key}}}"
        keys = [base, f"{base}:more"]
        if law.parts is not None:
            keys = [f"{base}{end}:{part}" for part in law.parts(question) for end in ("", ":more")]
        said = ["" if one is None else one for one in words(question)]
        whole = [str(len(keys)), *keys, *said, "" if now_us is None else str(now_us)]
        try:
            return len(whole), _packed(*(one.encode() for one in whole))
        except UnicodeEncodeError:
            raise self.unavailable(ValueError("a name that is no text")) from None

    def check_mark(self, mark: Any) -> None:
        if not mark:
            raise self.redis.exceptions.ResponseError("it is not prepared, or came back without its data")

    def looks_at(self, answer: Any, now: float) -> float:
        """Say when the policy is asked for again, by what the server told of its memory. Raises where it throws keys away."""
        found = _POLICY.search(answer) if isinstance(answer, bytes) else None
        if found is None:
            return _NEVER
        if found[1] not in (b"noeviction", b""):
            raise self.redis.exceptions.ResponseError(
                f"maxmemory-policy {found[1].decode('ascii', 'replace')}: {_THROWS}"
            )
        return now + _LOOKS_S

    def unavailable(self, error: Exception) -> Unavailable:
        found = one_line(str(error)) or type(error).__name__
        return Unavailable(
            self.place,
            found=found,
            wanted="a prepared server that answers in time",
            remedy=_KEEP if found.endswith(_THROWS) else "drillmaster store prepare URL",
        )


class _Wire:
    """A connection's socket, on which all is over when the question's time is; the library bounds each piece by itself."""

    def __init__(self, sock: Any, ends: float) -> None:
        self._sock, self.ends = sock, ends

    def recv(self, most: int) -> bytes:
        self._bound()
        data: bytes = self._sock.recv(most)
        return data

    def recv_into(self, buffer: Any) -> int:
        self._bound()
        count: int = self._sock.recv_into(buffer)
        return count

    def sendall(self, data: bytes) -> None:
        self._bound()
        self._sock.sendall(data)

    def settimeout(self, timeout_s: float | None) -> None:
        """The library's own limits are longer than what is left."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def _bound(self) -> None:
        left_s = self.ends - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer within the time limit")
        self._sock.settimeout(left_s)


class RedisStore:
    def __init__(self, url: str, *, within_s: float) -> None:
        self._said = _Said(url, within_s)
        self.place = self._said.place
        self._within_s = within_s
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._pid = os.getpid()
        self._kind, self._options = self._said.reading(self._said.redis.connection, self._said.redis.retry.Retry)

    def ask(self, law: AnyLaw, key: str, question: Any, *, now_us: int | None = None) -> Any:
        """Answer. `now_us` is for tests of the law: no guard gives it."""
        ends = time.monotonic() + self._within_s
        by_digest, by_text, telling = self._said.law(law)
        count, said = self._said.words(law, key, question, now_us)
        errors = self._said.redis.exceptions
        try:
            while True:
                connection = self._taken()
                kept = connection is not None
                try:
                    if connection is None:
                        greet = functools.partial(self._on_connect, ends)
                        connection = self._kind(redis_connect_func=greet, **self._options)
                        connection.connect()
                    connection._sock.ends = ends
                    try:
                        row = self._put(connection, count, by_digest, said)
                    except errors.NoScriptError:
                        row = self._put(connection, count, by_text, said)
                except errors.TimeoutError:
                    _end(connection)
                    raise
                except errors.ConnectionError:
                    _end(connection)
                    if not kept:
                        raise
                    continue
                except BaseException:
                    _end(connection)
                    raise
                with self._lock:
                    self._idle.append(connection)
                return telling.read(row, self.place)
        except self._said.errors as error:
            raise self._said.unavailable(error) from None

    def prepare(self) -> None:
        redis, place = self._said.redis, self.place
        try:
            with contextlib.closing(redis.Redis.from_url(self._said.url, socket_timeout=10.0)) as client:
                policy = _policy_of(client, redis)
                if policy not in ("noeviction", None):
                    raise Problem(
                        place,
                        found=f"maxmemory-policy {policy}: {_THROWS}",
                        wanted="noeviction: who forgets what was spent grants it again",
                        remedy=_KEEP,
                    )
                for text in scripts("lua").values():
                    client.script_load(text)
                client.set(_MARK, "1")
        except self._said.errors as error:
            raise Problem(
                place,
                found=one_line(str(error)) or type(error).__name__,
                wanted="a server that takes a connection and a write",
                remedy="see that it runs, and that the user may run scripts and set keys",
            ) from None

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            _end(connection)

    def _put(self, connection: Any, count: int, script: bytes, said: bytes) -> Any:
        # Packed here: the library's way to a packed command costs more than the whole answer.
        packed = b"*%d\r\n%b%b" % (2 + count, script, said)
        now = time.monotonic()
        if now < connection._looks:
            connection.send_packed_command((packed,), check_health=False)
            return connection.read_response()
        connection.send_packed_command((_LOOK + packed,), check_health=False)
        self._look(connection, now)
        return connection.read_response()

    def _look(self, connection: Any, now: float) -> None:
        try:
            answer = connection.read_response()
        except self._said.redis.exceptions.ResponseError:  # it may not ask
            answer = None
        connection._looks = self._said.looks_at(answer, now)

    def _taken(self) -> Any:
        if self._pid != os.getpid():  # a parent's connections stay open, and the parent's; its lock may be held
            self._lock, self._idle, self._pid = threading.Lock(), [], os.getpid()
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _on_connect(self, ends: float, connection: Any) -> None:
        connection._sock = _Wire(connection._sock, ends)
        connection.on_connect()
        connection.send_packed_command((_GREETS,), check_health=False)
        self._said.check_mark(connection.read_response())
        self._look(connection, time.monotonic())


class AsyncRedisStore:
    """The same in one event loop."""

    def __init__(self, url: str, *, within_s: float) -> None:
        import redis.asyncio
        import redis.asyncio.retry

        self._said = _Said(url, within_s)
        self.place = self._said.place
        self._within_s = within_s
        self._idle: list[Any] = []
        self._owner: Any = None
        self._kind, self._options = self._said.reading(redis.asyncio.connection, redis.asyncio.retry.Retry)

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        by_digest, by_text, telling = self._said.law(law)
        count, said = self._said.words(law, key, question)
        try:
            async with asyncio.timeout(self._within_s):
                row = await self._asked(count, by_digest, by_text, said)
        except self._said.errors as error:
            raise self._said.unavailable(error) from None
        return telling.read(row, self.place)

    async def close(self) -> None:
        self._own()
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)

    def _own(self) -> None:
        """Forget connections of a loop that is over, or of a parent: neither can be read or closed here."""
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._owner != owner:
            self._idle, self._owner = [], owner

    async def _asked(self, count: int, by_digest: bytes, by_text: bytes, said: bytes) -> Any:
        errors = self._said.redis.exceptions
        self._own()
        while True:
            connection = self._idle.pop() if self._idle else None
            kept = connection is not None
            try:
                if connection is None:
                    connection = self._kind(redis_connect_func=self._on_connect, **self._options)
                    await connection.connect()
                try:
                    row = await self._put(connection, count, by_digest, said)
                except errors.NoScriptError:
                    row = await self._put(connection, count, by_text, said)
            except errors.ConnectionError:
                await _end_async(connection)
                if not kept:
                    raise
                continue
            except BaseException:  # cancelled too: what was asked is still on its way
                await _end_async(connection)
                raise
            self._idle.append(connection)
            return row

    async def _put(self, connection: Any, count: int, script: bytes, said: bytes) -> Any:
        packed = b"*%d\r\n%b%b" % (2 + count, script, said)
        now = time.monotonic()
        if now < connection._looks:
            await connection.send_packed_command((packed,), check_health=False)
            return await connection.read_response()
        await connection.send_packed_command((_LOOK + packed,), check_health=False)
        await self._look(connection, now)
        return await connection.read_response()

    async def _look(self, connection: Any, now: float) -> None:
        try:
            answer = await connection.read_response()
        except self._said.redis.exceptions.ResponseError:  # it may not ask
            answer = None
        connection._looks = self._said.looks_at(answer, now)

    async def _on_connect(self, connection: Any) -> None:
        await connection.on_connect()
        await connection.send_packed_command((_GREETS,), check_health=False)
        self._said.check_mark(await connection.read_response())
        await self._look(connection, time.monotonic())


def _end(connection: Any) -> None:
    if connection is not None:
        connection.disconnect()


async def _end_async(connection: Any) -> None:
    if connection is not None:
        await connection.disconnect(nowait=True)


def _packed(*words: bytes) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


_LOOK = b"*2\r\n" + _packed(b"INFO", b"memory")
_GREETS = b"*2\r\n" + _packed(b"GET", _MARK.encode()) + _LOOK


def _policy_of(client: Any, redis: Any) -> str | None:
    """Ask what the server does when memory is short; None: it does not tell, as a hosted one may not."""
    try:
        return str(client.info("memory").get("maxmemory_policy") or "") or None
    except redis.exceptions.ResponseError:
        return None
