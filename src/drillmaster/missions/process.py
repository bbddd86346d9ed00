"""The driver as its owner sees it: a child process with a control socket.

A drill starts it once and never again: a driver that dies within a drill leaves a gap in the load, and a second one would
hide it. What it had written stays.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.errors import Problem
from drillmaster.missions.settings import Settings
from drillmaster.timeline.opening import complaint

__all__ = ["Driver", "DriverLost"]

_CALL_S = 5.0


class DriverLost(Exception):
    """The driver did not answer, or not as it should. `why` is for people."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Driver:
    """One child: `start`, `begin`, `no_more`, `wait`; `quit` where it is to end at once."""

    def __init__(self, settings: Settings, *, log: Path, env: Mapping[str, str]) -> None:
        """`settings.control_path` is set. `env` is the child's whole environment: headers take `${NAME}` from there."""
        assert settings.control_path is not None
        self._settings = settings
        self._control = Path(settings.control_path)
        self._log = log
        self._env = dict(env)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, *, ready_s: float = 15.0) -> int:
        """Start the child, and wait until it answers; nothing is sent yet. Its process id. Raises Problem."""
        try:
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "drillmaster.missions",
                    msgspec.json.encode(self._settings).decode(),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._env,
                    start_new_session=True,  # a Ctrl-C in the terminal is the conductor's to handle
                )
            finally:
                os.close(log)
        except OSError as error:
            found, remedy = complaint(error)
            raise Problem("the missions", found=found, wanted="a process and its log", remedy=remedy) from None
        self._process = process
        give_up = asyncio.get_running_loop().time() + ready_s
        while asyncio.get_running_loop().time() < give_up and process.returncode is None:
            with contextlib.suppress(DriverLost):
                await self.state()
                return process.pid
            await asyncio.sleep(0.02)
        said = self.last_words()
        if process.returncode is None:
            process.kill()
            await process.wait()
            found = f"no answer in {ready_s:g} s"
        else:
            found = f"exit {process.returncode}" + (f" ({said})" if said else "")
        if said.startswith("drillmaster.missions: ") and ": found " in said:
            raise Problem.of(
                said.removeprefix("drillmaster.missions: "), place="missions", wanted="a driver that starts"
            )
        raise Problem("the missions", found=found, wanted="a driver that answers", remedy=f"see {self._log}")

    def last_words(self) -> str:
        """The last line of its log; empty: it said nothing."""
        with contextlib.suppress(OSError):
            lines = self._log.read_bytes()[-8_192:].decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    async def state(self) -> dict[str, Any]:
        """What is going on (`driver.Driver.told`). Raises DriverLost."""
        return await self._call("GET", "/state")

    async def begin(self, start_ns: int | None = None) -> dict[str, Any]:
        """Have missions begin, at that moment of the monotonic clock or now. Raises DriverLost."""
        return await self._call("POST", "/start", {} if start_ns is None else {"start_ns": start_ns})

    async def no_more(self, why: str = "ordered") -> dict[str, Any]:
        """Have none begun any more; the child ends by itself when those under way have. Raises DriverLost."""
        return await self._call("POST", "/no_more", {"why": why})

    async def wait(self) -> int:
        """Wait until the child is gone; its exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def quit(self, why: str = "ordered", *, within_s: float = 8.0) -> int:
        """Have what is under way cut, and the child end; insist after half the time. Its exit code."""
        assert self._process is not None
        with contextlib.suppress(DriverLost):
            await self._call("POST", "/quit", {"why": why})
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s / 2):
                    return await self._process.wait()
        return await self._process.wait()

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: control\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(_CALL_S):
                reader, writer = await asyncio.open_unix_connection(self._control)
                try:
                    writer.write(head.encode() + content)
                    await writer.drain()
                    answer = await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise DriverLost(f"{method} {path}: {type(error).__name__}") from None
        top, _, rest = answer.partition(b"\r\n\r\n")
        try:
            status, found = int(top.split(b" ", 2)[1]), json.loads(rest)
        except (IndexError, ValueError):
            raise DriverLost(f"{method} {path}: an answer that is none") from None
        if status != 200 or not isinstance(found, dict):
            raise DriverLost(
                f"{method} {path}: status {status} {found.get('error', '') if isinstance(found, dict) else ''}"
            )
        return found
