"""The stand-ins as programs: started, spoken to by real SDKs, ended."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

pytestmark = pytest.mark.e2e


@contextmanager
def standin(*args: str, env: dict[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a stand-in on a free port; lend the process and the port; kill what is left."""
    argv = [sys.executable, "-c", "from drillmaster.cli import main; main()", "standin", *args, "--port", "0"]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "listening on http://127.0.0.1:" in line, (line, process.stderr and process.stderr.read())
        yield process, int(line.rpartition(":")[2].partition("/")[0])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def provider_port() -> Iterator[int]:
    with standin("provider", "--latency-ms", "1", "--token-ms", "0") as (_, port):
        yield port


def raw(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send bytes as they are and read until the server closes or is quiet."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as conn:
        for part in parts:
            conn.sendall(part)
            time.sleep(pause_s)
        conn.settimeout(0.5)
        got = b""
        try:
            while data := conn.recv(65536):
                got += data
        except TimeoutError:
            pass
        return got


CALL = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()


def test_both_sdks_get_whole_answers_streaming_and_not(provider_port: int, opened: Any) -> None:
    openai_client = opened(
        openai.OpenAI(base_url=f"http://127.0.0.1:{provider_port}/v1", api_key="none", max_retries=0)
    )
    with openai_client:
        whole = openai_client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        events = openai_client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        streamed = "".join(event.choices[0].delta.content or "" for event in events)
        assert streamed == whole.choices[0].message.content
        assert [m.id for m in openai_client.models.list()] == ["standin-large", "standin-small"]
        with pytest.raises(openai.BadRequestError):
            openai_client.chat.completions.create(model="m", messages=[])
    anthropic_client = opened(
        anthropic.Anthropic(base_url=f"http://127.0.0.1:{provider_port}", api_key="none", max_retries=0)
    )
    with anthropic_client:
        message = anthropic_client.messages.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
        )
        with anthropic_client.messages.stream(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
        ) as stream:
            final = stream.get_final_message()
        assert final.stop_reason == message.stop_reason == "end_turn"
        assert final.content[0] == message.content[0] or final.content[0].type == "text"
        with pytest.raises(anthropic.BadRequestError):
            anthropic_client.messages.create(model="m", max_tokens=1, messages=[])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost : x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    ],
)
def test_what_is_no_request_gets_an_error_and_no_reset(provider_port: int, request_bytes: bytes, status: int) -> None:
    got = raw(provider_port, request_bytes)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in got


def test_one_connection_carries_many_requests_also_pipelined_and_byte_by_byte(provider_port: int) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(CALL)
    assert raw(provider_port, (head + CALL) * 5).count(b"HTTP/1.1 200 OK") == 5
    whole = head + CALL
    assert raw(provider_port, *[whole[i : i + 1] for i in range(len(whole))]).count(b"HTTP/1.1 200 OK") == 1


def test_a_chunked_body_with_extensions_and_trailers_is_read_whole(provider_port: int) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    half = len(CALL) // 2
    body = b"%x;a=b\r\n%b\r\n%x\r\n%b\r\n0\r\nx-t: 1\r\n\r\n" % (half, CALL[:half], len(CALL) - half, CALL[half:])
    assert raw(provider_port, (head + body) * 2).count(b"HTTP/1.1 200 OK") == 2


def test_who_expects_100_continue_gets_it_before_the_body(provider_port: int) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(
        CALL
    )
    with socket.create_connection(("127.0.0.1", provider_port), timeout=5) as conn:
        conn.sendall(head)
        assert conn.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        conn.sendall(CALL)
        assert conn.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_http_1_0_gets_a_length_or_a_closed_connection(provider_port: int) -> None:
    call = CALL[:-1] + b', "stream": true}'
    got = raw(provider_port, b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(call) + call)
    assert b"transfer-encoding" not in got
    assert got.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_provider_ends_when_told_with_connections_open(number: signal.Signals) -> None:
    with standin("provider", "--latency-ms", "30000") as (process, port):
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        conn.request("POST", "/v1/chat/completions", CALL, {"content-type": "application/json"})
        time.sleep(0.2)
        process.send_signal(number)
        assert process.wait(5) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        conn.close()


@pytest.mark.parametrize("what", ["provider", "agent"])
def test_a_standin_ends_with_its_parent_when_told_to(what: str) -> None:
    env = {"MODEL_BASE_URL": "http://127.0.0.1:1"}
    with standin(what, "--die-with-parent", env=env) as (process, _):
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(5) == 0
        process.stdin = None


def test_a_busy_port_is_told_in_one_line(provider_port: int) -> None:
    argv = [sys.executable, "-c", "from drillmaster.cli import main; main()", "standin", "provider"]
    done = subprocess.run([*argv, "--port", str(provider_port)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "--port 0" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_agent_answers_from_the_primary_and_without_it_from_the_fallback(
    provider_port: int, tmp_path: Path
) -> None:
    log = tmp_path / "drill.jsonl"
    for primary, path in ((provider_port, "primary"), (1, "fallback")):
        env = {
            "MODEL_BASE_URL": f"http://127.0.0.1:{primary}",
            "FALLBACK_BASE_URL": f"http://127.0.0.1:{provider_port}",
            "DRILL_LOG": str(log),
        }
        for extra in ((), ("--stream",)):
            with standin("agent", *extra, env=env) as (process, port):
                conn = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                conn.request("GET", "/answer?q=where+is+it%3F", headers={"X-Drill-Request": "r1"})
                response = conn.getresponse()
                reply = json.loads(response.read())
                conn.request("POST", "/answer", json.dumps({"q": "and now?"}))
                assert json.loads(conn.getresponse().read())["text"]
                conn.close()
                assert (response.status, reply["path"]) == (200, path)
                process.terminate()
                assert process.wait(5) == 0
    events = [json.loads(line)["event"] for line in log.read_text().splitlines() if line.strip()]
    assert events.count("user_request") == 16
    assert events.count("model_ok") == events.count("fallback_engaged") == 4


def test_the_agent_says_what_it_misses() -> None:
    argv = [sys.executable, "-c", "from drillmaster.cli import main; main()", "standin", "agent", "--port", "0"]
    env = {k: v for k, v in os.environ.items() if not k.endswith("_BASE_URL")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, env=env)
    assert done.returncode == 2
    assert "export MODEL_BASE_URL=" in done.stderr
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, env={**env, "STANDIN_BUG": "nonsense"})
    assert done.returncode == 2
    assert "--list-bugs" in done.stderr
