"""`drillmaster proxy`, as it is typed: what it says first, and that what it says is so."""

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.wirelab import Origin, Reader, post

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


@contextlib.contextmanager
def typed(folder: Path, *words: str) -> Iterator[tuple[int, str, str]]:
    """Start it; lend its port, the base URLs that it says, and all it said before those."""
    argv = [sys.executable, "-m", "drillmaster", "proxy", "--port", "0", "--control", str(folder / "c.sock"), *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    try:
        first = process.stdout.readline()
        before = ""
        for line in process.stderr:
            if "export" in line:
                break
            before += line
        yield int(re.findall(r"listening on 127\.0\.0\.1:(\d+)", first)[0]), line, first + before
    finally:
        process.terminate()
        process.communicate(timeout=15)


@pytest.mark.parametrize("tail", ["", "/v1", "/v1/", "/api/v1"])
def test_a_v1_of_the_endpoint_comes_once_as_in_a_drill(tmp_path: Path, tail: str) -> None:
    asked: list[bytes] = []

    def answer(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            asked.append(message.first.split()[1])
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    origin = Origin(answer)
    with contextlib.closing(origin), typed(tmp_path, "--upstream", origin.url + tail) as (port, exports, said):
        bases = dict(word.split("=") for word in exports.split()[1:])
        assert bases == {
            "MODEL_BASE_URL": f"http://127.0.0.1:{port}",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        }
        assert ("client's to ask for" in said) == ("v1" in tail)
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.sendall(post())
            reply = Reader(sock).answer()
        assert reply is not None and reply.status == 200
    assert asked == [("/api" if tail == "/api/v1" else "").encode() + b"/v1/chat/completions"]


@pytest.mark.parametrize("url", ["http://[::1", "ftp://x.example/v1", "http://x:99999/v1", "/v1"])
def test_what_is_no_url_is_told_before_anything_listens(tmp_path: Path, url: str) -> None:
    argv = [sys.executable, "-m", "drillmaster", "proxy", "--upstream", url, "--control", str(tmp_path / "c.sock")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "--upstream" in done.stderr and "internal error" not in done.stderr
