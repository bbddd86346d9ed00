"""The parts of a drill as the conductor knows them, and the two that are processes: the worker and the proxy.

The worker ends with the drill, whatever becomes of the drill. The proxy does not: it outlives a killed conductor, lets
its fault expire and passes through, since an agent's way to its model must not die of the drill.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.child import Child, ChildLost, last_lines
from drillmaster.errors import Problem
from drillmaster.plan import Worker
from drillmaster.proxy.purse import LEDGER_BYTES
from drillmaster.proxy.settings import Settings
from drillmaster.run.course import Turn
from drillmaster.run.forewarn import forewarnings
from drillmaster.run.keeper import PR_SET_CHILD_SUBREAPER, children, prctl
from drillmaster.run.output import OutputCopy
from drillmaster.run.tail import Tail
from drillmaster.run.upstream import probe_proxy
from drillmaster.targeting import Rule
from drillmaster.timeline.opening import complaint

__all__ = ["ProxyPart", "WorkerPart", "bind", "listen_url"]

KEEPER = Path(__file__).with_name("keeper.py")
FALLEN_GRACE_S = 1.0
_FALLEN_S = 5.0
_LAST_WORDS_S = 0.5


class ProxyPart(Child):
    """The wire proxy as a child, with the listening socket that stays ours: a killed proxy is replaced behind it."""

    started = "proxy_started"
    exited = "proxy_exited"
    evidence = "events/proxy.jsonl"
    log = "proxy.log"

    def __init__(self, settings: Settings, control: Path, *, log: Path, env: Mapping[str, str], url: str = "") -> None:
        """`settings.listen_fd` is a listening socket of this process, at `url`; the child inherits it."""
        self._url = url
        self._events = Path(settings.events or os.devnull)
        if settings.max_requests is not None or settings.max_tokens is not None:
            # What one child spent is spent for the next as well, however the first one ends.
            purse_fd = os.memfd_create("purse")
            weakref.finalize(self, os.close, purse_fd)
            os.ftruncate(purse_fd, LEDGER_BYTES)
            settings = msgspec.structs.replace(settings, purse_fd=purse_fd)
        super().__init__(
            "the proxy",
            "drillmaster.proxy",
            settings,
            control,
            log=log,
            env=env,
            inherited=(settings.listen_fd, settings.purse_fd),
        )

    async def inject(self, turn: Turn, *, ttl_s: float) -> None:
        given = [msgspec.to_builtins(rule) for rule in turn.rules]
        await self.order("/inject", {"window": turn.window, "rules": given, "ttl_s": ttl_s, "linger_s": turn.linger_s})

    async def renew(self, window: str, *, ttl_s: float) -> bool:
        return await self.order("/renew", {"window": window, "ttl_s": ttl_s}, also=(404,)) == 200

    async def lift(self, window: str, why: str) -> None:
        await self.order("/lift", {"window": window, "why": why})

    async def gone(self) -> tuple[bool, str]:
        """Whether it passes, asked through itself."""
        status, seen, _ = await probe_proxy(self._url, within_s=5)
        mode = "unknown"
        with contextlib.suppress(ChildLost):
            mode = str((await self.state()).get("mode"))
        return status is not None and mode == "pass", f"mode {mode}, the probe got {seen}"

    def forewarn(self, turn: Turn) -> Iterator[str]:
        """Say of what was heard so far which fault would let it pass."""
        rules = [rule for rule in turn.rules if isinstance(rule, Rule)]
        yield from forewarnings(rules, Tail(self._events).rows())


class WorkerPart:
    """The agent under drill, behind its keeper.

    What the worker started falls to us when its keeper is killed: then we end it.
    """

    def __init__(self, worker: Worker, *, cwd: Path, env: Mapping[str, str], log: Path, soft_limit: int) -> None:
        self._worker = worker
        self._cwd = cwd
        self._env = dict(env)
        self._log = log
        self._soft_limit = soft_limit
        self._keeper: asyncio.subprocess.Process | None = None
        self._lead: socket.socket | None = None
        self._lines: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._output: OutputCopy | None = None
        self._not_its: frozenset[int] = frozenset()
        self.keeper_lost = False
        self.pid: int | None = None

    async def start(self) -> int:
        """Start it; its process id. Raises Problem where the program or its log cannot be had."""
        try:
            self._output = OutputCopy(self._log)
            self._not_its = frozenset(children(os.getpid()))
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            await self._start_keeper(self._output)
        except OSError as error:
            found, remedy = complaint(error)
            raise Problem("the worker", found=found, wanted="a process and its log", remedy=remedy) from None
        self._lines, self._writer = await asyncio.open_connection(sock=self._lead)
        said = await self._said()
        if "pid" not in said:
            raise Problem(
                "the worker", found="a keeper that died", wanted="a started process", remedy=f"see {self._log}"
            )
        self.pid = int(said["pid"])
        return self.pid

    async def _start_keeper(self, output: OutputCopy) -> None:
        # Kept from here on: a start that is cut short is ended by closing this, however far it came.
        self._lead, theirs = socket.socketpair()
        with theirs:
            self._keeper = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(KEEPER),
                str(theirs.fileno()),
                str(self._soft_limit),
                *self._worker.cmd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.inlet,
                stderr=output.inlet,
                pass_fds=(theirs.fileno(),),
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        output.begin()

    async def _said(self) -> dict[str, Any]:
        assert self._lines is not None
        line = await self._lines.readline()
        said: dict[str, Any] = json.loads(line) if line else {}
        return said

    async def wait(self) -> int | None:
        """Wait until the worker itself has ended; its exit code, negative for a signal; None: nobody saw it.

        A keeper that was killed sets `keeper_lost`; what it kept has been ended then.
        """
        said = await self._said()
        if "code" in said:
            code: int = said["code"]
            return code
        self.keeper_lost = True
        return (await asyncio.to_thread(self._end_fallen)).get(self.pid or 0)

    async def said(self, *, lines: int = 5) -> tuple[str, ...]:
        """The last lines that it printed, screened. Waits a moment for one that has ended, whose last words are on their way."""
        if self._output is not None:
            await asyncio.to_thread(self._output.settle, _LAST_WORDS_S)
        return last_lines(self._log, lines)

    def _end_fallen(self) -> dict[int, int]:
        """End what fell to us from a keeper that is gone; the exit codes of those that were ours to collect."""
        ended: dict[int, int] = {}
        began_s = time.monotonic()
        for nth in range(round(_FALLEN_S / 0.05)):
            fallen = [pid for pid in children(os.getpid()) if self._is_fallen(pid)]
            if not fallen and nth:
                break
            late = time.monotonic() - began_s > FALLEN_GRACE_S or nth * 0.05 > FALLEN_GRACE_S
            for pid in fallen:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
                with contextlib.suppress(ChildProcessError):
                    gone, status = os.waitpid(pid, os.WNOHANG)
                    if gone:
                        ended[pid] = os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        return ended

    def _is_fallen(self, pid: int) -> bool:
        """Whether a child of ours came from the worker: of another session than ours, and nothing we started ourselves."""
        if pid in self._not_its or (self._keeper is not None and pid == self._keeper.pid):
            return False
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return os.getsid(pid) != os.getsid(0) and not any(word.startswith(b"drillmaster.") for word in words)
        except OSError:
            return False

    async def stop(self) -> None:
        """End it and all it started: SIGTERM, and SIGKILL after the keeper's grace. `wait` returns after this."""
        try:
            await self._cut_lead()
        finally:
            if self._output is not None:
                await asyncio.to_thread(self._output.close)
            prctl(PR_SET_CHILD_SUBREAPER, 0)

    async def _cut_lead(self) -> None:
        if self._lead is None:
            return
        with contextlib.suppress(OSError):
            self._lead.shutdown(socket.SHUT_WR)
        if self._keeper is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(12):
                    await self._keeper.wait()
            if self._keeper.returncode is None:
                self._keeper.kill()
                await self._keeper.wait()
            await asyncio.to_thread(self._end_fallen)
        if self._writer is None:
            self._lead.close()
        else:
            self._writer.close()


async def bind(host: str, port: int, *, retry_s: float = 0.0, place: str = "/proxy/listen") -> socket.socket:
    """Bind and listen, trying again for `retry_s` seconds. Raises Problem where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    give_up = asyncio.get_running_loop().time() + retry_s
    while True:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1" if host == "localhost" else host, port))
            sock.listen(1024)
            sock.setblocking(False)
            return sock
        except OSError as error:
            sock.close()
            if asyncio.get_running_loop().time() >= give_up:
                raise Problem(
                    f"{place} {host}:{port}",
                    found=error.strerror or "an error",
                    wanted="a free port on an address of this machine",
                    remedy=f"see who holds it (ss -ltnp 'sport = :{port}'), or choose another port in the plan",
                ) from None
        await asyncio.sleep(0.05)


def listen_url(sock: socket.socket) -> str:
    """The URL at which an agent on this machine reaches a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
