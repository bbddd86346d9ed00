"""A process of our own, from both ends: its owner starts, asks and ends it (`Child`); in it, `main` reads what it is to do.

1. It is `python -m drillmaster.ROOM SETTINGS`, with a control socket that speaks HTTP/1.1 and JSON, and a log. No secret is among
   the settings, which everybody can read in a list of processes.
2. It has started when it answers. It does not end with a terminal's Ctrl-C, which is the owner's to handle; it ends, or passes
   everything through, when its owner is gone.
3. What it says in its log is screened before it is shown.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from drillmaster.errors import Exit, Problem
from drillmaster.screen import screen_text
from drillmaster.timeline.opening import complaint

__all__ = ["Child", "ChildLost", "call_control", "last_lines", "main"]

_CALL_S = 5.0
_TAIL_BYTES = 8_192

_Settings = TypeVar("_Settings")


class ChildLost(Exception):
    """The child did not answer, or not as it should; whether it did what it was told is not known. `why` is for people."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Child:
    """`python -m MODULE SETTINGS`, with its control socket and its log. `called` is what people call it."""

    state_s: ClassVar[float] = 2.0
    """How long an answer to `state` is waited for."""

    def __init__(
        self,
        called: str,
        module: str,
        settings: msgspec.Struct,
        control: Path,
        *,
        log: Path,
        env: Mapping[str, str],
        inherited: Sequence[int | None] = (),
    ) -> None:
        """`env` is its whole environment; the descriptors `inherited` are its own as well, but for those that are None."""
        self.called = called
        self._module = module
        self._settings = msgspec.json.encode(settings).decode()
        self._control = control
        self._log = log
        self._env = dict(env)
        self._inherited = tuple(fd for fd in inherited if fd is not None)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, *, ready_s: float = 10.0) -> int:
        """Start it and wait until it answers; its process id. Raises Problem."""
        try:
            process = await self._spawn()
        except OSError as error:
            found, remedy = complaint(error)
            raise Problem(self.called, found=found, wanted="a process and its log", remedy=remedy) from None
        self._process = process
        give_up = asyncio.get_running_loop().time() + ready_s
        while asyncio.get_running_loop().time() < give_up and process.returncode is None:
            with contextlib.suppress(ChildLost):
                await self.state()
                return process.pid
            await asyncio.sleep(0.02)
        words = last_lines(self._log, 1)
        raise Problem(
            self.called,
            found=f"exit {process.returncode}" + (f" ({words[0]})" if words else "")
            if process.returncode is not None
            else f"no answer in {ready_s:g} s",
            wanted=f"a{self.called.removeprefix('the')} that answers on its control socket",
            remedy=f"see {self._log}",
        )

    async def _spawn(self) -> asyncio.subprocess.Process:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._control)  # noqa: PTH108  # one call on a local name
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self._module,
                self._settings,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=self._inherited,
                env=self._env,
                start_new_session=True,  # a Ctrl-C in the terminal is the owner's to handle
            )
        finally:
            os.close(log)

    async def wait(self) -> int:
        """Wait until it is gone; its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def state(self) -> dict[str, Any]:
        """What it says of itself. Raises ChildLost."""
        status, body = await self.call("GET", "/state", within_s=self.state_s)
        if status != 200:
            raise ChildLost(f"GET /state: status {status}")
        return body

    def kill(self) -> None:
        """End one that does not answer; whoever waits for it starts another."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def quit(self, why: str | None = None, *, within_s: float = 8.0) -> int:
        """Ask it to end, insist after half the time; its exit code."""
        assert self._process is not None
        with contextlib.suppress(ChildLost):
            await self.call("POST", "/quit", {} if why is None else {"why": why})
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s / 2):
                    return await self._process.wait()
        return await self._process.wait()

    async def order(self, path: str, body: Mapping[str, Any], *, also: Sequence[int] = ()) -> int:
        """POST an order; its status, 200 or one of `also`. Raises ChildLost."""
        status, said = await self.call("POST", path, body)
        if status != 200 and status not in also:
            raise ChildLost(f"POST {path}: status {status} {said.get('error', '')}".rstrip())
        return status

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, within_s: float = _CALL_S
    ) -> tuple[int, dict[str, Any]]:
        return await call_control(self._control, method, path, body, within_s=within_s)


async def call_control(
    control: Path, method: str, path: str, body: Mapping[str, Any] | None = None, *, within_s: float = _CALL_S
) -> tuple[int, dict[str, Any]]:
    """Ask a control socket; status and JSON body. Raises ChildLost."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: control\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_unix_connection(control)
            try:
                writer.write(head.encode() + content)
                await writer.drain()
                answer = await reader.read(1 << 20)
                while piece := await reader.read(1 << 20):
                    answer += piece
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise ChildLost(f"{method} {path}: {type(error).__name__}") from None
    top, _, rest = answer.partition(b"\r\n\r\n")
    try:
        status = int(top.split(b" ", 2)[1])
        found = json.loads(rest) if rest.strip() else {}
    except (IndexError, ValueError):
        raise ChildLost(f"{method} {path}: an answer that is none") from None
    return status, found if isinstance(found, dict) else {}


def last_lines(log: Path, count: int, *, max_chars: int = 200) -> tuple[str, ...]:
    """The last lines of a log that say something, screened, without a character that a terminal would obey."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    found = (
        re.sub(r"[^\x20-\x7e\xa0-\U0010ffff]", " ", screen_text(line)).strip()[:max_chars] for line in text.splitlines()
    )
    return tuple(line for line in found if line)[-count:]


def main(module: str, kind: type[_Settings], run: Callable[[_Settings], int], argv: Sequence[str], *, verb: str) -> int:
    """Run what the one argument says; the exit code. `verb` is what people use in place of this.

    2: it is no settings, or what it asks for cannot start; the last line on standard error says why.
    """
    if len(argv) != 2:
        print(f"usage: python -m {module} JSON   (people use: drillmaster {verb})", file=sys.stderr)
        return Exit.REFUSED
    try:
        return run(msgspec.json.decode(argv[1].encode(), type=kind))
    except msgspec.DecodeError as error:
        print(f"{module}: settings: {error}", file=sys.stderr)
    except Problem as problem:
        print(f"{module}: {problem}", file=sys.stderr)
    return Exit.REFUSED
