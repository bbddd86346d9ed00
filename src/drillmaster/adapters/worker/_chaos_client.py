"""The worker's side of the flag server: one thread that asks, and the state that decorated calls go by.

1. The lease counts from when the question was sent, and a held question for as long as the server says that it held it: a
   worker never takes a flag for on when the server no longer does by more than the lease.
2. A clock that went back ends what is on. So does the thread, which counts its own failures and not the clock's.
3. The gate is shut before anything else is done about a kill.
"""

import atexit
import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from drillmaster.adapters.worker._chaos_wrong import Wrong
from drillmaster.errors import Problem
from drillmaster.friday.flags import ERRORS, Aim, Hits, unknown_flag

if TYPE_CHECKING:
    from drillmaster.adapters.worker._chaos_shapes import Gate

__all__ = ["Client", "Live", "Plan", "State"]

_log = logging.getLogger("drillmaster.chaos")
HOLD_S = 0.5
DRAINING_HOLD_S = 0.1
LATE_S = 1.0
"""How much longer than it was asked to hold a question the server may take to answer it."""
AGAIN_S = 0.1
LEAVE_S = 0.5
MAX_ANSWER_BYTES = 1 << 20
MAX_MET = 200
NEVER_NS = 1 << 62


class _Told(msgspec.Struct):
    """The server's answer. What a later server adds is left aside."""

    revision: str
    lease_s: float
    held_s: float
    seed: int
    on: list[dict[str, Any]]
    killed: list[str]
    known: dict[str, str] = {}


_read = msgspec.json.Decoder(_Told).decode
_write = msgspec.json.Encoder().encode


class Live:
    """A flag that is on, as this process counts it."""

    __slots__ = (
        "_client",
        "_hits",
        "error",
        "kind",
        "message",
        "missed",
        "n",
        "name",
        "params",
        "seconds",
        "status",
        "until_ns",
        "window",
        "wrong",
    )

    def __init__(self, client: "Client", told: Mapping[str, Any], seed: int) -> None:
        self._client = client
        self.name: str = told["flag"]
        self.kind: str = told["kind"]
        self.window: str = told.get("window") or ""
        params: dict[str, Any] = told.get("params") or {}
        self.params = params
        aim = Aim(share=told.get("share"), first=told.get("first"), every=told.get("every"))
        self._hits = Hits(aim, f"{seed}/{self.window}/{self.name}/{client.worker}")
        self.until_ns = NEVER_NS
        self.n = 0
        self.missed = 0
        self.status: int | None = params.get("status")
        self.message: str = params.get("message") or f"forced chaos {self.name}"
        self.error = ERRORS.get(params.get("error", "RuntimeError"), RuntimeError)
        self.seconds = float(params.get("max_s") or params.get("delay_s") or 0)
        self.wrong = Wrong(self, params) if self.kind == "wrong-answer" else None

    def hold_s(self, limit_s: float | None) -> float:
        """How long a call is held: a timeout no longer than its own client's limit."""
        return min(self.seconds, limit_s) if self.kind == "timeout" and limit_s is not None else self.seconds

    def is_on(self) -> bool:
        """Whether it still is, by the lease too."""
        state = self._client.state
        return state.on.get(self.name) is self and state.lasts() and monotonic_ns() < self.until_ns

    def hit(self, mission: str) -> bool:
        with self._client.counting:
            return self._hits.hit(mission)

    def count(self, mission: str = "", *, missed: bool = False) -> None:
        """Take down that a call met it."""
        with self._client.counting:
            if missed:
                self.missed += 1
            else:
                self.n += 1
        if self._client.logs:
            from drillmaster.timeline import mark

            event = "flag_missed" if missed else "flag_met"
            mark(event, flag=self.name, window=self.window, mission=mission)


class State:
    """What holds; replaced whole."""

    __slots__ = ("killed", "on", "revision", "seen_ns", "until_ns")

    def __init__(self, revision: str, on: dict[str, Live], killed: frozenset[str], seen_ns: int, until_ns: int) -> None:
        self.revision = revision
        self.on = on
        self.killed = killed
        self.seen_ns = seen_ns
        self.until_ns = until_ns

    def lasts(self) -> bool:
        """Whether the lease does."""
        return self.seen_ns <= monotonic_ns() < self.until_ns


class Plan:
    """What is to become of one call."""

    __slots__ = ("failing", "holds", "wrong")

    def __init__(self) -> None:
        self.holds: list[Live] = []
        """Flags of kind latency, whose delays are waited for first."""
        self.failing: Live | None = None
        """The one that ends the call: a kill, a timeout or an error."""
        self.wrong: Any = None


class Client:
    """One process's."""

    def __init__(self, url: str, token: str, worker: str | None) -> None:
        self.url = url
        self._token = token
        self.worker = worker or f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(3)}"
        self.state = State("", {}, frozenset(), 0, 0)
        self.counting = threading.Lock()
        self.logs = bool(os.environ.get("DRILL_LOG"))
        self._known: dict[str, str] = {}
        self._gates: Iterable[Gate] = ()
        self._lives: dict[tuple[str, str], Live] = {}
        self._reported: dict[tuple[str, str], tuple[int, int]] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._line: Any = None
        self._quiet = False
        self._kill_lives: dict[str, Live] = {}

    # Start

    def begin(self, gates: "Iterable[Gate]", wait_s: float) -> None:
        """Learn the state for the first time. Raises Problem."""
        from drillmaster.adapters.worker import _chaos_env

        self._gates = gates
        toggles = _chaos_env.toggles(os.environ)
        if self.url and toggles:
            raise Problem(
                f"environment: {next(iter(toggles))}",
                found="a toggle beside CHAOS_URL",
                wanted="one place that says which flags are on",
                remedy=f"unset {' '.join(toggles)}, or CHAOS_URL",
            )
        if not self.url:
            self._from_environment(_chaos_env.read(toggles, os.environ) if toggles else None)
            return
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Problem(
                "CHAOS_URL",
                found=repr(self.url[:80]),
                wanted="the flag server's URL",
                remedy="CHAOS_URL=http://127.0.0.1:8070",
            )
        try:
            self._apply(*self._ask(wait_s=0.0, within_s=wait_s))
        except OSError as error:
            self._shut_all(f"{self.url}: {error.strerror or type(error).__name__}")
        self._thread = threading.Thread(target=self._run, name="drillmaster-chaos", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def _from_environment(self, told: "Any | None") -> None:
        if told is not None:
            self._known = told.known
            for gate in self._gates:
                self._check(gate)
            on: dict[str, Live] = {}
            for one in told.on:
                live = Live(self, one, told.seed)
                live.until_ns = monotonic_ns() + round(one["left_s"] * 1e9) if one.get("left_s") else NEVER_NS
                on[live.name] = live
            self.state = State("environment", on, frozenset(told.killed), 0, NEVER_NS)
        for gate in self._gates:
            self._set(gate)

    def admit(self, gate: "Gate") -> None:
        """A function that was decorated after the start. Raises Problem for a name that is unknown."""
        if self._known:
            self._check(gate)
        self._set(gate)

    def _check(self, gate: "Gate") -> None:
        place = f"@chaos of {gate.name}"
        flags = {name: kind for name, kind in self._known.items() if kind != "kill"}
        kills = {name: kind for name, kind in self._known.items() if kind == "kill"}
        for name in gate.flags:
            if name in kills:
                raise Problem(
                    place,
                    found=f"the capability {name!r} among flags",
                    wanted="a flag",
                    remedy=f'name it by itself: @chaos(..., capability="{name}")',
                )
            if name not in flags:
                raise unknown_flag(name, flags, place=place)
        if gate.capability and gate.capability not in kills:
            raise unknown_flag(gate.capability, kills, place=place, what="capability")

    def _shut_all(self, why: str) -> None:
        """Nobody said that anything may run: what can be killed is."""
        killed = frozenset(gate.capability for gate in self._gates if gate.capability)
        self.state = State("", {}, killed, monotonic_ns(), monotonic_ns())
        for gate in self._gates:
            self._set(gate)
        names = ", ".join(sorted(killed)) or "no capability of this worker can be"
        _log.warning("the flag server cannot be reached (%s); killed until it says otherwise: %s", why, names)
        if self.logs:
            from drillmaster.timeline import mark

            mark("flags_unreachable", worker=self.worker, killed=sorted(killed))

    # Calls

    def plan(self, gate: "Gate", mission: str) -> "Plan":
        """What is to become of a call that begins now."""
        plan = Plan()
        killed = self.killed(gate)
        if killed is not None:
            killed.count(mission)
            plan.failing = killed
            return plan
        state = self.state
        if not state.on or not state.lasts():
            return plan
        now_ns = monotonic_ns()
        for name in gate.flags:
            live = state.on.get(name)
            if live is None or now_ns >= live.until_ns or not live.hit(mission):
                continue
            if live.kind == "latency":
                plan.holds.append(live)
                live.count(mission)
            elif live.kind == "wrong-answer":
                if plan.wrong is None:
                    plan.wrong = live.wrong.for_(mission) if live.wrong is not None else None
            elif plan.failing is None:
                plan.failing = live
        if plan.failing is not None:
            plan.failing.count(mission)
            plan.wrong = None
        return plan

    @property
    def known(self) -> Mapping[str, str]:
        """Every flag's kind, by name; empty where nobody has said them yet."""
        return self._known

    def meets(self, name: str, kind: str, mission: str) -> Live | None:
        """The flag, where a call that begins now meets it, or its capability is killed; it is counted. None: go on."""
        if kind == "kill":
            live = self._kill_of(name)
        else:
            state = self.state
            live = state.on.get(name)
            if live is not None and not (state.lasts() and monotonic_ns() < live.until_ns and live.hit(mission)):
                live = None
        if live is not None:
            live.count(mission)
        return live

    def killed(self, gate: "Gate") -> Live | None:
        """The kill that ends a gate's calls; None: none does."""
        return self._kill_of(gate.capability) if gate.capability else None

    def _kill_of(self, name: str) -> Live | None:
        state = self.state
        live = state.on.get(name)
        if live is not None and name not in state.killed:
            return live if state.lasts() and monotonic_ns() < live.until_ns else None
        if name not in state.killed:
            return None
        live = self._kill_lives.get(name)
        if live is None:
            live = self._kill_lives[name] = Live(self, {"flag": name, "kind": "kill"}, 0)
        return live

    def _set(self, gate: "Gate") -> None:
        state = self.state
        gate.off = (
            not any(name in state.on for name in gate.flags)
            and gate.capability not in state.killed
            and (not gate.capability or gate.capability not in state.on)
        )

    # The thread

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                draining = any(count for count in self._running().values()) and bool(self.state.killed)
                self._apply(*self._ask(wait_s=DRAINING_HOLD_S if draining else HOLD_S, within_s=None))
                self._quiet = False
            except Problem as problem:
                self._off_if_over(refused=True)
                if not self._quiet:
                    self._quiet = True
                    _log.error("%s", problem)
                self._over.wait(AGAIN_S * 10)
            except (OSError, ValueError) as error:
                self._off_if_over()
                if not self._quiet and not self._over.is_set():  # its end hangs up a question that is held
                    self._quiet = True
                    _log.warning("the flag server does not answer (%s); flags end with their lease, kills stay", error)
                self._over.wait(AGAIN_S)
            except Exception:  # noqa: BLE001  # the thread must not die of one answer: whatever it was, flags end with their lease
                _log.exception("an answer of the flag server's")
                self._off_if_over()
                self._over.wait(AGAIN_S)

    def _off_if_over(self, *, refused: bool = False) -> None:
        """Take off what the lease no longer holds."""
        state = self.state
        if state.on and (refused or not state.lasts()):
            self._become(State(state.revision, {}, state.killed, state.seen_ns, state.until_ns))

    def _ask(self, *, wait_s: float, within_s: float | None) -> tuple[_Told, int]:
        """Ask once; the answer, and when the question was sent. Raises OSError, ValueError, Problem."""
        met: list[dict[str, Any]] = []
        with self.counting:
            for live in (*self._lives.values(), *self._kill_lives.values()):
                if self._reported.get((live.name, live.window), (0, 0)) != (live.n, live.missed):
                    met.append({"flag": live.name, "window": live.window, "n": live.n, "missed": live.missed})
        met = met[:MAX_MET]
        first = not self.state.revision
        asked: dict[str, Any] = {
            "worker": self.worker,
            "pid": os.getpid(),
            "held": self.state.revision,
            "wait_s": wait_s,
        }
        if first:
            asked["flags"] = sorted({name for gate in self._gates for name in (*gate.flags, gate.capability) if name})
        if met:
            asked["met"] = met
        running = {name: count for name, count in self._running().items() if count}
        if running:
            asked["running"] = running
        if self._over.is_set():
            asked["leaving"] = True
            asked["wait_s"] = 0
        sent_ns = monotonic_ns()
        status, body = self._exchange(_write(asked), wait_s + LATE_S if within_s is None else within_s)
        if status != 200:
            raise self._refusal(status, body)
        for one in met:
            self._reported[(one["flag"], one["window"])] = (one["n"], one["missed"])
        try:
            return _read(body), sent_ns
        except msgspec.DecodeError as error:
            raise ValueError(f"an answer that is none: {error}") from None

    def _refusal(self, status: int, body: bytes) -> Exception:
        try:
            told = msgspec.json.decode(body)
        except msgspec.DecodeError:
            told = {}
        if not isinstance(told, dict):
            told = {}
        if status in (400, 404) and "place" in told:
            names = sorted({name for gate in self._gates for name in (*gate.flags, gate.capability) if name})
            return Problem(
                f"@chaos with {', '.join(names)}", found=told["found"], wanted=told["wanted"], remedy=told["remedy"]
            )
        if status in (401, 403, 421):
            return Problem(
                self.url,
                found=f"{status}: {told.get('error', '')}"[:300],
                wanted="leave to read",
                remedy="set CHAOS_TOKEN to the read token's line",
            )
        if status < 500:
            return Problem(
                self.url,
                found=f"status {status}",
                wanted="a flag server",
                remedy="CHAOS_URL is the address that `drillmaster flags serve` prints",
            )
        return OSError(f"status {status}")

    def _exchange(self, content: bytes, within_s: float) -> tuple[int, bytes]:
        """One question on the kept connection; a connection that was closed between two is opened anew, once."""
        import http.client

        fields = {"content-type": "application/json", "host": urlsplit(self.url).netloc.rpartition("@")[2]}
        if self._token:
            fields["authorization"] = f"Bearer {self._token}"
        path = urlsplit(self.url).path.rstrip("/") + "/poll"
        for fresh in (False, True):
            line = self._line
            if line is None:
                fresh = True
                line = self._line = self._connection(within_s)
            try:
                if line.sock is not None:
                    line.sock.settimeout(within_s)
                line.request("POST", path, content, fields)
                answer = line.getresponse()
                return answer.status, answer.read(MAX_ANSWER_BYTES)
            except (http.client.HTTPException, OSError) as error:
                self._line = None
                line.close()
                ending = self._over.is_set() and threading.current_thread() is self._thread
                if fresh or ending or isinstance(error, TimeoutError):
                    raise error if isinstance(error, OSError) else OSError(repr(error)) from None
        raise OSError("no answer")

    def _connection(self, within_s: float) -> Any:
        import http.client

        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=within_s)

    def _running(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for gate in self._gates:
            if gate.capability:
                counts[gate.capability] = counts.get(gate.capability, 0) + gate.running()
        return counts

    def _apply(self, told: _Told, sent_ns: int) -> None:
        """Go by an answer. Raises Problem for a name that the registry does not know."""
        now_ns = monotonic_ns()
        on: dict[str, Live] = {}
        for one in told.on:
            key = (str(one["flag"]), str(one.get("window") or ""))
            live = self._lives.get(key)
            if live is None:
                live = self._lives[key] = Live(self, one, told.seed)
                self._forget()
            live.until_ns = now_ns + round(float(one["left_s"]) * 1e9)
            on[live.name] = live
        until_ns = sent_ns + round((told.lease_s + told.held_s) * 1e9)
        self._become(State(told.revision, on, frozenset(told.killed), sent_ns, until_ns))
        if told.known and told.known != self._known:
            self._known = told.known
            for gate in self._gates:
                self._check(gate)

    def _become(self, state: State) -> None:
        self.state = state
        for gate in self._gates:
            self._set(gate)

    def _forget(self) -> None:
        """Of windows that are over, the oldest are forgotten once they were reported."""
        for key, live in tuple(self._lives.items()):
            if len(self._lives) <= MAX_MET:
                return
            if self.state.on.get(live.name) is not live and self._reported.get(key) == (live.n, live.missed):
                del self._lives[key]

    # End

    def abandon(self) -> None:
        """Be no worker any more, in a child that was forked: the parent goes on as this one."""
        atexit.unregister(self.end)

    def end(self) -> None:
        """Tell the last counts, and leave."""
        atexit.unregister(self.end)
        if self._over.is_set():
            return
        self._over.set()
        thread = self._thread
        if thread is None:
            return
        line = self._line
        if line is not None and line.sock is not None:
            with contextlib.suppress(OSError):
                line.sock.shutdown(socket.SHUT_RDWR)  # the thread waits for an answer that is held
        thread.join(LEAVE_S)
        line, self._line = self._line, None
        if line is not None and not thread.is_alive():
            line.close()
        try:
            self._ask(wait_s=0.0, within_s=LEAVE_S)
        except (OSError, ValueError, Problem):
            _log.warning("the flag server was not told the last counts of %s", self.worker)
        line, self._line = self._line, None
        if line is not None:
            line.close()
