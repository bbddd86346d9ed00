"""An interview's team of Locust workers, seen from the interview: a Locust master in a process of its own, told and heard."""

import contextlib
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.adapters.drill.meeting import Meeting, Relation, Where, need_locust, versions, wrong_versions
from drillmaster.engines import Spec
from drillmaster.errors import Problem, Refused
from drillmaster.ladder.checking import longest_s
from drillmaster.load.preparing import Ready
from drillmaster.load.process import Ended
from drillmaster.sanity import is_loopback
from drillmaster.screen import screen_text

__all__ = ["LocustTeam"]

ASSEMBLE_S = 600.0
MEET_S = 30.0
START_S = 30.0


class LocustTeam:
    """So many workers, each with one engine."""

    kind = "locust"
    together = True
    end_s = 60.0

    def __init__(self, bind: tuple[str, int], workers: int, *, assemble_s: float = ASSEMBLE_S) -> None:
        """Raises Refused where Locust is not installed."""
        need_locust("--engine locust")
        self.size = workers
        self._bind = bind
        self._assemble_s = assemble_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the master is
        self._rest = b""
        self._words: list[dict[str, Any]] = []
        self._members: list[dict[str, Any]] = []
        self._drives = 0
        self.ended = False
        self.gone: dict[int, str] = {}
        """Workers that were lost, and why."""
        self._often = False

    # Before the run

    def assemble(self, ready: Ready, addresses: tuple[str, ...], say: Callable[[str], None]) -> None:
        self._start()
        port = self._port()
        host, _ = self._bind
        shown = f"[{host}]" if ":" in host else host
        say(f"waiting for {self.size} workers: drillmaster locust-worker --master {shown}:{port}" + _flag(ready))
        if not is_loopback(host):
            say(
                "Locust's channel is neither encrypted nor authenticated: whoever reaches that address sees payloads and may come"
            )
        clients = self._come(say)
        self._tell({"order": "meet", "meeting": _meeting(ready, addresses, self.size), "workers": clients})
        self._meet(clients)
        here = Where.here()
        one_clock = [
            bool(here.boot and here.clock)
            and (member["where"]["boot"], member["where"]["clock"]) == (here.boot, here.clock)
            for member in self._members
        ]
        self._tell({"order": "relate", "one_clock": one_clock})
        self._relate(one_clock)
        for engine, member in enumerate(self._members):
            clock = "the same clock" if member["one_clock"] else f"its clock related within {member['bound_ms']:.3g} ms"
            say(f"{self.name(engine)} is there, {clock}")
        spend = ready.plan.spend
        # Tokens, and how many requests were sent when, are in the records: what caps them has to see those while they come.
        self._often = ready.plan.target.permit is not None or (spend is not None and spend.max_tokens is not None)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        host, port = self._bind
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                [
                    sys.executable,
                    "-m",
                    "drillmaster.adapters.drill.locust_master",
                    str(theirs.fileno()),
                    host,
                    str(port),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._sock = ours
        self._poll = select.poll()
        self._poll.register(ours.fileno(), select.POLLIN)

    def _port(self) -> int:
        for word in self._until(START_S):
            if word.get("event") == "bound":
                return int(word["port"])
            if word.get("event") == "unbound":
                raise Problem(
                    f"--bind {self._bind[0]}:{self._bind[1]}",
                    found=str(word["why"]),
                    wanted="an address of this machine that is free",
                    remedy="name another one with --bind HOST:PORT",
                )
        raise Problem(
            "--engine locust",
            found="a Locust master that did not start",
            wanted="one that does",
            remedy=f"see what it said: {self.last_words()}",
        )

    def _come(self, say: Callable[[str], None]) -> list[str]:
        clients: list[str] = []
        for word in self._until(self._assemble_s):
            if word.get("event") == "came":
                clients.append(word["worker"])
                say(f"worker {len(clients)} of {self.size} has come: {word['worker']}")
            elif word.get("event") == "went" and word["worker"] in clients:
                clients.remove(word["worker"])
                say(f"a worker went away again: {word['worker']}")
            if len(clients) == self.size:
                return clients
        raise Problem(
            "--workers",
            found=f"{len(clients)} of {self.size} within {self._assemble_s:g} s"
            if not self.ended
            else "the master's end",
            wanted="all of them",
            remedy="start them: drillmaster locust-worker --master HOST:PORT",
        )

    def _meet(self, clients: list[str]) -> None:
        met: dict[int, dict[str, Any]] = {}
        for word in self._until(MEET_S):
            if word.get("event") == "lost":
                engine = word["engine"]
                problem = met.get(engine, {}).get("problem")
                raise (
                    _refused(clients[engine], problem)
                    if problem
                    else Problem(
                        f"worker {clients[engine]}",
                        found=f"{word['why']}",
                        wanted="that it stays",
                        remedy="start it again",
                    )
                )
            if word.get("event") == "met":
                if word.get("problem") is not None:
                    raise _refused(clients[word["engine"]], word["problem"])
                met[word["engine"]] = word
                if (wrong := wrong_versions(versions(), word.get("versions") or {})) is not None:
                    name, ours, theirs = wrong
                    raise Refused(
                        f"worker {clients[word['engine']]}: version of {name}",
                        found=f"{theirs}, and the master has {ours}",
                        wanted="the same on both sides",
                        remedy="install the same drillmaster and locust on all machines",
                    )
            if len(met) == self.size:
                break
        else:
            silent = next(client for engine, client in enumerate(clients) if engine not in met)
            raise Problem(
                f"worker {silent}", found=f"no answer within {MEET_S:g} s", wanted="one", remedy="start it again"
            )
        self._members = [
            {
                "worker": clients[engine],
                "host": met[engine]["host"],
                "pid": met[engine]["pid"],
                "addresses": met[engine]["addresses"],
                "where": met[engine]["where"],
                "versions": met[engine]["versions"],
            }
            for engine in range(self.size)
        ]

    def _relate(self, one_clock: list[bool]) -> None:
        found: dict[int, Relation] = {}
        for word in self._until(MEET_S):
            if word.get("event") == "related":
                if word["offset_ns"] is None:
                    break
                found[word["engine"]] = Relation(offset_ns=word["offset_ns"], bound_ns=word["bound_ns"], rounds=0)
            if len(found) == self.size:
                break
        if len(found) < self.size:
            raise Problem(
                "clocks",
                found="a worker that answers no ping",
                wanted="clocks that can be related",
                remedy="start it again",
            )
        for engine, member in enumerate(self._members):
            member["one_clock"] = one_clock[engine]
            member["offset_ms"] = round(found[engine].offset_ns / 1e6, 6)
            member["bound_ms"] = round(found[engine].bound_ns / 1e6, 6)

    # The run

    def name(self, engine: int) -> str:
        host = self._members[engine]["host"] if self._members else "?"
        return f"worker {engine + 1} of {self.size} ({host})"

    def record(self) -> dict[str, Any]:
        members = [{k: v for k, v in member.items() if k not in ("where", "versions")} for member in self._members]
        return {"kind": self.kind, "size": self.size, "versions": versions(), "members": members}

    def crew(self, specs: Sequence[Spec], log: Path) -> "_There":
        self._tell({"order": "zero", "mono0_ns": specs[0].mono0_ns})
        sent = []
        for spec in specs:
            bare = msgspec.structs.replace(spec, ca_file=None)
            pem = None if spec.ca_file is None else Path(spec.ca_file).read_text("utf-8")
            sent.append({"spec": msgspec.to_builtins(bare), "ca_pem": pem})
        self._drives += 1
        self._tell({"order": "drive", "number": self._drives, "specs": sent, "often": self._often})
        return _There(self, self._drives, len(specs))

    def close(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._tell({"order": "end"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(5)
        self._sock.close()
        self._log.close()
        self._process = None

    def last_words(self) -> str:
        """Why the master is no more, in its own words."""
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return "the Locust master ended" + (f": {screen_text(lines[-1])[:300]}" if lines else "")

    # Words

    def _tell(self, order: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(msgspec.json.encode(order) + b"\n")

    def hear(self, wait_s: float) -> list[dict[str, Any]]:
        """What the master said since the last time; sets `ended` when that was all."""
        if self.ended:
            time.sleep(wait_s)
            return []
        if not self._poll.poll(wait_s * 1000):
            return []
        data = self._sock.recv(1 << 20)
        if not data:
            self.ended = True
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [msgspec.json.decode(line) for line in lines]

    def order(self, **words: Any) -> None:
        self._tell(words)

    def _until(self, within_s: float) -> Iterator[dict[str, Any]]:
        """Words one by one, for so long; those that nobody asked for any more are kept."""
        until_s = time.monotonic() + within_s
        while True:
            while self._words:
                yield self._words.pop(0)
            left_s = until_s - time.monotonic()
            if left_s <= 0 or self.ended:
                return
            self._words += self.hear(min(0.2, left_s))

    def waiting(self) -> list[dict[str, Any]]:
        """Words that were heard and not looked at."""
        words, self._words = self._words, []
        return words


class _There:
    """A crew of workers, in one list of steps."""

    def __init__(self, team: LocustTeam, number: int, engines: int) -> None:
        self._team = team
        self._number = number
        self._ends = {engine: Ended(code=None, why=why) for engine, why in team.gone.items()}
        self._engines = engines
        self._heard_s = [time.monotonic()] * engines
        self._stage = ""
        self.said: list[Mapping[str, Any]] = [
            {"worker": member["worker"]} for member in team.record()["members"][:engines]
        ]

    def hear(self, wait_s: float) -> list[tuple[int, Mapping[str, Any]]]:
        found: list[tuple[int, Mapping[str, Any]]] = []
        for word in [*self._team.waiting(), *self._team.hear(wait_s)]:
            if "row" in word:
                self._heard_s[word["engine"]] = time.monotonic()
                row = word["row"]
                if row["event"] == "stage_ready":
                    self._stage = row.get("stage")
                if word["engine"] < self._engines:
                    found.append((word["engine"], row))
            elif word["event"] == "clock":
                found.append((word["engine"], {"event": "worker_clock", **word["said"]}))
            elif word["event"] == "shipped":
                self._heard_s[word["engine"]] = time.monotonic()
            elif word["event"] == "ended":
                self._ends[word["engine"]] = Ended(code=word["code"], why=word["why"])
            elif word["event"] == "lost":
                found.append((word["engine"], {"event": "worker_lost", "why": word["why"]}))
                self._team.gone[word["engine"]] = word["why"]
                self._ends[word["engine"]] = Ended(code=None, why=word["why"])
            elif word["event"] == "late":
                found.append((-1, {"event": "worker_late", "worker": word["worker"]}))
        if self._team.ended:
            for engine in range(self._engines):
                self._ends.setdefault(engine, Ended(code=None, why=self._team.last_words()))
        return found

    @property
    def gone(self) -> list[int]:
        return sorted(engine for engine in self._ends if engine < self._engines)

    @property
    def ended(self) -> bool:
        return all(engine in self._ends for engine in range(self._engines))

    def silent(self, over_s: float) -> int | None:
        since_s = time.monotonic() - over_s
        return next((e for e in range(self._engines) if e not in self._ends and self._heard_s[e] < since_s), None)

    def begin(self, now_ns: int) -> None:
        self._team.order(order="begin", number=self._number, stage=self._stage)

    def ask_to_stop(self) -> None:
        self._team.order(order="stop")

    def close(self, *, within_s: float) -> list[Ended]:
        until_s = time.monotonic() + within_s
        while not self.ended and time.monotonic() < until_s:
            self.hear(0.1)
        return [self._ends.get(engine, Ended(code=None, why="it did not end")) for engine in range(self._engines)]


def _meeting(ready: Ready, addresses: tuple[str, ...], workers: int) -> dict[str, Any]:
    plan = ready.plan
    permit = plan.target.permit
    kept: dict[str, str | int | float] | None = None
    if permit is not None:
        kept = {name: getattr(permit, name) for name in ("host", "owner", "until", "max_per_s", "max_requests")}
    meeting = Meeting(
        versions=versions(),
        where=Where.here(),
        url=ready.url,
        host=ready.host,
        port=ready.port,
        tls=ready.tls,
        loopback=all(is_loopback(address) for address in addresses),
        permit=kept,
        headers={name: value for name, value in ready.shot.headers.items() if "${" in value},
        callers=max(-(-step.callers // workers) for step in ready.steps),
        total_s=longest_s(plan),
        per_s=max((one.most_per_s for one in plan.open), default=0.0),
        requests=sum(step.calls for step in ready.steps),
        time_limit_s=plan.timeout_s,
    )
    found: dict[str, Any] = msgspec.to_builtins(meeting)
    return found


def _flag(ready: Ready) -> str:
    permit = ready.plan.target.permit
    return "" if permit is None or is_loopback(ready.host) else f" --permit-host {permit.host}"


def _refused(client: str, problem: Mapping[str, str]) -> Refused:
    return Refused(
        f"worker {client}: {problem['place']}",
        found=problem["found"],
        wanted=problem["wanted"],
        remedy=problem["remedy"],
    )
