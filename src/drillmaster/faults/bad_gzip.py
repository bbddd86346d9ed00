"""The fault `bad-gzip`."""

from typing import ClassVar

from drillmaster.faults import Close, Cx, Fault, Head, Lifted, Read, Script, Send, relay_body

__all__ = ["BadGzip"]


class BadGzip(Fault, frozen=True, kw_only=True, tag="bad-gzip"):
    """Send the real answer as it is and say that it is compressed: `content-encoding: gzip`.

    Breaks: clients that take it for a broken connection: openai, anthropic and groq ask three times and raise
    APIConnectionError (measured); httpx raises DecodingError, requests ContentDecodingError, aiohttp ClientPayloadError.
    Looks like: a provider that is down, while it answers and bills each attempt.
    Cannot show: a coding that the client does not know, or a body that goes bad half way.
    """

    group = "content"
    seen = ("broken",)
    reads_answer: ClassVar[bool] = True

    def script(self, cx: Cx) -> Script:
        try:
            head = yield Read("upstream")
        except Lifted:
            return  # it passes as it is
        if not isinstance(head, Head) or any(name.lower() == "content-encoding" for name, _ in head.headers):
            return
        yield Send(Head(head.status, (*head.headers, ("content-encoding", "gzip")), head.reason))
        if not (yield from relay_body()):
            yield Close("fin")
