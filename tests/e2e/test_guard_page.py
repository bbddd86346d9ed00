"""The Node client of the page runs as it stands: against a good server, and against every kind of bad one it denies."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.guardlab import RETRY, served, write_guards

pytestmark = [pytest.mark.e2e, pytest.mark.needs("node")]

PAGE = (Path(__file__).parents[2] / "docs/howto/guard-from-another-language.md").read_text("utf-8")
FILES = {code.split()[1]: code for code in re.findall(r"^```js\n(.*?)^```", PAGE, re.S | re.M)}
FACTS = {"source": "pinned-map", "protocol": "http", "method": "GET", "code": 503, "attempt": 1, "elapsed_ms": 5}
ASK = """
import { createInterface } from "node:readline";
import { decide } from "./guards.mjs";
import { call } from "./worker.mjs";
for await (const line of createInterface({ input: process.stdin })) {
  const [what, value] = JSON.parse(line);
  const began = performance.now();
  let sent = 0;
  const said = what === "call" ? await call(async (n) => (sent += 1, value[n - 1])) : await decide(what, value);
  console.log(JSON.stringify({ ...said, sent, took_ms: performance.now() - began }));
}
"""


class Worker:
    """A Node process that does as it is told, a line at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, what: str, value: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, value]) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said


@contextlib.contextmanager
def worker(folder: Path, url: str, token: str = "") -> Iterator[Worker]:
    for name, code in {**FILES, "ask.mjs": ASK}.items():
        (folder / name).write_text(code)
    process = subprocess.Popen(
        ["node", "ask.mjs"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "GUARD_URL": url} | ({"DRILLMASTER_GUARD_TOKEN": token} if token else {}),
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        process.communicate()


def denied(said: dict[str, Any], within_ms: float = 2_000) -> bool:
    return said["allowed"] is False and said["reason"] == "guard-unavailable" and said["took_ms"] < within_ms


def test_the_page_has_both_files() -> None:
    assert set(FILES) == {"guards.mjs", "worker.mjs"}


def test_a_good_server_is_gone_by_to_the_letter(tmp_path: Path) -> None:
    write_guards(tmp_path / "guards.json", {**RETRY, "base_ms": 1, "cap_ms": 5})
    with served(tmp_path) as server, worker(tmp_path, server.address) as node:
        assert node.ask("retry", FACTS)["reason"] == "pinned-status"
        assert node.ask("retry", {**FACTS, "code": 400})["reason"] == "status-not-retryable"
        assert node.ask("retry", {**FACTS, "prompt": "x"})["reason"] == "facts-unusable"
        assert node.ask("nope", FACTS)["reason"] == "unlisted-guard"
        said = node.ask("call", [503, 503, 200])
        assert (said["code"], said["attempt"], said["sent"]) == (200, 3, 3)
        said = node.ask("call", [503, 503, 503, 503])
        assert (said["reason"], said["sent"]) == ("budget-exhausted", 3)
        said = node.ask("call", [400, 200])
        assert (said["reason"], said["sent"]) == ("status-not-retryable", 1)


def test_a_server_that_is_stopped_or_killed_denies_and_the_worker_sends_nothing_again(tmp_path: Path) -> None:
    with served(tmp_path) as server, worker(tmp_path, server.address) as node:
        assert node.ask("retry", FACTS)["allowed"] is True
        server.process.send_signal(signal.SIGSTOP)
        assert denied(node.ask("retry", FACTS))
        said = node.ask("call", [503, 200])
        assert (said["reason"], said["sent"]) == ("guard-unavailable", 1)
        server.process.send_signal(signal.SIGCONT)
        assert node.ask("retry", FACTS)["allowed"] is True
        server.process.kill()
        server.process.wait(10)
        assert denied(node.ask("retry", FACTS))
        said = node.ask("call", [503, 200])
        assert (said["reason"], said["sent"]) == ("guard-unavailable", 1)


def test_a_token_that_the_server_does_not_know_denies(tmp_path: Path) -> None:
    right, wrong = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    with served(tmp_path, env={"DRILLMASTER_GUARD_TOKEN": right}) as server:
        for token, allowed in ((right, True), (wrong, False), ("", False)):
            with worker(tmp_path, server.address, token) as node:
                assert node.ask("retry", FACTS)["allowed"] is allowed


YES = b'{"allowed":true,"reason":"pinned-status","wait_ms":0,"left":9}'


def whole(status: int, body: bytes, *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "content-type: application/json", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def dripping(wire: socket.socket, _: bytes) -> None:
    for byte in whole(200, YES):
        wire.sendall(bytes([byte]))
        time.sleep(0.02)


def redirecting(wire: socket.socket, request: bytes) -> None:
    """Send it to another path, which would say yes."""
    wire.sendall(whole(200, YES) if b" /yes " in request else whole(307, b"", "location: /yes", "connection: close"))


Behave = Callable[[socket.socket, bytes], object]
BAD: dict[str, Behave] = {
    "silent": lambda wire, _: time.sleep(1),
    "dripping": dripping,
    "reset": lambda wire, _: wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"),
    "half a body": lambda wire, _: wire.sendall(whole(200, YES)[:-10]),
    "no HTTP": lambda wire, _: wire.sendall(YES),
    "a page": lambda wire, _: wire.sendall(whole(200, b"<html>allowed: true</html>")),
    "nothing": lambda wire, _: wire.sendall(whole(200, b"")),
    "null": lambda wire, _: wire.sendall(whole(200, b"null")),
    "another yes": lambda wire, _: wire.sendall(whole(200, b'{"allowed":"true"}')),
    "one": lambda wire, _: wire.sendall(whole(200, b'{"allowed":1}')),
    "a list": lambda wire, _: wire.sendall(whole(200, b"[" + YES + b"]")),
    "another status": lambda wire, _: wire.sendall(whole(201, b'{"allowed":true}')),
    "an error that allows": lambda wire, _: wire.sendall(whole(503, b'{"allowed":true}')),
    "a redirect": redirecting,
}


@contextlib.contextmanager
def bad_server(behave: Behave) -> Iterator[str]:
    """Answer every connection in one wrong way."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    wire, _ = listening.accept()
                except OSError:
                    return
                with wire, contextlib.suppress(OSError):
                    behave(wire, wire.recv(65_536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.mark.parametrize("how", BAD)
def test_whatever_is_no_clear_yes_is_a_no(how: str, tmp_path: Path) -> None:
    with bad_server(BAD[how]) as url, worker(tmp_path, url) as node:
        said = node.ask("retry", FACTS)
        assert denied(said), said
        said = node.ask("call", [503, 200])
        assert (said["reason"], said["sent"]) == ("guard-unavailable", 1)


def test_the_client_itself_can_say_yes(tmp_path: Path) -> None:
    with bad_server(lambda wire, _: wire.sendall(whole(200, YES))) as url, worker(tmp_path, url) as node:
        assert node.ask("retry", FACTS)["allowed"] is True
