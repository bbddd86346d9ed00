"""A webhook's terminator as its own process, and requests to it over real sockets."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from drillmaster.rules.webhook_schemes import SCHEMES, read_key, sign

KEY_TEXT = "a-secret-of-at-least-24-bytes"
KEY = read_key(KEY_TEXT, standard=False, place="k")
PATH = "/webhooks/billing"
SETTINGS = """kind: webhook
version: 1
source: runbook billing, chapter 3
owner: Ada of payments
review_by: 2199-12-31
provider: acme
scheme: stripe
path: {path}
max_body_bytes: 65536
read_within_s: {read_within_s}
store_within_s: {store_within_s}
inbox: {inbox}
keys: {{env: [WEBHOOK_SECRET], sha256: [{digest}]}}
worker: {{lease_s: {lease_s}, max_attempts: 1000, retry_after_s: 0.05, note_within_s: 1}}
lab: {{hostname: hooks.lab.example, inbox: lab.db}}
"""


def settings(
    folder: Path, *, inbox: str = "inbox.db", read_within_s: float = 1, store_within_s: float = 2, lease_s: float = 5
) -> Path:
    import hashlib

    path = folder / "webhook.yaml"
    path.write_text(
        SETTINGS.format(
            path=PATH,
            inbox=inbox,
            read_within_s=read_within_s,
            store_within_s=store_within_s,
            lease_s=lease_s,
            digest=hashlib.sha256(KEY_TEXT.encode()).hexdigest(),
        )
    )
    return path


def environ(**more: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k != "WEBHOOK_SECRET"}, "WEBHOOK_SECRET": KEY_TEXT, **more}


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drillmaster", "webhook", *words]
    return subprocess.run(command, capture_output=True, text=True, env=env or environ(), timeout=60, check=False)


class Served:
    def __init__(self, process: subprocess.Popen[str], port: int, line: str) -> None:
        self.process, self.port, self.line = process, port, line

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def raw(self, data: bytes) -> bytes:
        """Send bytes and read until the server closes, or has said a whole answer and then nothing for a while."""
        with self.connect() as made:
            made.sendall(data)
            return read_all(made)

    def post(self, body: bytes, headers: dict[str, str] | None = None, *, path: str = PATH) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path, body, signed(body) if headers is None else headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def signed(body: bytes, time_s: int | None = None) -> dict[str, str]:
    pairs = sign(SCHEMES["stripe"], body, [KEY], time_s=int(time.time()) if time_s is None else time_s)
    return {name.decode(): value.decode() for name, value in pairs}


def read_all(made: socket.socket) -> bytes:
    made.settimeout(5)
    said = b""
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        while part := made.recv(65_536):
            said += part
            made.settimeout(1)
    return said


@contextlib.contextmanager
def served(verb: str, path: Path, *words: str, env: dict[str, str] | None = None) -> Iterator[Served]:
    """Lend a terminator (`serve`) or a lab."""
    process = subprocess.Popen(
        [sys.executable, "-m", "drillmaster", "webhook", verb, str(path), "--port", "0", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env or environ(),
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.stderr.read())
        yield Served(process, int(line.rpartition(":")[2].partition("/")[0]), line)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
