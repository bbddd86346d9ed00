"""A stage for a script: an upstream, a client and a clock made of values, and a record of what the script did.

It keeps the rules of the proxy's driver as far as one exchange needs them: a Pass reports what went through, time moves by
Waits alone, a Read of the client gives its body and then its end.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from drillmaster.clock import ManualClock
from drillmaster.dialects import load as load_dialect
from drillmaster.faults import (
    Action,
    Close,
    Cx,
    Data,
    End,
    Fault,
    Head,
    Lifted,
    Lost,
    Pass,
    Passed,
    Raw,
    Read,
    Refuse,
    Send,
    Wait,
)
from drillmaster.http1 import HeadReader
from drillmaster.proxy.hub import NAMED

__all__ = ["Played", "Stage"]

BODY = b'{"choices":[{"finish_reason":"stop"}]}'


@dataclass
class Played:
    """What one script did."""

    actions: list[Action] = field(default_factory=list)
    sent: bytes = b""
    """Bytes of bodies, and raw ones, that went to the client by Send."""
    head: Head | None = None
    passed_bytes: int = 0
    """Of the upstream's body, by Pass."""
    fields: tuple[tuple[str, str], ...] = ()
    """What a Pass put into the answer's head."""
    waited_s: float = 0.0
    end: str = "returned"
    """`returned`, `rst`, `fin`, `half`, `refused`, `silent`, `lifted`, `held` (it would go on for ever)."""

    @property
    def status(self) -> int | None:
        return None if self.head is None else self.head.status

    def field(self, name: str) -> str | None:
        found = self.head.headers if self.head is not None else ()
        return next((value for key, value in found if key.lower() == name), None)

    def kinds(self) -> list[str]:
        return [type(action).__name__ for action in self.actions]


class Stage:
    """One proxy's window, in which any number of requests are played."""

    def __init__(self, dialect: str = "openai_chat", *, upstream: bytes = BODY, lost: bool = False) -> None:
        self.clock = ManualClock(mono_ns=5_000_000_000)
        self.dialect = load_dialect(dialect)
        self.injected_ns = self.clock.mono_ns()
        self._cells: dict[str, dict[str, Any]] = {}
        self._upstream = upstream
        self._lost = lost
        self.first_seen_ns: dict[str, int] = {}

    def cell(self, key: str) -> dict[str, Any]:
        return self._cells.setdefault(key, {})

    def play(
        self,
        fault: Fault,
        *,
        body: bytes = b"{}",
        coding: str = "",
        key: str | None = "k1",
        nth: int = 1,
        path: str = "/v1/chat/completions",
        method: str = "POST",
        lift_after: int | None = None,
        broken: bool = False,
        max_actions: int = 20_000,
    ) -> Played:
        """One request. `lift_after`: Lifted is thrown in place of the answer to that action. `broken`: the client leaves."""
        coded = f"Content-Encoding: {coding}\r\n" if coding else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{coded}\r\n".encode()
        if key is not None:
            self.first_seen_ns.setdefault(key, self.clock.mono_ns())
        script = fault.script(
            Cx(
                request=None if fault.scope != "exchange" else HeadReader(NAMED).request(head),
                conn=1,
                nth=nth,
                dialect=self.dialect,
                make_rng=lambda: random.Random(7),
                now_ns=self.clock.mono_ns,
                cell=self.cell,
                wall_ns=self.clock.wall_ns,
                injected_ns=self.injected_ns,
                key_hash=key,
                key_first_ns=None if key is None else self.first_seen_ns[key],
                keys_since_ns=min(self.first_seen_ns.values(), default=None),
            )
        )
        played = Played()
        answers = _Answers(self, played, body, broken)
        value: object = None
        while len(played.actions) < max_actions:
            try:
                action = script.throw(value) if isinstance(value, Lifted) else script.send(value)
            except StopIteration:
                return played
            except Lifted:
                played.end = "lifted"
                return played
            played.actions.append(action)
            value = answers.to(action)
            if isinstance(action, Close | Refuse):
                played.end = action.how
                script.close()
                return played
            if lift_after is not None and len(played.actions) == lift_after:
                value = Lifted()
        played.end = "held"
        script.close()
        return played


class _Answers:
    """What comes of each action."""

    def __init__(self, stage: Stage, played: Played, body: bytes, broken: bool) -> None:
        self._stage = stage
        self._played = played
        self._client: Iterator[object] = iter([Lost("cut")] if broken else [*_pieces(body), End()])
        self._client_end: object = None
        upstream: list[object] = [Head(200, (("content-type", "application/json"),))]
        self._upstream: list[object] = [Lost("reset")] if stage._lost else [*upstream, *_pieces(stage._upstream), End()]

    def to(self, action: Action) -> object:
        played = self._played
        match action:
            case Read(side="client"):
                self._client_end = next(self._client, self._client_end)
                return self._client_end
            case Read(side="upstream"):
                return self._upstream.pop(0) if len(self._upstream) > 1 else self._upstream[0]
            case Send(part=Head() as head):
                played.head = head
            case Send(part=Data(body=data) | Raw(wire=data)):
                played.sent += data
            case Wait(seconds=seconds):
                if seconds is not None:
                    played.waited_s += seconds
                    self._stage.clock.advance(seconds)
            case Pass(until_bytes=until_bytes, fields=fields):
                whole_bytes = len(self._stage._upstream)
                played.fields = fields or played.fields
                played.passed_bytes = whole_bytes if until_bytes is None else min(until_bytes, whole_bytes)
                return Passed(played.passed_bytes, played.passed_bytes == whole_bytes)
        return None


def _pieces(body: bytes) -> list[object]:
    return [Data(body[at : at + 16_384]) for at in range(0, len(body), 16_384)]


Play = Callable[..., Played]
