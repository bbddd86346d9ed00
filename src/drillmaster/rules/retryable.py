"""The law of what may be sent again: how calls end, in three protocols, and which of these ends heal by themselves.

1. An end that is not in a table is not retryable. There is no range and no default: 5xx is nine hundred numbers, six of which
   are here.
2. A row says whether the request may have been worked on. Where it may have been, only a method that does no more the second
   time, or a key by which the server knows it again, makes a second one safe.
3. A status says what the server meant. What a proxy or a client library makes of a lost connection is no status.
4. Each row has its source, with a link. A new one has a person's name under it, in the change that brings it.
"""

from typing import Literal

import msgspec

__all__ = ["GRPC", "HTTP", "SAFE_METHODS", "WEBSOCKET", "End", "Protocol", "keyed_methods", "retryable"]

Protocol = Literal["http", "grpc", "websocket"]


class End(msgspec.Struct, frozen=True):
    """One way a call ends that may heal. `worked`: the request may have had its effect."""

    code: int
    name: str
    worked: bool
    source: str
    link: str


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Safe by RFC 9110, 9.2.1: asking again asks for nothing more."""
_KEYED = frozenset({"PUT", "DELETE", "POST", "PATCH"})
"""Methods that change something. PUT and DELETE are idempotent by RFC 9110, 9.2.2, of one resource at one time: a second PUT
overwrites what somebody else wrote in between. So each of them wants a key."""

_RFC9110 = "https://www.rfc-editor.org/rfc/rfc9110#section-"
_GRPC = "https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto"
_IANA = "https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number"

HTTP: dict[int, End] = {
    end.code: end
    for end in (
        End(
            408,
            "Request Timeout",
            False,
            "RFC 9110: the server closed before it had a whole request",
            f"{_RFC9110}15.5.9",
        ),
        End(
            425,
            "Too Early",
            False,
            "RFC 8470: not processed, since it came in early data of TLS; the second one is to come without, as Python's do",
            "https://www.rfc-editor.org/rfc/rfc8470#section-5.2",
        ),
        End(
            429,
            "Too Many Requests",
            False,
            "RFC 6585: refused for its rate",
            "https://www.rfc-editor.org/rfc/rfc6585#section-4",
        ),
        End(502, "Bad Gateway", True, "RFC 9110: an inbound server answered, and not validly", f"{_RFC9110}15.6.3"),
        End(
            503,
            "Service Unavailable",
            True,
            "RFC 9110: overload or maintenance, likely to be alleviated",
            f"{_RFC9110}15.6.4",
        ),
        End(504, "Gateway Timeout", True, "RFC 9110: an upstream did not answer in time", f"{_RFC9110}15.6.5"),
    )
}
GRPC: dict[int, End] = {
    end.code: end
    for end in (
        End(8, "RESOURCE_EXHAUSTED", False, "google.rpc.Code: a quota; google.rpc.RetryInfo says when", _GRPC),
        End(14, "UNAVAILABLE", True, "google.rpc.Code: most likely a transient condition, retry with a backoff", _GRPC),
    )
}
"""ABORTED (10) is retried at a higher level, with a new read; DEADLINE_EXCEEDED (4) may have had its effect and says nothing."""
WEBSOCKET: dict[int, End] = {
    end.code: end
    for end in (
        End(
            1001,
            "Going Away",
            True,
            "RFC 6455: the server goes down, or the page was left",
            "https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1",
        ),
        End(1012, "Service Restart", True, "IANA's registry: connect again after a random 5 to 30 s", _IANA),
        End(1013, "Try Again Later", False, "IANA's registry: overload", _IANA),
    )
}
"""1006 is no code that was sent: the connection was lost, and what became of the last message is not known."""

_TABLES: dict[str, dict[int, End]] = {"http": HTTP, "grpc": GRPC, "websocket": WEBSOCKET}


def retryable(protocol: str, code: object) -> End | None:
    """Find the row of an end; None: it is not retryable. A text, a boolean or a fraction is the code of nothing."""
    if type(code) is not int:
        return None
    return _TABLES.get(protocol, {}).get(code)


def keyed_methods() -> frozenset[str]:
    """Give the methods of which a second request wants an idempotency key."""
    return _KEYED
