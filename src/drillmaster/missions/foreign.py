"""Loads that another program sends: it is started, its lines are read as they come, and each of its requests is a mission.

1. The program writes a line when a request is sent and one when it is over, into a file of the run's own folder: what it wrote
   before it, or we, were killed is evidence too.
2. A request of theirs is a mission of one step. It is due when it was sent: such programs have no schedule that could be late,
   and what they call waiting is before that.
3. One that has no end when the program has ended was cut. The program's exit code decides nothing; no request at all does.
4. A program that ends before it was told to is a load that is lost.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from pathlib import Path
from time import monotonic_ns
from typing import Any

import msgspec

from drillmaster.adapters.drill.locust_file import locust_command
from drillmaster.errors import Problem, Refused
from drillmaster.friday.missions import MISSIONS_PER_LOAD
from drillmaster.missions.fleet import Watch
from drillmaster.missions.settings import ArtilleryLoad, Book, LocustLoad, Settings
from drillmaster.screen import screen_text

__all__ = ["Foreign"]

_POLL_S = 0.05
_LAST_LINES = 40
_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class _Line(msgspec.Struct, frozen=True):
    """What such a program writes."""

    k: str
    ns: int
    n: int = 0
    mission: str = ""
    trace: str = ""
    method: str = ""
    name: str = ""
    at: int | None = None
    status: int | None = None
    result: str = ""
    why: str = ""
    ms: float | None = None
    first_ms: float | None = None
    address: str = ""


class Foreign:
    """One such load."""

    thinking = 0

    def __init__(
        self, load: LocustLoad | ArtilleryLoad, nth: int, book: Book, watch: Watch, settings: Settings
    ) -> None:
        self._load = load
        self._nth = nth
        self._book = book
        self._watch = watch
        self._settings = settings
        self._name = "Locust" if isinstance(load, LocustLoad) else "Artillery"
        self._raw = Path(settings.book).parent / f"{self._name.lower()}-{nth}.ndjson"
        self._process: asyncio.subprocess.Process | None = None
        self._course: asyncio.Task[None] | None = None
        self._no_more = False
        self._cut = asyncio.Event()
        self._told = asyncio.Event()
        self._open: dict[int, _Line] = {}
        self._seen = 0
        self._over = False
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._wrong: Problem | None = None

    @property
    def wanted(self) -> int:
        return self._load.users if isinstance(self._load, LocustLoad) and not self._no_more else 0

    @property
    def over(self) -> bool:
        return self._over

    def start(self, start_ns: int) -> None:
        self._course = self._watch.loop.create_task(self._run(start_ns))

    def no_more(self) -> None:
        self._no_more = True
        self._told.set()

    def cut(self, why: str) -> None:
        self.no_more()
        self._cut.set()

    # The program

    def _command(self) -> tuple[list[str], dict[str, str], str]:
        load, settings = self._load, self._settings
        said = {
            "out": str(self._raw),
            "first": self._nth * MISSIONS_PER_LOAD,
            "run": self._book.run[-4:],
            "drill_run": self._book.run,
            "addresses": [str(where[0]) for _, where in self._watch.line.addresses],
        }
        if isinstance(load, LocustLoad):
            return locust_command(
                load.path,
                load.python,
                url=settings.url,
                users=load.users,
                users_per_s=load.users_per_s,
                stop_s=load.stop_s,
                cwd=load.cwd,
                said=said,
            )
        from drillmaster.adapters.drill.artillery_program import artillery_command

        return artillery_command(load.path, load.program, url=settings.url, said=said)

    async def _run(self, start_ns: int) -> None:
        try:
            await asyncio.sleep(max(0.0, (start_ns - monotonic_ns()) / 1e9))
            argv, more, cwd = self._command()
            env = self._environment(more)
            if not self._no_more:
                await self._drive(argv, env, cwd)
        except OSError as error:
            self._wrong = Problem(
                self._load.source,
                found=f"{self._name}: {error.strerror}",
                wanted="a program that starts",
                remedy="see the plan",
            )
        finally:
            await self._end()

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        """Ours less proxies, which would take requests elsewhere, and with the authority that the plan trusts."""
        env = {name: value for name, value in os.environ.items() if name not in _PROXIES} | more
        if "NODE_OPTIONS" in more and os.environ.get("NODE_OPTIONS"):
            env["NODE_OPTIONS"] = f"{os.environ['NODE_OPTIONS']} {more['NODE_OPTIONS']}"
        if self._settings.ca is not None:
            env |= dict.fromkeys(_AUTHORITIES, self._settings.ca)
        return env

    async def _drive(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,  # its end is the order to end, and comes too when we are killed
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        async with asyncio.TaskGroup() as group:
            talk = group.create_task(self._listen(self._process))
            group.create_task(self._stopper(self._process))
            while not talk.done():
                self._read()
                await asyncio.wait([talk], timeout=_POLL_S)
            await self._process.wait()
            self._told.set()
            self._cut.set()
        self._read()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        rest = b""
        while piece := await process.stdout.read(65_536):
            *lines, rest = (rest + piece)[-65_536:].split(b"\n")
            self._last.extend(line.decode("utf-8", "replace").rstrip() for line in lines if line.strip())
        if rest.strip():
            self._last.append(rest.decode("utf-8", "replace"))

    async def _stopper(self, process: asyncio.subprocess.Process) -> None:
        await self._told.wait()
        assert process.stdin is not None
        process.stdin.close()
        stop_s = self._load.stop_s if isinstance(self._load, LocustLoad) else self._book.time_limit_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(stop_s + 5):
                await self._cut.wait()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await process.wait()

    # Its lines

    def _read(self) -> None:
        try:
            with self._raw.open("rb") as file:
                file.seek(self._seen)
                data = file.read(1 << 22)
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._seen += end
        for line in data[:end].splitlines():
            try:
                self._take(msgspec.json.decode(line, type=_Line))
            except msgspec.DecodeError:
                self._watch.ledger.write("line_refused", source=self._raw.name)
        if end and len(data) == 1 << 22:
            self._read()

    def _take(self, line: _Line) -> None:
        match line.k:
            case "s":
                self._open[line.n] = line
                self._begun(line)
            case "e":
                begun = self._open.pop(line.n, None)
                if begun is not None:
                    self._ended(begun, line)
            case "x":
                self._wrong = Refused(
                    self._load.source,
                    found=f"a connection to {line.address}, which is neither loopback nor the target",
                    wanted="requests to the target of the plan",
                    remedy="write paths in the file, and no whole URLs",
                )
                self.cut("another address")

    def _sent_ns(self, line: _Line) -> int:
        return line.ns if line.at is None else line.at

    def _begun(self, line: _Line) -> None:
        due_ns = self._sent_ns(line) - self._watch.ledger.mono0_ns
        self._watch.ledger.write_known(
            "mission_started",
            {
                "mission": line.mission,
                "flow": screen_text(f"{line.method} {line.name}"),
                "entry": "http",
                "due_ns": due_ns,
                "slot": len(self._open) - 1,
                "trace": line.trace,
                "by": self._name.lower(),
            },
        )
        self._watch.counts["started"] += 1
        self._watch.flying.change(1, self._sent_ns(line))

    def _ended(self, begun: _Line, line: _Line) -> None:
        ledger = self._watch.ledger
        sent_ns = self._sent_ns(begun)
        end_ns = line.ns if line.ms is None else min(line.ns, sent_ns + round(line.ms * 1e6))
        result = {"ok": "ok", "ended": "cut", "timeout": "cut"}.get(line.result, "failed")
        times = {"due_ns": sent_ns - ledger.mono0_ns, "end_ns": end_ns - ledger.mono0_ns}
        flow = screen_text(f"{begun.method} {begun.name}")
        first_ns = None if line.first_ms is None else times["due_ns"] + round(line.first_ms * 1e6)
        step: dict[str, Any] = {
            "mission": begun.mission,
            "step": 0,
            "name": flow,
            "status": line.status,
            "result": line.result,
        }
        step |= {"due_ns": times["due_ns"], "sent_ns": times["due_ns"], "first_ns": first_ns, "end_ns": times["end_ns"]}
        ledger.write_known("step_ended", step | ({"why": line.why} if line.why else {}))
        why = "" if result == "ok" else f"{line.result}: {line.why}" if line.why else line.result
        mission = {"mission": begun.mission, "flow": flow, "entry": "http", "result": result, "why": why}
        ledger.write_known("mission_ended", {**mission, **times, "thought_ns": 0, "steps": 1, "by": self._name.lower()})
        self._watch.counts[result] += 1
        self._watch.flying.change(-1, end_ns)

    # The end

    async def _end(self) -> None:
        now_ns = monotonic_ns()
        for number, begun in tuple(self._open.items()):
            self._ended(begun, _Line(k="e", ns=now_ns, n=number, result="ended", why=f"{self._name} ended"))
        self._open.clear()
        self._over = True
        code = None if self._process is None else self._process.returncode
        self._watch.ledger.write(
            "load_ended", source=self._load.source, by=self._name.lower(), exit=code, ordered=self._no_more
        )
        said = screen_text(next((line for line in reversed(self._last) if line.strip()), ""))[:300]
        if self._wrong is None and not self._no_more and not self._ends_by_itself(code):
            self._wrong = Problem(
                self._load.source,
                found=f"{self._name} ended by itself, exit {code}" + (f": {said}" if said else ""),
                wanted="a load until the drill's end",
                remedy=f"try the file by hand, against {self._settings.url}",
            )
        if self._wrong is not None:
            self._watch.lost(self._wrong)
        self._watch.done()

    def _ends_by_itself(self, code: int | None) -> bool:
        """Artillery does, when its phases are over."""
        return isinstance(self._load, ArtilleryLoad) and code == 0
