"""What a fault says in the words of each API, played without a socket: the client's request is whole, nobody is asked.

Only what a script says by itself is told. One that asks the upstream, or lets the request pass, says nothing of its own; but
one that lets the first requests pass (a quota) is asked again, with the state it keeps.
"""

import random
from typing import Any

from drillmaster.dialects import Dialect
from drillmaster.faults import Cx, Data, End, Fault, Head, Read, Send, Wait
from drillmaster.http1 import Answer, HeadReader
from drillmaster.trying import Ask

__all__ = ["said"]

_AT_MOST = 20
_STEPS = 1_000
_NOW_NS = 1_767_225_600_000_000_000


class _Listening:
    """A dialect that remembers the last error it worded, for its source."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.worded: Answer | None = None

    def error(self, *args: Any, **named: Any) -> Answer:
        self.worded = self.dialect.error(*args, **named)
        return self.worded

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dialect, name)


def said(fault: Fault, dialect: Dialect, ask: Ask) -> Answer | None:
    """The answer with which this fault stands in for the API; None: it sends none of its own. `source` is the API's row."""
    cells: dict[str, dict[str, Any]] = {}
    for nth in range(1, (fault.first_met() or _AT_MOST) + 1):
        listening = _Listening(dialect)
        answer = _play(fault, listening, ask, nth, cells)
        if answer is not None:
            return answer
    return None


def _play(fault: Fault, dialect: _Listening, ask: Ask, nth: int, cells: dict[str, dict[str, Any]]) -> Answer | None:
    lines = [f"{ask.method} {ask.path} HTTP/1.1", "host: example", f"content-length: {len(ask.body)}"]
    lines += [f"{name}: {value}" for name, value in ask.fields]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    names = frozenset(name.encode() for name, _ in ask.fields)
    script = fault.script(
        Cx(
            request=HeadReader(names).request(head) if fault.scope == "exchange" else None,
            conn=1,
            nth=nth,
            dialect=dialect,  # type: ignore[arg-type] # it is one in all but its class
            make_rng=lambda: random.Random(1),  # noqa: S311 - ids of an example
            now_ns=lambda: 0,
            cell=lambda key: cells.setdefault(key, {}),
            wall_ns=lambda: _NOW_NS,
            key_hash="0" * 16,
        )
    )
    events: list[Data | End] = [Data(ask.body), End()]
    status: int | None = None
    fields: tuple[tuple[str, str], ...] = ()
    body = b""
    value: object = None
    for _ in range(_STEPS):
        try:
            action = script.send(value)
        except StopIteration:
            break
        value = None
        match action:
            case Read(side="client"):
                value = events.pop(0) if len(events) > 1 else events[0]
            case Send(part=Head() as part):
                status, fields = part.status, part.headers
            case Send(part=Data() as piece):
                body += piece.body
            case Send(part=End()):
                break
            case Wait():
                continue
            case _:  # it asks the upstream, lets it pass, or closes
                status = None
                break
    script.close()
    if status is None:
        return None
    return Answer(status, fields, body, dialect.worded.source if dialect.worded is not None else "")
