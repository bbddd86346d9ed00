"""HTTP/1.1 framing as pure functions over bytes: heads, bodies, server-sent events. No socket, no clock.

1. A message means one thing or it is refused (`Malformed`): both Content-Length and Transfer-Encoding, several
   Content-Lengths, a coding other than `chunked`, folded lines, a bare LF or NUL, a space before the colon, a chunk
   size that is no plain hexadecimal number, a head over `MAX_HEAD_BYTES`. Whoever guesses here can be made to see a
   different request than the next hop does (RFC 9112, 11.2).
2. Any cutting of the same bytes into pieces gives the same answer.
3. Hop-by-hop fields end at the hop (RFC 9110, 7.6.1); all other field lines travel on byte for byte, in their order.
4. Without Content-Length and Transfer-Encoding a request has no body, and a response ends with the connection
   (RFC 9112, 6.3). HEAD, 1xx, 204 and 304 have no body whatever their fields say.
"""

from drillmaster.http1.bodies import (
    LAST_CHUNK,
    Body,
    ChunkedBody,
    CloseBody,
    LengthBody,
    chunk,
    chunked_end,
    has_body,
    request_body,
    response_body,
)
from drillmaster.http1.codings import CODINGS, Inflater, inflater
from drillmaster.http1.events import MAX_FRAME_BYTES, Frames, Lines
from drillmaster.http1.heads import HeadReader, answer_head, cut_head
from drillmaster.http1.shapes import (
    BODYLESS,
    MAX_HEAD_BYTES,
    Answer,
    Malformed,
    RequestHead,
    ResponseHead,
)

__all__ = [
    "BODYLESS",
    "CODINGS",
    "LAST_CHUNK",
    "MAX_FRAME_BYTES",
    "MAX_HEAD_BYTES",
    "Answer",
    "Body",
    "ChunkedBody",
    "CloseBody",
    "Frames",
    "HeadReader",
    "Inflater",
    "LengthBody",
    "Lines",
    "Malformed",
    "RequestHead",
    "ResponseHead",
    "answer_head",
    "chunk",
    "chunked_end",
    "cut_head",
    "has_body",
    "inflater",
    "request_body",
    "response_body",
]
