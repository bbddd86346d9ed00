"""Faults of streams as a plain socket client sees them, byte by byte, and what the real SDKs make of each.

What a client received is kept in `tests/golden/faults/TAG.txt`. `python -m tests.e2e.test_faults_streams` writes the files
anew; read the difference before you keep it. What the SDKs make of them was measured by hand before it was written here.
"""

import json
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from drillmaster.dialects import Reply, assert_finished, load
from tests.e2e.test_faults_wire import GOLDEN, Shot, equal, received
from tests.e2e.wirelab import Origin, ProxyProcess, Reader, injections, post, proxy

pytestmark = pytest.mark.e2e

WORDS = ("Hello", " there,", " dear", " user.")
BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}'
REPLY = Reply(model="m", pieces=WORDS, input_tokens=3, output_tokens=4, answer_id="a1", now_s=1_700_000_000)
APIS = {
    "openai_chat": b"/v1/chat/completions",
    "openai_responses": b"/v1/responses",
    "anthropic": b"/v1/messages",
    "gemini": b"/v1beta/models/m:streamGenerateContent?alt=sse",
}
REQUESTS = {
    name: post(BODY, *([b"anthropic-version: 2023-06-01"] if name == "anthropic" else []), path=path)
    for name, path in APIS.items()
}


def frames_of(name: str) -> tuple[bytes, ...]:
    return load(name).stream(REPLY, path=APIS[name].decode()).frames


MCP_TOOLS = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"order_status","inputSchema":{"type":"object"}},'
MCP_TOOLS += b'{"name":"refund"}]}}'


def streaming(reader: Reader, sock: socket.socket) -> None:
    """Answer each request as the API of its path does, whole or as a stream, each event in a chunk of its own."""
    while (asked := reader.request()) is not None:
        path = asked.first.split(b" ")[1]
        if path == b"/mcp":  # a server that lists two tools, whatever it is asked
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            sock.sendall(head % len(MCP_TOOLS) + MCP_TOOLS)
            continue
        name = next(
            (name for name, known in APIS.items() if path.partition(b"?")[0] == known.partition(b"?")[0]), "gemini"
        )
        whole = (
            b":generateContent" in path if name == "gemini" else b'"stream":true' not in asked.body.replace(b" ", b"")
        )
        if whole:
            answer = load(name).answer(REPLY, path=path.decode())
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            sock.sendall(head % len(answer.body) + answer.body)
            continue
        assert asked.field(b"accept-encoding") in (None, b"identity") or b"x-passes" in dict(asked.fields)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for frame in frames_of(name):
            sock.sendall(b"%x\r\n%b\r\n" % (len(frame), frame))
        sock.sendall(b"0\r\n\r\n")


def each(**params: Any) -> list[Shot]:
    return [Shot(name, (request,), params) for name, request in REQUESTS.items()]


def chat(name: str, **params: Any) -> Shot:
    return Shot(name, (REQUESTS["openai_chat"],), params)


CASES: dict[str, list[Shot]] = {
    "clean-end": [*each(after_events=6), chat("all words"), chat("by close", after_events=2, framing="close")],
    "cut-stream": [*each(after_events=2), chat("in the middle of an event", after_bytes=100)],
    "reset-stream": each(after_events=2),
    "stall": each(after_events=2),
    "ping-stall": each(after_events=1, every_ms=50),
    "error-event": [
        *each(after_events=2),
        *(
            Shot(f"responses, {shape}", (REQUESTS["openai_responses"],), {"after_events": 1, "shape": shape})
            for shape in ("flat", "nested", "failed")
        ),
        chat("a rate limit", after_events=1, condition="rate"),
    ],
    "malformed-chunk": [*each(after_events=2), chat("of the framing", after_events=1, where="framing")],
    "split-utf8": [chat("of 50 bytes", bytes=50)],
    "missing-terminal": each(),
    "duplicate-events": each(),
    "reordered-events": each(),
    "slow-tokens": [chat("50 a second", per_s=50)],
}


def shoot(ours: ProxyProcess, tag: str, request: bytes) -> str:
    with ours.connect() as sock:
        sock.sendall(request)
        if tag == "ping-stall":  # it never falls silent: three pings, then leave
            got, ping = b"", b": keep-alive" if b"anthropic" not in request else b"event: ping"
            while got.count(ping) < 3 + (b"anthropic" in request and b"content_block_start" in got):
                got += sock.recv(65_536)
            return equal(got, flowing=False) + "<left>\n"
        got, end = received(sock)
        got = re.sub(rb"\bresp_[0-9a-f]{24}", b"resp_<id>", got)
        return equal(got, flowing=False) + end + "\n"


def capture(ours: ProxyProcess, tag: str) -> str:
    text = ""
    for number, shot in enumerate(CASES[tag]):
        ours.inject(tag, f"{tag}-{number}", **shot.params)
        said = json.dumps(shot.params) if shot.params else ""
        text += f"== {shot.name} {said}".rstrip() + "\n" + shoot(ours, tag, shot.sends[0])
        ours.lift(f"{tag}-{number}")
    return text


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    origin = Origin(streaming)
    with proxy(tmp_path_factory.mktemp("streams"), upstream=origin.url) as one:
        yield one
    origin.close()
    assert origin.problems == []


@pytest.fixture
def inject(ours: ProxyProcess) -> Iterator[Callable[..., str]]:
    with injections(ours) as put:
        yield put


@pytest.mark.parametrize("tag", CASES)
def test_the_bytes_on_the_wire_are_those_on_disk(ours: ProxyProcess, tag: str) -> None:
    assert capture(ours, tag) == (GOLDEN / f"{tag}.txt").read_text(encoding="utf-8")
    assert ours.state()["counts"]["script_errors"] == 0


def attempt_of(ours: ProxyProcess, window: str) -> dict[str, Any]:
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        for row in ours.rows("attempt"):
            if row["window"] == window:
                return row
        time.sleep(0.01)
    raise AssertionError(f"no attempt met {window}")


@pytest.mark.parametrize(
    ("tag", "params", "end", "terminal"),
    [
        ("clean-end", {"after_events": 3}, "clean", False),
        ("cut-stream", {"after_events": 3}, "cut", False),
        ("reset-stream", {"after_events": 3}, "rst", False),
        ("error-event", {"after_events": 3}, "clean", False),
        ("duplicate-events", {}, "clean", True),
        ("split-utf8", {}, "clean", True),
    ],
)
def test_the_evidence_says_what_the_client_was_given(
    ours: ProxyProcess, inject: Callable[..., str], tag: str, params: dict[str, Any], end: str, terminal: bool
) -> None:
    window = inject(tag, **params)
    with ours.connect() as sock:
        sock.sendall(REQUESTS["anthropic"])
        received(sock)
    row = attempt_of(ours, window)
    assert (row["end"], row["terminal"], row["status"]) == (end, terminal, 200)


def test_a_coding_is_not_asked_for_where_a_script_reads(ours: ProxyProcess, inject: Callable[..., str]) -> None:
    inject("clean-end")
    with ours.connect() as sock:
        sock.sendall(REQUESTS["openai_chat"].replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip, br\r\n\r\n", 1))
        answer = Reader(sock).answer()
    assert answer is not None and answer.status == 200  # the origin refuses any other coding


def test_an_answer_that_is_no_stream_has_not_met_it(ours: ProxyProcess, inject: Callable[..., str]) -> None:
    window = inject("stall", after_events=0)
    with ours.connect() as sock:
        sock.sendall(post(BODY.replace(b"true", b"false"), path=APIS["openai_chat"]))
        answer = Reader(sock).answer()
    assert answer is not None
    assert json.loads(answer.body)["choices"][0]["finish_reason"] == "stop"
    assert window not in {row["window"] for row in ours.rows("fault_met")}


def test_a_stall_goes_on_where_it_stopped_when_it_is_lifted(ours: ProxyProcess) -> None:
    ours.inject("stall", "lifted-stall", linger_s=5, after_events=2)
    with ours.connect() as sock:
        sock.sendall(REQUESTS["openai_chat"])
        ours.until(lambda state: state["counts"]["held"] == 1)
        ours.wait_rows("fault_met")
        ours.lift("lifted-stall")
        answer = Reader(sock).answer()
    assert answer is not None
    assert (answer.body, answer.whole) == (b"".join(frames_of("openai_chat")), True)


# What SDKs make of them: class of the exception, None for "looked like success". One upstream request in each row.

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
SDKS: list[tuple[str, dict[str, Any], Any, Any, Any]] = [
    # tag, params, openai chat, openai responses, anthropic
    ("clean-end", {"after_events": 6}, None, None, None),
    ("clean-end", {"after_events": 3, "framing": "close"}, None, None, None),
    (
        "cut-stream",
        {"after_events": 3},
        openai.APIConnectionError,
        openai.APIConnectionError,
        httpx2.RemoteProtocolError,
    ),
    ("reset-stream", {"after_events": 3}, openai.APIConnectionError, openai.APIConnectionError, httpx2.ReadError),
    ("stall", {"after_events": 3}, openai.APITimeoutError, openai.APITimeoutError, httpx2.ReadTimeout),
    ("error-event", {"after_events": 3}, openai.APIError, None, anthropic.APIStatusError),
    ("error-event", {"after_events": 3, "shape": "nested"}, openai.APIError, openai.APIError, anthropic.APIStatusError),
    ("error-event", {"after_events": 3, "shape": "failed"}, openai.APIError, None, anthropic.APIStatusError),
    ("malformed-chunk", {"after_events": 3}, json.JSONDecodeError, json.JSONDecodeError, json.JSONDecodeError),
    ("missing-terminal", {}, None, None, None),
    ("split-utf8", {"bytes": 7}, None, None, None),
    ("duplicate-events", {}, None, None, None),
    ("reordered-events", {}, None, None, None),
    ("slow-tokens", {"per_s": 20}, None, None, None),
]


def streams(url: str, timeout_s: float = 1.0) -> dict[str, Callable[[], list[Any]]]:
    def ours(ask: Callable[[openai.OpenAI], Any]) -> list[Any]:
        with openai.OpenAI(base_url=url + "/v1", api_key="k", timeout=timeout_s) as client:
            return list(ask(client))

    def theirs() -> list[Any]:
        with anthropic.Anthropic(base_url=url, api_key="k", timeout=timeout_s) as client:
            return list(client.messages.create(**ASK, max_tokens=100))

    return {
        "openai_chat": lambda: ours(lambda client: client.chat.completions.create(**ASK)),
        "openai_responses": lambda: ours(lambda client: client.responses.create(model="m", input="hello", stream=True)),
        "anthropic": theirs,
    }


@pytest.mark.parametrize("row", SDKS, ids=lambda row: f"{row[0]}-{'-'.join(map(str, row[1].values()))}")
def test_sdks_take_a_fault_as_measured_and_none_asks_twice(
    ours: ProxyProcess, inject: Callable[..., str], row: tuple[str, dict[str, Any], Any, Any, Any]
) -> None:
    tag, params, *expected = row
    for name, kind in zip(("openai_chat", "openai_responses", "anthropic"), expected, strict=True):
        window = inject(tag, **params)
        read = streams(ours.url)[name]
        if kind is None:
            events = read()
            if tag in ("clean-end", "error-event"):
                with pytest.raises(AssertionError):
                    assert_finished(events, name)
        else:
            with pytest.raises(Exception) as raised:
                read()
            assert type(raised.value) is kind or (kind is openai.APIError and isinstance(raised.value, kind)), name
            if kind is anthropic.APIStatusError:
                assert raised.value.status_code == 200
        attempt_of(ours, window)
        assert len([one for one in ours.rows("fault_met") if one["window"] == window]) == 1
        ours.lift(window)


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "anthropic"])
def test_pings_keep_a_read_timeout_from_ever_firing(ours: ProxyProcess, name: str) -> None:
    window = f"pings-{name}"
    ours.inject("ping-stall", window, linger_s=5, after_events=2, every_ms=100)
    got: list[Any] = []
    # Not a word for three times the client's timeout; then the lift lets the rest through, and it looks complete.
    reader = threading.Thread(target=lambda: got.append(streams(ours.url, timeout_s=0.5)[name]()))
    reader.start()
    reader.join(1.5)
    assert reader.is_alive()
    ours.lift(window)
    reader.join(5)
    assert_finished(got[0], name)


if __name__ == "__main__":
    main_origin = Origin(streaming)
    with tempfile.TemporaryDirectory() as folder, proxy(Path(folder), upstream=main_origin.url) as main_proxy:
        for wanted in sys.argv[1:] or CASES:
            (GOLDEN / f"{wanted}.txt").write_text(capture(main_proxy, wanted), encoding="utf-8")
    main_origin.close()
