"""A store in Redis or Valkey: each law is a script (`laws/NAME.lua`), and a question is one EVALSHA.

1. A script runs alone, from its first line to its last, and reads the server's TIME.
2. Both of a question's keys have one hash tag, so that they lie in one slot of a cluster.
3. `prepare` writes a mark that never expires. Each new connection looks for it once: a server that came back without its data,
   or another one at the same address, has none and is unavailable.
4. What Redis has not written to disk is lost with it (`appendfsync`), and a replica may be behind when it takes over. A
   fencing token survives that, since it is never below the server's time; a quota may forget what was spent. `prepare`
   refuses a server that throws keys away when memory is short (`maxmemory-policy`).
"""

import asyncio
import contextlib
import hashlib
import os
import threading
from typing import Any

from drillmaster.errors import Problem, one_line
from drillmaster.rules import AnyLaw
from drillmaster.screen import screen_url
from drillmaster.stores import Unavailable
from drillmaster.stores.carrying import Telling, scripts, words

__all__ = ["AsyncRedisStore", "RedisStore"]

_MISSING = "pip install 'drillmaster[redis]'"
_MARK = "drillmaster:prepared"


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
        self.options: dict[str, Any] = {
            "socket_timeout": within_s,
            "socket_connect_timeout": within_s,
            "retry_on_error": [],
            "client_name": "drillmaster",
        }
        self._scripts: dict[str, tuple[str, str, Telling]] = {}

    def script(self, law: AnyLaw) -> tuple[str, str, Telling]:
        if law.name not in self._scripts:
            text = scripts("lua")[law.name]
            sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            self._scripts[law.name] = sha, text, Telling(law)
        return self._scripts[law.name]

    def arguments(self, law: AnyLaw, key: str, question: Any, now_us: int | None = None) -> list[str | int]:
        base = f"drillmaster:{law.name}:{{={key}}}"
        said = ["" if one is None else one for one in words(question)]
        return [2, base, f"{base}:more", *said, "" if now_us is None else str(now_us)]

    def check_mark(self, mark: Any) -> None:
        if not mark:
            raise self.redis.exceptions.ResponseError("it is not prepared, or came back without its data")

    def unavailable(self, error: Exception) -> Unavailable:
        return Unavailable(
            self.place,
            found=one_line(str(error)) or type(error).__name__,
            wanted="a prepared server that answers in time",
            remedy="drillmaster store prepare URL",
        )


class RedisStore:
    def __init__(self, url: str, *, within_s: float) -> None:
        self._said = _Said(url, within_s)
        self.place = self._said.place
        self._lock = threading.Lock()
        self._client: Any = None
        self._pid = 0

    def ask(self, law: AnyLaw, key: str, question: Any, *, now_us: int | None = None) -> Any:
        """Answer. `now_us` is for tests of the law: no guard gives it."""
        sha, text, telling = self._said.script(law)
        arguments = self._said.arguments(law, key, question, now_us)
        errors = self._said.redis.exceptions
        client = self._own()
        try:
            try:
                row = client.execute_command("EVALSHA", sha, *arguments)
            except errors.NoScriptError:
                row = client.execute_command("EVAL", text, *arguments)
            except errors.TimeoutError:
                raise
            except errors.ConnectionError:
                row = client.execute_command("EVAL", text, *arguments)
        except self._said.errors as error:
            raise self._said.unavailable(error) from None
        return telling.read(row, self.place)

    def prepare(self) -> None:
        redis, place = self._said.redis, self.place
        try:
            with contextlib.closing(redis.Redis.from_url(self._said.url, socket_timeout=10.0)) as client:
                policy = _policy_of(client, redis)
                if policy not in ("noeviction", None):
                    raise Problem(
                        place,
                        found=f"maxmemory-policy {policy}: it throws keys away when memory is short",
                        wanted="noeviction: who forgets what was spent grants it again",
                        remedy="redis-cli CONFIG SET maxmemory-policy noeviction, or a server of its own",
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
            if self._client is not None and self._pid == os.getpid():
                self._client.close()
            self._client = None

    def _own(self) -> Any:
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                self._client = self._said.redis.Redis.from_url(
                    self._said.url,
                    redis_connect_func=self._on_connect,
                    retry=_no_retry(self._said.redis.retry.Retry),
                    **self._said.options,
                )
                self._pid = os.getpid()
            return self._client

    def _on_connect(self, connection: Any) -> None:
        connection.on_connect()
        connection.send_command("GET", _MARK)
        self._said.check_mark(connection.read_response())


class AsyncRedisStore:
    """The same in one event loop."""

    def __init__(self, url: str, *, within_s: float) -> None:
        self._said = _Said(url, within_s)
        self.place = self._said.place
        self._within_s = within_s
        self._client: Any = None

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        sha, text, telling = self._said.script(law)
        arguments = self._said.arguments(law, key, question)
        errors = self._said.redis.exceptions
        client = self._own()
        try:
            async with asyncio.timeout(self._within_s):
                try:
                    row = await client.execute_command("EVALSHA", sha, *arguments)
                except errors.NoScriptError:
                    row = await client.execute_command("EVAL", text, *arguments)
                except errors.TimeoutError:
                    raise
                except errors.ConnectionError:
                    row = await client.execute_command("EVAL", text, *arguments)
        except self._said.errors as error:
            raise self._said.unavailable(error) from None
        return telling.read(row, self.place)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _own(self) -> Any:
        if self._client is None:
            import redis.asyncio
            import redis.asyncio.retry

            self._client = redis.asyncio.Redis.from_url(
                self._said.url,
                redis_connect_func=self._on_connect,
                retry=_no_retry(redis.asyncio.retry.Retry),
                **self._said.options,
            )
        return self._client

    async def _on_connect(self, connection: Any) -> None:
        await connection.on_connect()
        await connection.send_command("GET", _MARK)
        self._said.check_mark(await connection.read_response())


def _no_retry(kind: Any) -> Any:
    """The library would try three times more by itself, past every time limit."""
    from redis.backoff import NoBackoff

    return kind(NoBackoff(), 0)


def _policy_of(client: Any, redis: Any) -> str | None:
    """Ask what the server does when memory is short; None: it does not tell, as a hosted one may not."""
    try:
        return str(client.info("memory").get("maxmemory_policy") or "") or None
    except redis.exceptions.ResponseError:
        return None
