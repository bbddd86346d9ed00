"""A child process that answers on a control socket: the proxy, the flag server, the listener. Started, asked, ended.

None of them ends with a terminal's Ctrl-C, which is the conductor's to handle; each ends, or passes everything through, when its
owner is gone.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drillmaster.errors import Problem
from drillmaster.run.injecting import InjectorLost
from drillmaster.run.output import last_lines
from drillmaster.timeline.opening import complaint

__all__ = ["Child", "call_control"]

_CALL_S = 5.0
_STATE_S = 2.0


class Child:
    """`python -m MODULE SETTINGS`, with its control socket and its log. `called` is what people call it."""

    def __init__(
        self,
        called: str,
        module: str,
        settings: str,
        control: Path,
        *,
        log: Path,
        env: Mapping[str, str],
        inherited: Sequence[int] = (),
    ) -> None:
        self.called = called
        self._module = module
        self._settings = settings
        self._control = control
        self._log = log
        self._env = env
        self._inherited = tuple(inherited)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, *, ready_s: float = 10.0) -> int:
        """Start it and wait until it answers. Raises Problem."""
        try:
            process = await self._spawn()
        except OSError as error:
            found, remedy = complaint(error)
            raise Problem(self.called, found=found, wanted="a process and its log", remedy=remedy) from None
        self._process = process
        give_up = asyncio.get_running_loop().time() + ready_s
        while asyncio.get_running_loop().time() < give_up and process.returncode is None:
            with contextlib.suppress(InjectorLost):
                await self.state()
                return process.pid
            await asyncio.sleep(0.02)
        words = last_lines(self._log, 1)
        raise Problem(
            self.called,
            found=f"exit {process.returncode}" + (f" ({words[0]})" if words else "")
            if process.returncode is not None
            else f"no answer in {ready_s:g} s",
            wanted=f"{self._kind} that answers on its control socket",
            remedy=f"see {self._log}",
        )

    @property
    def _kind(self) -> str:
        return "a" + self.called.removeprefix("the")

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
                env=dict(self._env),
                start_new_session=True,  # a Ctrl-C in the terminal is the conductor's to handle
            )
        finally:
            os.close(log)

    async def wait(self) -> int:
        """Wait until it is gone; its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def state(self) -> dict[str, Any]:
        """What it says of itself. Raises InjectorLost."""
        status, body = await self.call("GET", "/state", within_s=_STATE_S)
        if status != 200:
            raise InjectorLost(f"GET /state: status {status}")
        return body

    def kill(self) -> None:
        """End one that does not answer; whoever waits for it starts another."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def quit(self, *, within_s: float = 8.0) -> int:
        """Ask it to end, insist after half the time; its exit code."""
        assert self._process is not None
        with contextlib.suppress(InjectorLost):
            await self.call("POST", "/quit", {})
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s / 2):
                    return await self._process.wait()
        return await self._process.wait()

    async def order(self, path: str, body: Mapping[str, Any], *, also: Sequence[int] = ()) -> int:
        """POST an order; its status, 200 or one of `also`. Raises InjectorLost."""
        status, said = await self.call("POST", path, body)
        if status != 200 and status not in also:
            raise InjectorLost(f"POST {path}: status {status} {said.get('error', '')}".rstrip())
        return status

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, within_s: float = _CALL_S
    ) -> tuple[int, dict[str, Any]]:
        return await call_control(self._control, method, path, body, within_s=within_s)


async def call_control(
    control: Path, method: str, path: str, body: Mapping[str, Any] | None = None, *, within_s: float = _CALL_S
) -> tuple[int, dict[str, Any]]:
    """Ask a control socket; status and JSON body. Raises InjectorLost."""
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
        raise InjectorLost(f"{method} {path}: {type(error).__name__}") from None
    top, _, rest = answer.partition(b"\r\n\r\n")
    try:
        status = int(top.split(b" ", 2)[1])
        found = json.loads(rest) if rest.strip() else {}
    except (IndexError, ValueError):
        raise InjectorLost(f"{method} {path}: an answer that is none") from None
    return status, found if isinstance(found, dict) else {}
