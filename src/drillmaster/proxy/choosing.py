"""What the rules of an injection say to one request: who takes it, in their order."""

import random
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

from drillmaster.dialects import offers_tools, peek_json
from drillmaster.faults import Action, Data, End, Lifted, Read
from drillmaster.http1 import RequestHead
from drillmaster.proxy.switch import Armed, Injection
from drillmaster.proxy.witness import Witness
from drillmaster.targeting import Asked, fingerprint

__all__ = ["Broken", "asked", "choose", "read_body"]


class Broken(Exception):
    """The body did not come to its end: the client left or was silent, or the fault was lifted."""


def read_body(limit_bytes: int) -> Generator[Action, Any, bytes | None]:
    """Read the client's body to its end, as a script does; None once it is over the limit. Raises Broken."""
    pieces: list[bytes] = []
    size = 0
    while size <= limit_bytes:
        try:
            event = yield Read("client")
        except Lifted:
            raise Broken from None
        match event:
            case End():
                return b"".join(pieces)
            case Data(body=body):
                pieces.append(body)
                size += len(body)
            case _:
                raise Broken
    return None


def choose(ex: Witness, injection: Injection, body: bytes | None) -> Iterator[tuple[Armed, random.Random]]:
    """Ask each rule, once a request. `body` None: it was not read, or not to its end.

    Yields who takes it, each with the generator that goes with the request's fate.
    """
    request = asked(ex, body)
    injection.see(request)
    since_s = max(0, ex.start_ns - injection.injected_ns) / 1e9
    for one in injection.armed:
        fate = one.aim.takes(request, since_s) if one.aim is not None else None
        if fate is not None:
            yield one, fate


def asked(ex: Witness, body: bytes | None) -> Asked:
    """What rules look at of a request."""
    head = ex.head
    model = stream = tools = said = None
    if body is not None:
        seen = ex.dialect.peek(head, peek_json(body))
        model, stream, tools = seen.model, seen.stream, offers_tools(body)
        said = fingerprint(head.method, head.origin_form, body)
    return Asked(
        method=head.method,
        path=head.path,
        header=partial(_field, head),
        dialect=ex.route.name,
        key=ex.hub.key_hash(head.named),
        model=model,
        stream=stream,
        tools=tools,
        print=said,
    )


def _field(head: RequestHead, name: str) -> str | None:
    if name == "host":
        return None if head.host is None else head.host.decode("latin-1")
    wanted = name.encode("latin-1") + b":"
    found = [line[len(wanted) :].strip(b" \t") for line in head.lines if line[: len(wanted)].lower() == wanted]
    return b", ".join(found).decode("latin-1") if found else None
