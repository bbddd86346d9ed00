"""What the rules of an injection say to one request: who takes it, in their order."""

import random
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from drillmaster.dialects import offers_tools, peek_json
from drillmaster.faults import Action, Data, End, Lifted, Read, Unfolding, coding_of
from drillmaster.http1 import RequestHead
from drillmaster.proxy.switch import Armed, Injection
from drillmaster.proxy.witness import Witness
from drillmaster.targeting import MATCH_BYTES, Asked, fingerprint

__all__ = ["Broken", "asked", "choose", "read_body"]


class Broken(Exception):
    """The body did not come to its end: the client left or was silent, or the fault was lifted."""


def read_body(limit_bytes: int, is_full: Callable[[], bool]) -> Generator[Action, Any, bytes | None]:
    """Read the client's body to its end, as a script does. Raises Broken.

    None: it is over the limit, or there is no more room for what all of them hold (`is_full`).
    """
    pieces: list[bytes] = []
    size = 0
    while size <= limit_bytes:
        if is_full():
            return None
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
    injection.see(_kind(ex, request))
    since_s = max(0, ex.start_ns - injection.injected_ns) / 1e9
    for one in injection.armed:
        fate = one.aim.takes(request, since_s) if one.aim is not None else None
        if fate is not None:
            yield one, fate


def asked(ex: Witness, body: bytes | None) -> Asked:
    """What rules look at of a request."""
    head = ex.head
    model = stream = tools = said = None
    text = None if body is None else _uncoded(head, body)
    if text is not None:
        seen = ex.dialect.peek(head, peek_json(text))
        model, stream, tools = seen.model, seen.stream, offers_tools(text)
    if body is not None:
        said = fingerprint(head.method, head.origin_form, body if text is None else text)
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
        legible=text is not None,
    )


def _uncoded(head: RequestHead, body: bytes) -> bytes | None:
    """The body as it was before it was compressed: gzip puts the time of day into it. None: that cannot be told."""
    unfolding = Unfolding(coding_of(head), MATCH_BYTES)
    text = b"".join(unfolding.feed(body))
    return text if unfolding.whole else None


def _kind(ex: Witness, request: Asked) -> str:
    """What came, as people and evidence are told it."""
    model = ex.hub.clean(request.model) if request.model else ""
    stream, tools = "stream" if request.stream else "", "tools" if request.tools else ""
    return " ".join(filter(None, (ex.route.method, ex.route.path, model, stream, tools)))


def _field(head: RequestHead, name: str) -> str | None:
    if name == "host":
        return None if head.host is None else head.host.decode("latin-1")
    wanted = name.encode("latin-1") + b":"
    found = [line[len(wanted) :].strip(b" \t") for line in head.lines if line[: len(wanted)].lower() == wanted]
    return b", ".join(found).decode("latin-1") if found else None
