"""The flag server as an injector: flags on for a window, renewed while the drill is well, and the kill switch tried.

1. The server holds the deadline; workers go by its lease. A conductor that dies leaves no flag on.
2. "Gone" is what workers say: the flags are off, and every worker that is heard holds a state from after that.
3. A kill is given as people give it, over HTTP and with a token of its own. It is durable by design, so it is restored on every
   way out but a killed conductor's; what then helps is on the page of the kit.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster.child import Child, ChildLost
from drillmaster.flags.settings import Settings
from drillmaster.friday.flags import Switched
from drillmaster.run.course import Turn

__all__ = ["FlagsPart"]

_HTTP_S = 5.0


class FlagsPart(Child):
    """`python -m drillmaster.flags`, behind a listening socket that stays ours: a killed server is replaced behind it."""

    started = "flags_started"
    exited = "flags_exited"
    evidence = "events/flags.jsonl"
    log = "flags.log"

    def __init__(self, settings: Settings, control: Path, *, log: Path, env: Mapping[str, str], url: str) -> None:
        super().__init__(
            "the flag server",
            "drillmaster.flags",
            settings,
            control,
            log=log,
            env=env,
            inherited=(settings.listen_fd,),
        )
        self._url = url
        self._kill_token = Path(settings.kill_token_file or os.devnull).read_text("ascii").strip()

    async def state(self) -> dict[str, Any]:
        said = await super().state()
        return {**said, "counts": {"evidence_lost": said.get("lost_lines", 0), "met": said.get("met", 0)}}

    async def inject(self, turn: Turn, *, ttl_s: float) -> None:
        flags = [_given(one) for one in turn.rules if isinstance(one, Switched)]
        await self.order("/inject", {"window": turn.window, "flags": flags, "ttl_s": ttl_s})

    async def renew(self, window: str, *, ttl_s: float) -> bool:
        return await self.order("/renew", {"window": window, "ttl_s": ttl_s}, also=(404,)) == 200

    async def lift(self, window: str, why: str) -> None:
        await self.order("/lift", {"window": window, "why": why})

    async def gone(self) -> tuple[bool, str]:
        try:
            said = await self.state()
        except ChildLost as lost:
            return False, lost.why
        on, revision = said.get("on") or [], said.get("revision")
        behind = [one for one in said.get("workers") or [] if not one.get("lost") and one.get("held") != revision]
        why = f"{len(on)} flags on, {len(behind)} of {len(said.get('workers') or [])} workers do not hold the latest state"
        return not on and not behind, why

    def forewarn(self, turn: Turn) -> Iterator[str]:
        yield from ()

    async def switch(self, verb: str, capability: str) -> None:
        """Kill a capability, or restore it (`verb`). Raises ChildLost."""
        status, said = await _post(self._url, f"/{verb}/{capability}", self._kill_token)
        if status != 200:
            raise ChildLost(f"POST /{verb}/{capability}: {said or status}")


def _given(one: Switched) -> dict[str, Any]:
    """As the server takes it: what is not said is the registry's to say."""
    return {name: value for name, value in msgspec.to_builtins(one).items() if value not in (None, {})}


async def _post(url: str, path: str, token: str) -> tuple[int, str]:
    parts = urlsplit(url)
    head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Length: 0\r\nConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(_HTTP_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(head.encode())
                await writer.drain()
                answer = await reader.read(1 << 16)
                while piece := await reader.read(1 << 16):
                    answer += piece
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        return 0, type(error).__name__
    top, _, body = answer.partition(b"\r\n\r\n")
    with contextlib.suppress(IndexError, ValueError):
        return int(top.split(b" ", 2)[1]), body.decode("utf-8", "replace")[:200]
    return 0, "an answer that is none"
