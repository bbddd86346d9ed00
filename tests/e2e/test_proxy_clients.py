"""Real clients through pass-through: openai, anthropic, requests, Node's fetch and curl see what they see without it."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import requests

from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, proxy

pytestmark = pytest.mark.e2e

MESSAGE = b'{"id":"m","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"hi"}],'
MESSAGE += b'"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}'


def chat_events() -> list[bytes]:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    rows: list[Any] = [
        {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}]}
        for word in ("Hello", " wörld", " \U0001f600")
    ]
    rows.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return [b"data: " + json.dumps(row, ensure_ascii=False).encode() + b"\n\n" for row in rows] + [b"data: [DONE]\n\n"]


def message_events() -> list[bytes]:
    rows: list[tuple[str, Any]] = [
        ("message_start", {"message": {**json.loads(MESSAGE), "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "hé"}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ]
    return [f"event: {kind}\ndata: {json.dumps({'type': kind, **row})}\n\n".encode() for kind, row in rows]


def provider(reader: Reader, sock: socket.socket) -> None:
    while (message := reader.request()) is not None:
        body = json.loads(message.body) if message.body else {}
        is_message = b"/messages" in message.first
        if body.get("stream"):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for event in message_events() if is_message else chat_events():
                # Cut within characters and events: what a chunk holds is nobody's business but the framing's.
                for piece in (event[:7], event[7:]):
                    sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            sock.sendall(b"0\r\n\r\n")
        elif body.get("model") == "missing":
            error = b'{"error":{"message":"no such model","type":"invalid_request_error","param":null,"code":"model_not_found"}}'
            sock.sendall(
                b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(error)
            )
            sock.sendall(error)
        else:
            content = MESSAGE if is_message else CHAT
            sock.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
            )
            sock.sendall(content)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, ProxyProcess]]:
    """Direct, and through the proxy."""
    origin = Origin(provider)
    with proxy(tmp_path_factory.mktemp("clients"), upstream=origin.url) as ours:
        yield origin.url, ours.url, ours
    assert not origin.problems
    origin.close()


def test_openai_chat_with_and_without_a_stream(ways: tuple[str, str, ProxyProcess]) -> None:
    seen = []
    for url in ways[:2]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-0123456789", max_retries=0) as client:
            whole = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "hi"}])
            stream = client.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            words = [chunk.choices[0].delta.content for chunk in stream]
            with pytest.raises(openai.NotFoundError) as caught:
                client.chat.completions.create(model="missing", messages=[{"role": "user", "content": "hi"}])
            seen.append((whole.to_dict(), words, caught.value.code, caught.value.body))
    assert seen[0] == seen[1]
    ways[2].until(lambda state: state["counts"]["in_flight"] == 0)
    rows = ways[2].rows("attempt")[-3:]
    assert [(row["stream"], row["terminal"], row["status"]) for row in rows] == [
        (None, True, 200),
        (True, True, 200),
        (None, False, 404),
    ]
    assert {row["dialect"] for row in rows} == {"openai_chat"}
    assert [row["retry_count"] for row in rows] == [0, 0, 0]


def test_anthropic_messages_with_and_without_a_stream(ways: tuple[str, str, ProxyProcess]) -> None:
    seen = []
    for url in ways[:2]:
        with anthropic.Anthropic(base_url=url, api_key="sk-0123456789", max_retries=0) as client:
            ask: Any = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            whole = client.messages.create(**ask)
            with client.messages.stream(**ask) as stream:
                text = "".join(stream.text_stream)
            seen.append((whole.to_dict(), text))
    assert seen[0] == seen[1]
    ways[2].until(lambda state: state["counts"]["in_flight"] == 0)
    rows = ways[2].rows("attempt")[-2:]
    assert [(row["dialect"], row["model"], row["terminal"]) for row in rows] == [("anthropic", "claude", True)] * 2


def test_requests_keeps_its_connection(ways: tuple[str, str, ProxyProcess]) -> None:
    before = ways[2].state()["counts"]["connections"]
    with requests.Session() as session:
        for _ in range(3):
            assert session.post(f"{ways[1]}/v1/chat/completions", json={"model": "m"}, timeout=10).content == CHAT

        def parts() -> Iterator[bytes]:
            yield b'{"model":'
            yield b'"m"}'

        assert session.post(f"{ways[1]}/v1/chat/completions", data=parts(), timeout=10).content == CHAT
    assert ways[2].state()["counts"]["connections"] == before + 1


@pytest.mark.needs("node")
def test_node_fetch_reads_a_stream_as_it_does_directly(ways: tuple[str, str, ProxyProcess]) -> None:
    script = """
      const body = JSON.stringify({model: 'gpt-4o', stream: true, messages: []});
      for (const url of process.argv.slice(1)) {
        const r = await fetch(url + '/v1/chat/completions', {method: 'POST', body, headers: {'content-type': 'application/json'}});
        let text = '';
        for await (const part of r.body.pipeThrough(new TextDecoderStream())) text += part;
        console.log(JSON.stringify([r.status, r.headers.get('content-type'), text]));
      }
    """
    argv = [shutil.which("node") or "node", "--input-type=module", "-e", script, *ways[:2]]
    out = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    assert out[0] == out[1]
    assert "[DONE]" in out[0]


@pytest.mark.needs("curl")
def test_curl_sees_the_same_with_a_large_body_it_waits_to_send(
    ways: tuple[str, str, ProxyProcess], tmp_path: Path
) -> None:
    large = tmp_path / "body"
    large.write_bytes(b'{"model":"m","messages":"' + b"x" * 3_000_000 + b'"}')
    seen = []
    for url in ways[:2]:
        argv = ["curl", "-s", "-i", "-m", "20", "-H", "Expect: 100-continue", "--expect100-timeout", "0.2"]
        out = subprocess.run(
            [*argv, "--data-binary", f"@{large}", f"{url}/v1/chat/completions"],
            capture_output=True,
            timeout=30,
            check=True,
        )
        seen.append(out.stdout)
    assert seen[0] == seen[1]
    assert seen[0].endswith(CHAT)
