"""Signed tool contracts inside a worker: loaded, kept, held against the live server, and against each call.

1. A list is loaded whole or not at all. It is judged by the gate `tools` with the policy that was read at the start, and a
   person of `allowed_signers` who is among the policy's `signers` has signed these bytes; so has one signed the policy. What
   the server offers is no part of that: it is compared when the session opens.
2. A load that is refused changes nothing: the list before it stays in memory, and in force. A list that gives a privilege more
   than the one in force wants two people, as in the gate.
3. A session is one client's with one server. What it meets is told to the guard as names, digests and counts; the guard's answer
   is the only one. What halts it holds until the session ends.
4. A denial is logged with the server, the tool, the reason and counts. A name that the list does not have is not logged:
   whoever made it up may have written anything into it.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.adapters.worker._tool_shelf import Shelf, SignedList
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.clock import Clock, SystemClock
from drillmaster.errors import Problem
from drillmaster.gates._tools_change import of_offered
from drillmaster.gates._tools_contract import of_command, url_wrong
from drillmaster.gates.tools import Offered, Tools
from drillmaster.guards import Decision
from drillmaster.guards import tools as law
from drillmaster.rules import argv
from drillmaster.rules.tool_calls import read

__all__ = ["Asked", "Command", "Shelf", "SignedList", "ToolSession", "log_denial"]

_LOG = logging.getLogger("drillmaster.tools")
_MOST_TICKETS = 1_000
_UNLISTED = "(not listed)"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one call: the decision, and the arguments as they were read and judged. None: it is denied."""

    decision: Decision
    arguments: dict[str, Any] | None = None
    ticket: int = 0
    """For `ToolSession.redeem`, which takes it once."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached: words to start it by, each program by the path whose digest was just looked at, or a URL.

    Neither is there where it is denied. `env` is for its process alone, and is in no text of this.
    """

    decision: Decision
    words: tuple[str, ...] | None = None
    url: str | None = None
    env: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Command({self.decision.reason}, {self.words or ''})"


Log = Callable[[str, str, str, Mapping[str, int]], None]
"""Told of each denial: server, tool, reason, counts."""


def log_denial(server: str, tool: str, reason: str, counts: Mapping[str, int]) -> None:
    """Log one denial, without what the call would have said."""
    told = "".join(f" {name}={count}" for name, count in counts.items())
    _LOG.warning("tools: denied server=%s tool=%s reason=%s%s", server, tool, reason, told)


class ToolSession:
    """One session with one server (`server` is its name in the list), or with functions of the worker's own.

    Its methods may be called from any thread. `opened` is given each tool as it came over the wire: JSON that was read, whole,
    and not what an SDK's model kept of it.
    """

    def __init__(
        self,
        shelf: Shelf,
        guard: law.Tools,
        server: str,
        *,
        clock: Clock | None = None,
        log: Log = log_denial,
        recorder: Recorder | None = None,
        entry: str = "tools",
    ) -> None:
        """`recorder` writes each decision to the timeline and counts it; `entry` is what the guards file calls the guard."""
        from drillmaster.adapters.worker._schemas import Schemas

        self.server = server
        self.guard = guard
        self._shelf = shelf
        self._clock = clock or SystemClock()
        self._log = log
        self._recorder = recorder
        self._entry_name = entry
        self._schemas = Schemas()
        self._state: law.Session | None = None
        self._signed: SignedList | None = None
        self._offered: dict[str, dict[str, Any]] = {}
        self._pins: dict[str, str] = {}
        self._compared_ms: int | None = None
        self._round = 0
        self._tickets: dict[int, tuple[int, str, str]] = {}
        self._lock = threading.RLock()

    @property
    def halted(self) -> str:
        """The reason that ended the session; "": it goes on."""
        return "" if self._state is None else self._state.halted

    def start(self, environ: Mapping[str, str] = os.environ) -> Command:
        """Judge the words that start the server, and the digests of its programs, right before they are run; or its URL.

        What the list writes as `${NAME}` in the server's `env` is taken from `environ`; nothing else of that goes along.
        """
        with self._lock:
            entry = self._entry(self._shelf.list) or {}
            url, said = entry.get("url"), entry.get("command")
            words = [word for word in said if isinstance(word, str)] if isinstance(said, list) else []
            resolved: list[str] = []
            changed = 0
            if isinstance(url, str) and said is None:
                faults = int(bool(url_wrong(url)) or url not in self._shelf.gate.urls)
            else:
                url = None
                faults = len(list(of_command(said, self.server, self._shelf.gate)))
                if words and not faults:
                    resolved, changed = self._resolved(words)
            listed = bool(words) or url is not None
            decision = self._step(self._facts("start", listed=listed, command_faults=faults, programs_changed=changed))
        if not decision.allowed:
            return Command(decision=decision)
        if url is not None:
            return Command(decision=decision, url=url)
        return Command(decision=decision, words=tuple(resolved), env=_given(entry.get("env"), environ))

    def opened(self, tools: Sequence[Any] | None, *, asked_in: int | None = None) -> Decision:
        """Compare what the server offers with the list. None: it could not be read.

        `asked_in` is the `round` in which it was asked; what came in between has called the answer into question.
        """
        with self._lock:
            moved = asked_in is not None and asked_in != self._round
            signed = self._signed = self._shelf.list
            self._compared_ms, self._offered, self._pins = None, {}, {}
            counts = {"changed": 0, "added": 0, "removed": 0}
            readable = tools is not None
            offered = list(tools or ())
            if signed is not None and readable and offered:
                counts = self._differences(signed, offered)
                try:
                    for one in offered:
                        if isinstance(one, dict) and isinstance(one.get("name"), str):
                            # A copy by way of bytes: the caller's own value can change behind the comparison.
                            self._offered[one["name"]] = msgspec.json.decode(strict.canonical(one))
                            self._pins[one["name"]] = strict.digest(one)
                except (Problem, RecursionError, ValueError):
                    readable = False
            decision = self._step(self._facts("open", readable=readable, offered=len(offered), moved=moved, **counts))
            if decision.allowed:
                self._compared_ms = self._now_ms()
            else:
                self._offered, self._pins = {}, {}
            self._round += 1
            return decision

    def changed(self) -> None:
        """Note that the server says its list changed: no call passes before it was compared anew."""
        with self._lock:
            self._compared_ms = None
            self._round += 1

    @property
    def round(self) -> int:
        """How often the listing was compared or called into question: what was asked before is old when it has moved."""
        return self._round

    def stale(self) -> bool:
        """Whether the server has to be asked again before a call."""
        ago, most = self._compared_ago(), self.guard.max_compared_ms
        return self.guard.wire == "pinned" and (ago is None or ago > most or most == 0 or self._moved())

    def redeem(self, ticket: int, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call that was allowed may be sent as it was judged: once, and as long as nothing was called into question.

        `arguments` are what is about to be sent: a dict can be changed between the two.
        """
        with self._lock:
            round_, name, judged = self._tickets.pop(ticket, (-1, "", ""))
            try:
                same = name == tool and judged == strict.digest(arguments)
            except (Problem, RecursionError):
                same = False
            return same and round_ == self._round and not self.halted and not self._moved()

    def allowed(self) -> list[dict[str, Any]]:
        """Give the tools that the server offers and the list allows, as they were offered: what a model may be told of."""
        signed = self._signed
        if signed is None or self.halted or self._compared_ms is None:
            return []
        return [one for name, one in self._offered.items() if signed.contract(self.server, name) is not None]

    def has(self, tool: str) -> bool:
        """Whether the list in force has a contract of that very name for this session's server."""
        signed = self._shelf.list
        return signed is not None and signed.contract(self.server, tool) is not None

    def call(
        self,
        tool: object,
        arguments: object,
        *,
        finished: bool = True,
        repeated: bool = False,
        kind_known: bool = True,
        compared_in: int | None = None,
    ) -> Asked:
        """Judge one call. `arguments` is JSON in text or bytes, or an object that a client library has read.

        `compared_in` is the `round` of a comparison that was made for this very call.
        """
        with self._lock:
            signed = self._shelf.list
            name = tool if isinstance(tool, str) else ""
            entry = None if signed is None else signed.contract(self.server, name)
            got = read(arguments, cap_bytes=self.guard.max_arguments_bytes)
            usable, unknown, misfit = True, 0, 0
            if entry is not None and got.value is not None:
                usable, unknown, misfit = self._held(signed, name, entry, got.value)
            said = entry.get("privileges") if entry is not None else None
            ago = self._compared_ago()
            if self._moved():
                ago = None
            elif ago is not None and compared_in == self._round:
                ago = 0
            decision = self._step(
                self._facts(
                    "call",
                    tool=name,
                    listed=entry is not None,
                    looks_like_another=entry is None and signed is not None and signed.like(self.server, name),
                    compared_ms_ago=ago,
                    pinned_sha256=_pin(entry),
                    offered_sha256=self._pins.get(name, ""),
                    privileges=tuple(one for one in said if isinstance(one, str)) if isinstance(said, list) else (),
                    finished=finished,
                    repeated=repeated,
                    kind_known=kind_known,
                    arguments_bytes=got.bytes,
                    arguments_read=got.value is not None,
                    schema_usable=usable,
                    arguments_unknown=unknown,
                    arguments_misfit=misfit,
                )
            )
            if not decision.allowed:
                return Asked(decision=decision)
            ticket = 0 if self._state is None else self._state.calls
            self._tickets[ticket] = (self._round, name, strict.digest(got.value))
            if len(self._tickets) > _MOST_TICKETS:  # most calls are made at once, or by nobody who redeems them
                del self._tickets[next(iter(self._tickets))]
            return Asked(decision=decision, arguments=got.value, ticket=ticket)

    # Facts

    def _facts(self, asks: Any, **more: Any) -> law.ToolUse:
        signed = self._shelf.list
        return law.ToolUse(asks=asks, server=self.server, list_sha256="" if signed is None else signed.sha256, **more)

    def _step(self, facts: law.ToolUse) -> Decision:
        self._state, decision = self.guard.step(self._state, facts, self._now_ms())
        if self._recorder is not None:
            self._recorder.record(self._entry_name, "tools", facts, decision)
        if not decision.allowed:
            counts = {
                name: value
                for name in ("changed", "added", "removed", "arguments_bytes", "arguments_unknown", "arguments_misfit")
                if (value := getattr(facts, name))
            }
            shown = facts.tool if facts.listed or facts.asks != "call" else _UNLISTED
            self._log(self.server, shown, decision.reason, counts)
        return decision

    def _entry(self, signed: SignedList | None) -> dict[str, Any] | None:
        if signed is None:
            return None
        if signed.listing.ours:
            return signed.listing.server(self.server)
        return next((one for one in signed.listing.tools if one.get("name") == self.server), None)

    def _resolved(self, command: Sequence[str]) -> tuple[list[str], int]:
        """Put the listed program's own path for each word that means one; count those whose digest is another."""
        words, changed = [], 0
        listed = self._shelf.gate.listed()
        for at, word in enumerate(command):
            program = listed.program(word) if at == 0 else listed.file(word)
            if program is None:
                words.append(word)
                continue
            try:
                found = self._shelf.fact(program.path).sha256
            except Problem:
                found = ""
            changed += found.removeprefix("sha256:") != program.sha256.removeprefix("sha256:")
            local = argv.within(program.path)
            words.append(program.path if local is None else os.fspath(self._shelf.root().resolve() / local))
        return words, changed

    def _differences(self, signed: SignedList, offered: list[Any]) -> dict[str, int]:
        evidence = Tools(
            listing=signed.listing,
            now_ns=0,
            offered=tuple(Offered(place=self.server, server=self.server, tool=one) for one in offered),
        )
        found = {"changed": 0, "added": 0, "removed": 0}
        where = {"tool-added": "added", "tool-removed": "removed"}
        try:
            for one in of_offered(evidence, self._shelf.gate):
                if self._shelf.lets_pass(one):
                    continue
                found[where.get(one.check, "changed")] += 1
        except RecursionError:
            found["changed"] += 1
        return found

    def _held(
        self, signed: SignedList | None, name: str, entry: dict[str, Any], value: dict[str, Any]
    ) -> tuple[bool, int, int]:
        """Hold arguments against the contract, and against the server's own schema where there is one; count what is wrong."""
        key: tuple[str, ...] = ("signed", "" if signed is None else signed.sha256, name)
        schemas = [(key, entry.get("inputSchema"))]
        if name in self._offered:
            schemas.append((("offered", self._pins[name], name), self._offered[name].get("inputSchema")))
        unknown = misfit = 0
        for key, schema in schemas:
            told = self._schemas.faults(key, schema, value)
            if told is None:
                return False, 0, 0
            unknown, misfit = max(unknown, told[0]), max(misfit, told[1])
        return True, unknown, misfit

    def _moved(self) -> bool:
        """Whether another list is in force than the one that the server was compared with."""
        signed = self._shelf.list
        return signed is None or self._signed is None or signed.sha256 != self._signed.sha256

    def _compared_ago(self) -> int | None:
        return None if self._compared_ms is None else max(0, self._now_ms() - self._compared_ms)

    def _now_ms(self) -> int:
        return self._clock.mono_ns() // 1_000_000


def _given(env: object, environ: Mapping[str, str]) -> dict[str, str]:
    """Give what a server's process gets in its environment: texts of the list, and what they refer to by name."""
    found = {}
    for name, value in env.items() if isinstance(env, dict) else ():
        refers = re.fullmatch(r"\$\{([A-Za-z_]\w*)\}", value) if isinstance(value, str) else None
        if refers is not None and refers[1] in environ:
            found[name] = environ[refers[1]]
        elif isinstance(value, str) and "$" not in value:
            found[name] = value
    return found


def _pin(entry: dict[str, Any] | None) -> str:
    pin = None if entry is None else entry.get("wire_sha256")
    if not isinstance(pin, str) or not pin:
        return ""
    return pin if pin.startswith("sha256:") else f"sha256:{pin}"
