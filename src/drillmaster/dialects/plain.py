"""The dialect `plain`: HTTP of which nothing more is known. The last resort of recognition."""

from typing import ClassVar

from drillmaster.dialects import (
    Condition,
    Dialect,
    Ending,
    Finish,
    Reply,
    Says,
    Shape,
    Streamed,
    data_of,
    dump,
    sse,
    whole_seconds,
)
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Plain"]


class Plain(Dialect):
    """Any HTTP. Its error is a JSON object with an `error` object, which most clients of JSON APIs can read.

    Finished: a status of 2xx and a whole message. Nothing is known of an API's own terminal state, so that a stream which
    was cleanly cut short counts as finished.
    """

    name: ClassVar[str] = "plain"
    carries: ClassVar[bytes | None] = None
    shared: ClassVar[bool] = True
    shapes: ClassVar[tuple[Shape, ...]] = (Shape("data-error", "ours"),)

    def speaks(self, request: RequestHead) -> bool:
        return True

    def unlisted(self, status: int) -> Condition:
        word = "upstream_unavailable" if status in (502, 503, 504) else "error"
        return Condition(
            name="unlisted",
            status=status,
            kind=word,
            message=word.replace("_", " "),
            source="ours",
            tells_delay=status in (429, 503),
        )

    def condition(self, status: int | None, name: str | None = None) -> Condition:
        # Whatever the name, it is the word: the proxy's own answers say why in it.
        row = super().condition(status, name)
        if name is None:
            return row
        return Condition(
            name=name,
            status=row.status,
            kind=name,
            message=name.replace("_", " "),
            source="ours",
            tells_delay=row.tells_delay,
        )

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        body = dump({"error": {"message": row.message, "type": row.kind, "code": row.kind}})
        told = () if retry_after_s is None else (("retry-after", whole_seconds(retry_after_s)),)
        headers = (("content-type", "application/json"), ("x-request-id", request_id), *told)
        return Answer(row.status, headers, body, row.source)

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        # Nothing is known of a terminal state but the framing's.
        if not 200 <= status < 300:
            return Ending.ERROR
        return Ending.COMPLETE if whole else Ending.CUT

    def says(self, frame: bytes) -> Says:
        if not frame.strip() or frame.startswith(b":"):
            return Says.PING
        value = data_of(frame)
        return Says.ERROR if isinstance(value, dict) and value.get("error") is not None else Says.CONTENT

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        self.shape(shape)
        row = self.condition(None, condition)
        return (sse(dump({"error": {"message": row.message, "type": row.kind, "code": row.kind}})),)

    def finish_word(self, finish: Finish) -> str:
        return finish

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        value = {"id": reply.answer_id, "model": reply.model, "text": reply.text, "finish": reply.finish}
        return Answer(200, (("content-type", "application/json"),), dump(value), "ours")

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        frames = tuple(sse(dump({"text": piece})) for piece in reply.pieces)
        return Streamed((("content-type", "text/event-stream"),), frames)


DIALECT = Plain()
