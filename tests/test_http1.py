"""Framing: what is refused, and that any cutting of the same bytes gives the same answer."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.http1 import (
    MAX_FRAME_BYTES,
    MAX_HEAD_BYTES,
    ChunkedBody,
    CloseBody,
    Frames,
    HeadReader,
    LengthBody,
    Lines,
    Malformed,
    RequestHead,
    ResponseHead,
    answer_head,
    chunk,
    chunked_end,
    cut_head,
    request_body,
    response_body,
)

KEEP = frozenset((b"authorization",))


def read(head: bytes) -> RequestHead:
    assert cut_head(head) == len(head)
    return HeadReader(KEEP).request(head)


def read_answer(head: bytes) -> ResponseHead:
    assert cut_head(head) == len(head)
    return HeadReader(response=True).response(head)


def get(*lines: bytes, version: bytes = b"1.1", host: bytes = b"Host: a\r\n") -> bytes:
    return b"GET / HTTP/" + version + b"\r\n" + host + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


SAD_REQUESTS = [
    (b"GET /\r\nHost: a\r\n\r\n", "no version"),
    (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "two spaces"),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "another major version"),
    (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "another minor version"),
    (b"G\x00T / HTTP/1.1\r\nHost: a\r\n\r\n", "NUL in the method"),
    (b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", "DEL in the target"),
    (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", "a target that is no form"),
    (get(host=b""), "HTTP/1.1 without Host"),
    (get(b"Host: b"), "two Hosts"),
    (get(b"A : b"), "a space before the colon"),
    (get(b" folded"), "a folded line"),
    (get(b"A: b\r\n\tfolded"), "a folded line behind a good one"),
    (get(b"no colon"), "no colon"),
    (get(b": no name"), "no name"),
    (get(b"A: b\x00c"), "NUL in a value"),
    (get(b"A: b\rc"), "a bare CR in a value"),
    (get(b"Content-Length: 5", b"Content-Length: 5"), "two lengths, even equal ones"),
    (get(b"Content-Length: 5, 5"), "a list of lengths"),
    (get(b"Content-Length: +5"), "a signed length"),
    (get(b"Content-Length: 0x5"), "a hexadecimal length"),
    (get(b"Content-Length: "), "an empty length"),
    (get("Content-Length: ٥".encode()), "digits of another script"),
    (get(b"Content-Length: 5", b"Transfer-Encoding: chunked"), "both framings"),
    (get(b"Transfer-Encoding: gzip, chunked"), "a coding before chunked"),
    (get(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), "chunked twice"),
    (get(b"Transfer-Encoding: xchunked"), "almost chunked"),
    (get(b"Transfer-Encoding: chunked", version=b"1.0"), "chunked in HTTP/1.0"),
]


@pytest.mark.parametrize(("head", "why"), SAD_REQUESTS, ids=[why for _, why in SAD_REQUESTS])
def test_a_head_that_two_readers_could_read_differently_is_refused(head: bytes, why: str) -> None:
    with pytest.raises(Malformed):
        read(head)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\n", b"GET / HTTP/1.1\r\nHost: a\n\n", b"\nGET"])
def test_a_bare_line_feed_is_refused_before_the_head_is_complete(data: bytes) -> None:
    with pytest.raises(Malformed):
        cut_head(data)


def test_a_head_over_the_cap_is_refused_whole_or_not() -> None:
    with pytest.raises(Malformed):
        cut_head(b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD_BYTES)
    with pytest.raises(Malformed):
        cut_head(get(b"A: " + b"x" * MAX_HEAD_BYTES))


def test_hop_by_hop_fields_and_those_that_connection_names_do_not_travel_on() -> None:
    head = read(
        get(
            b"Connection: close, X-Hop",
            b"x-hop: 1",
            b"Keep-Alive: 5",
            b"TE: trailers",
            b"X-End: 2",
            b"Proxy-Connection: x",
        )
    )
    assert head.lines == [b"X-End: 2"]
    assert not head.keep_alive


def test_lines_that_travel_keep_their_bytes_order_and_case() -> None:
    head = read(get(b"X-b:  1 ", b"Accept:*/*", b"x-B: 2", b"Authorization: Bearer k"))
    assert head.lines == [b"X-b:  1 ", b"Accept:*/*", b"x-B: 2", b"Authorization: Bearer k"]
    assert head.named == {b"authorization": b"Bearer k"}


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (get(), True),
        (get(b"Connection: close"), False),
        (get(b"Connection: Keep-Alive, CLOSE"), False),
        (get(version=b"1.0"), False),
        (get(b"Connection: keep-alive", version=b"1.0"), True),
        (get(version=b"1.0", host=b""), False),
    ],
)
def test_keep_alive_follows_version_and_connection(head: bytes, keep_alive: bool) -> None:
    assert read(head).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("target", "form", "path"),
    [
        (b"/v1/x?q=1", b"/v1/x?q=1", "/v1/x"),
        (b"http://h:1/v1?q", b"/v1?q", "/v1"),
        (b"http://h", b"/", "/"),
        (b"http://h?q=1", b"/?q=1", "/"),
        (b"*", b"*", "*"),
    ],
)
def test_the_origin_form_of_a_target(target: bytes, form: bytes, path: str) -> None:
    head = read(b"OPTIONS " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (head.origin_form, head.path) == (form, path)


def test_upgrade_counts_only_where_connection_names_it() -> None:
    assert read(get(b"Upgrade: websocket", b"Connection: keep-alive, Upgrade")).upgrade == b"websocket"
    assert read(get(b"Upgrade: websocket")).upgrade is None


def test_a_remembered_line_reads_like_the_first_time() -> None:
    reader = HeadReader(KEEP)
    raw = get(b"Authorization: Bearer k", b"Content-Length: 7", b"X: y", b"Connection: close", b"Expect: 100-continue")
    once, again = reader.request(raw), reader.request(raw)
    assert said(once) == said(again)
    with pytest.raises(Malformed):
        reader.request(get(b"Content-Length: 7", b"Content-Length: 7"))


def said(head: RequestHead | ResponseHead) -> dict[str, object]:
    """What a head says, without what its reader keeps there for the next one."""
    own = {"alike", "came", "memo", "raw"}
    return {name: getattr(head, name) for name in head.__slots__ if name not in own}


# Values that read differently, names that do, and what is refused in a line that was fine in the head before.
VALUES = [
    b" a",
    b"b",
    b" \t7",
    b" 18",
    b"",
    b" close",
    b" X, close",
    b" 07",
    b" 7 7",
    b" a\rb",
    b" a\nb",
    b" \x00",
    b" gzip",
]
NAMES = [
    b"X",
    b"x",
    b"Authorization",
    b"Content-Length",
    b"Traceparent",
    b"Connection",
    b"Host",
    b"Content-Type",
    b"X Y",
]
FIELD_LINES = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map(lambda pair: b":".join(pair))


@given(
    heads=st.lists(
        st.tuples(
            st.sampled_from([b"GET / HTTP/1.1", b"GET / HTTP/1.0", b"PUT /a HTTP/1.1"]),
            st.lists(FIELD_LINES, max_size=4),
        ),
        min_size=2,
        max_size=4,
    ),
    mutations=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(VALUES)), max_size=3),
)
def test_a_head_reads_the_same_whatever_came_before_it(
    heads: list[tuple[bytes, list[bytes]]], mutations: list[tuple[int, bytes]]
) -> None:
    # Most heads of a connection differ in a value or two: so do these.
    first, lines = heads[-1]
    for at, value in mutations:
        lines = [line.partition(b":")[0] + b":" + value if i == at else line for i, line in enumerate(lines)]
        heads.append((first, lines))
    keep = KEEP | {b"traceparent"}
    reader, last = HeadReader(keep, fresh=frozenset((b"traceparent",))), None
    answers, last_answer = HeadReader(response=True), None
    for first, lines in heads:
        raw = b"\r\n".join((first, b"Host: a", *lines, b"", b""))
        alone, chained = attempt(HeadReader(keep).request, raw), attempt(reader.request, raw, last)
        assert chained == alone
        if not isinstance(alone, str):
            last = reader.request(raw, last)
        raw = b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"", b""))
        alone, chained = attempt(HeadReader(response=True).response, raw), attempt(answers.response, raw, last_answer)
        assert chained == alone
        if not isinstance(alone, str):
            last_answer = answers.response(raw, last_answer)


def test_a_line_that_changes_after_heads_that_were_all_the_same_travels_on() -> None:
    reader, last = HeadReader(), None
    for value in (b"1", b"1", b"2"):
        last = reader.request(get(b"X: " + value), last)
        assert last.lines == [b"X: " + value]


def attempt(read: Callable[..., RequestHead | ResponseHead], *given: object) -> dict[str, object] | str:
    try:
        return said(read(*given))
    except Malformed as bad:
        return bad.why


def test_what_was_found_out_goes_on_to_the_next_head_while_all_is_the_same_but_fresh_fields() -> None:
    reader = HeadReader(KEEP | {b"traceparent"}, fresh=frozenset((b"traceparent",)))
    head = reader.request(get(b"Authorization: a", b"traceparent: 1", b"Content-Length: 1", b"X: 1"))
    head.memo = "found"
    head = reader.request(get(b"Authorization: a", b"traceparent: 2", b"Content-Length: 22", b"X: 2"), head)
    assert (head.memo, head.named[b"traceparent"], head.length, head.lines[-1]) == ("found", b"2", 22, b"X: 2")
    assert reader.request(get(b"Authorization: b", b"traceparent: 2", b"Content-Length: 2", b"X: 2"), head).memo is None
    assert reader.request(get(b"Authorization: a", host=b"Host: b\r\n"), head).memo is None


def test_an_answer_like_the_last_one_is_the_same_value() -> None:
    reader = HeadReader(response=True)
    raw = b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 3\r\n\r\n"
    last = reader.response(raw)
    assert reader.response(raw, last) is last
    later = reader.response(raw.replace(b"now", b"then").replace(b"3", b"44"), last)
    assert (later.length, later.lines, last.lines[0]) == (44, [b"Date: then", b"Content-Length: 44"], b"Date: now")


@pytest.mark.parametrize("bad", [b"X: a\rb", b"X: a\nb", b"X: a\x00b", b"X : a", b" X: a", b"X"])
def test_a_name_that_was_read_before_excuses_no_bad_line(bad: bytes) -> None:
    reader = HeadReader(KEEP)
    reader.request(get(b"X: fine", b"Authorization: Bearer k"))
    with pytest.raises(Malformed):
        reader.request(get(bad))


@pytest.mark.parametrize("first", [b"short", b"l" * 2_000])
@pytest.mark.parametrize("second", [b"short too", b"m" * 2_000])
def test_of_several_fields_of_one_name_the_first_is_kept_however_long(first: bytes, second: bytes) -> None:
    reader = HeadReader(KEEP)
    for _ in range(2):
        head = reader.request(get(b"Authorization: " + first, b"authorization: " + second))
        assert head.named == {b"authorization": first}


def test_what_is_remembered_is_forgotten_between_heads_and_never_within_one() -> None:
    reader = HeadReader(KEEP)
    for i in range(400):
        many = [b"X-%d: %d" % (j, i) for j in range(20)]
        assert reader.request(get(b"Authorization: Bearer %d" % i, *many)).named == {b"authorization": b"Bearer %d" % i}


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 x\r\n\r\n",
        b"HTTP/1.1200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_an_answer_that_is_no_http_is_refused(head: bytes) -> None:
    with pytest.raises(Malformed):
        read_answer(head)


def test_an_answer_without_a_reason_is_read() -> None:
    head = read_answer(b"HTTP/1.1 200\r\nContent-Type: Text/Event-Stream; charset=UTF-8\r\n\r\n")
    assert (head.status, head.reason, head.content_type) == (200, b"", b"text/event-stream; charset=utf-8")


@pytest.mark.parametrize(
    ("status", "method", "fields", "kind"),
    [
        (200, "HEAD", b"Content-Length: 9\r\n", LengthBody),
        (204, "GET", b"", LengthBody),
        (304, "GET", b"Content-Length: 9\r\n", LengthBody),
        (200, "GET", b"Content-Length: 9\r\n", LengthBody),
        (200, "GET", b"Transfer-Encoding: chunked\r\n", ChunkedBody),
        (200, "GET", b"", CloseBody),
    ],
)
def test_which_body_an_answer_has(status: int, method: str, fields: bytes, kind: type) -> None:
    body = response_body(read_answer(b"HTTP/1.1 %d x\r\n%b\r\n" % (status, fields)), method)
    assert type(body) is kind
    assert body.done is (method == "HEAD" or status in (204, 304))


def test_a_request_without_framing_has_no_body() -> None:
    assert request_body(read(get())).done


SAD_CHUNKS = [
    b"\r\n",
    b"-1\r\n",
    b"0x1\r\na\r\n",
    b" 1\r\na\r\n",
    b"1 \r\na\r\n",
    b"1\na\r\n",
    b"1\r\nab",
    b"1\r\na\n",
    b"1\r\na\rb",
    b"G\r\n",
    b"f" * 16 + b"\r\n",
    b"1;" + b"x" * 2_000,
    b"1;a\x00\r\na\r\n",
    b"0\r\nbad trailer\r\n\r\n",
    b"0\r\nA: " + b"x" * 20_000,
]


@pytest.mark.parametrize("data", SAD_CHUNKS)
@pytest.mark.parametrize("piece_bytes", [1, 3, 1 << 20])
def test_a_chunk_that_is_none_is_refused_in_any_cutting(data: bytes, piece_bytes: int) -> None:
    body = ChunkedBody()
    with pytest.raises(Malformed):
        for at in range(0, len(data), piece_bytes):
            body.feed(data[at : at + piece_bytes])


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    extension=st.sampled_from([b"", b";a=b", b" ; x", b";"]),
    trailers=st.lists(st.sampled_from([b"A: 1", b"x-b:2"]), max_size=2),
    rest=st.binary(max_size=20),
    cuts=st.lists(st.integers(0, 10_000), max_size=12),
)
def test_a_chunked_body_reads_the_same_in_any_cutting(
    pieces: list[bytes], extension: bytes, trailers: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    wire = b"".join(b"%X%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + chunked_end(trailers)
    body = ChunkedBody()
    got, left = b"", b""
    for piece in cut(wire + rest, cuts):
        if body.done:
            left += piece
        else:
            got += body.feed(piece)
            left = body.rest
    assert body.done
    assert body.end()
    assert got == b"".join(pieces)
    assert body.trailers == trailers
    assert left == rest


@given(content=st.binary(max_size=60), rest=st.binary(max_size=20), cuts=st.lists(st.integers(0, 1_000), max_size=8))
def test_a_body_of_known_length_reads_the_same_in_any_cutting(content: bytes, rest: bytes, cuts: list[int]) -> None:
    body = LengthBody(len(content))
    got, left = b"", b""
    for piece in cut(content + rest, cuts):
        if body.done:
            left += piece
        else:
            got += body.feed(piece)
            left = body.rest
    assert (got, left, body.end()) == (content, rest, True)


def test_a_body_that_breaks_off_is_not_whole() -> None:
    short, chunked = LengthBody(5), ChunkedBody()
    short.feed(b"1234")
    chunked.feed(b"4\r\n1234\r\n")
    assert not short.end()
    assert not chunked.end()


def test_a_trailer_cannot_change_the_framing() -> None:
    body = ChunkedBody()
    body.feed(b"0\r\nContent-Length: 5\r\nX-Sum: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert body.trailers == [b"X-Sum: 1"]


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5))
def test_what_is_framed_reads_back(pieces: list[bytes]) -> None:
    body = ChunkedBody()
    assert body.feed(b"".join(chunk(p) for p in pieces) + chunked_end([])) == b"".join(pieces)
    assert body.done


@given(
    events=st.lists(
        st.sampled_from([b"data: a", b"event: x\ndata: {}", b": ping", b"data: \xc3\xa4\r\nid: 1"]), max_size=5
    ),
    end=st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"]),
    cuts=st.lists(st.integers(0, 1_000), max_size=10),
)
def test_events_are_cut_the_same_in_any_cutting(events: list[bytes], end: bytes, cuts: list[int]) -> None:
    wire = b"".join(e + end for e in events)
    frames = Frames()
    got = [frame for piece in cut(wire, cuts) for frame in frames.feed(piece)]
    got += [frames.rest()] if frames.rest() else []
    assert b"".join(got) == wire
    assert [frame.rstrip(b"\r\n") for frame in got] == events


@given(
    lines=st.lists(st.sampled_from([b"{}", b'{"a":1}\r', b"", b"x" * 70]), max_size=6),
    rest=st.sampled_from([b"", b'{"half']),
    cuts=st.lists(st.integers(0, 1_000), max_size=10),
)
def test_lines_are_cut_the_same_in_any_cutting(lines: list[bytes], rest: bytes, cuts: list[int]) -> None:
    frames = Lines()
    got = [line for piece in cut(b"".join(line + b"\n" for line in lines) + rest, cuts) for line in frames.feed(piece)]
    assert got == [line + b"\n" for line in lines]
    assert frames.rest() == rest


def test_a_line_that_never_ends_is_refused() -> None:
    with pytest.raises(Malformed):
        Lines().feed(b"x" * (MAX_FRAME_BYTES + 1))


def test_an_answer_is_written_as_it_reads() -> None:
    head = read_answer(answer_head(503, [("content-type", "application/json"), ("content-length", "2")]))
    assert (head.status, head.reason, head.length) == (503, b"Service Unavailable", 2)
