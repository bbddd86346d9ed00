"""A listener process, and real Prometheus and Alertmanager that send to it; another listener beside it, with a clock of its own."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from drillmaster.clock import parse_rfc3339
from drillmaster.rules.alerts import Ack, Alert, read_event

__all__ = [
    "SECRET",
    "Listening",
    "Manager",
    "Sink",
    "alertmanager",
    "answers",
    "free_port",
    "listening",
    "post",
    "program",
    "until",
]

SECRET = "a-secret-of-the-test"
WAIT_S = 20.0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def until(what: Any, *, within_s: float = WAIT_S, every_s: float = 0.02) -> Any:
    """Wait until `what()` says something, and give that."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(every_s)
    raise AssertionError(f"nothing came of it in {within_s} s")


def post(url: str, document: object, headers: Mapping[str, str] | None = None) -> int:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


class Listening:
    """A listener process that runs."""

    def __init__(self, folder: Path, receivers: Sequence[Mapping[str, Any]], environ: Mapping[str, str]) -> None:
        self.events = folder / "detectors.jsonl"
        self.control = folder / "control"
        self.mono0_ns = time.monotonic_ns()
        settings = {
            "receivers": list(receivers),
            "port": 0,
            "events": str(self.events),
            "mono0_ns": self.mono0_ns,
            "control_path": str(self.control),
            "folder": str(folder),
            "owner_pid": os.getpid(),
        }
        self.log = folder / "listener.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "drillmaster.detectors", json.dumps(settings)],
                env={**os.environ, **environ},
                stderr=log,
            )
        self.url = f"http://{until(self._ready)}"

    def ns(self) -> int:
        """Now, as nanoseconds of the run."""
        return time.monotonic_ns() - self.mono0_ns

    def _ready(self) -> str | None:
        assert self.process.poll() is None, self.log.read_text()
        try:
            state = self.state()
        except OSError:
            return None
        return str(state["listen"]) if state["ready"] else None

    def order(self, method: str, path: str) -> Any:
        connection = http.client.HTTPConnection("control")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(self.control))
            connection.request(method, path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.order("GET", "/state")
        return found

    def rows(self, event: str | None = None) -> list[dict[str, Any]]:
        text = self.events.read_text() if self.events.exists() else ""
        rows = [json.loads(line) for line in text.splitlines() if line]
        return [row for row in rows if event in (None, row["event"])]

    def told(self) -> tuple[list[Alert], list[Ack]]:
        """What the law reads."""
        alerts: list[Alert] = []
        acks: list[Ack] = []
        for row in self.rows():
            wall_ns = parse_rfc3339(row["t"])
            assert wall_ns is not None
            found = read_event(row["event"], row["ns"], row, wall_ns=wall_ns)
            if isinstance(found, Alert):
                alerts.append(found)
            elif found is not None:
                acks.append(found)
        return alerts, acks

    def quit(self) -> int:
        if self.process.poll() is None:
            self.order("POST", "/quit")
        return self.process.wait(10)


@contextmanager
def listening(
    folder: Path, receivers: Sequence[Mapping[str, Any]] | None = None, **environ: str
) -> Iterator[Listening]:
    """Run a listener; without receivers one for Alertmanager under /alerts."""
    if receivers is None:
        receivers = [{"form": "alertmanager", "name": "am", "path": "/alerts", "secret_env": "ALERTS"}]
    found = Listening(folder, receivers, {"ALERTS": SECRET, **environ})
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.terminate()
        found.process.wait(10)


class Sink:
    """Whoever else gets the same deliveries: what came, and when by this process' clock."""

    def __init__(self) -> None:
        self.got: list[tuple[int, dict[str, Any]]] = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                at_ns = time.monotonic_ns()
                sink.got.append((at_ns, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def first_ns(self, **labels: str) -> int:
        """When an alert of these labels first came as firing, on CLOCK_MONOTONIC."""
        return next(
            at_ns
            for at_ns, delivery in self.got
            for one in delivery["alerts"]
            if one["status"] == "firing" and labels.items() <= one["labels"].items()
        )

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def program(*words: str, log: Path) -> Iterator[None]:
    """Run a program, and end it."""
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Manager:
    """A real Alertmanager."""

    def __init__(self, url: str) -> None:
        self.url = url

    def put(self, *, starts_s: float, ends_s: float | None = None, **labels: str) -> None:
        """Tell it of one alert, as Prometheus does; seconds from now."""
        now_s = time.time()

        def at(seconds: float) -> str:
            return datetime.fromtimestamp(now_s + seconds, UTC).isoformat()

        alert: dict[str, Any] = {
            "labels": {"alertname": "ToolFailures", "severity": "sev2", **labels},
            "startsAt": at(starts_s),
        }
        if ends_s is not None:
            alert["endsAt"] = at(ends_s)
        assert post(f"{self.url}/api/v2/alerts", [alert]) == 200


def alertmanager_config(listener: str, sink: str, *, route: str, secret: str) -> str:
    return f"""\
route:
  receiver: drill
{route}
receivers:
  - name: drill
    webhook_configs:
      - url: {listener}/alerts
        http_config: {{authorization: {{credentials: {secret}}}}}
      - url: {sink}
"""


@contextmanager
def alertmanager(
    folder: Path, listener: str, sink: str, *, route: str, more: str = "", secret: str = SECRET
) -> Iterator[Manager]:
    """Run a real Alertmanager with one route; `more` is added to its receiver."""
    config = folder / "alertmanager.yml"
    config.write_text(alertmanager_config(listener, sink, route=route, secret=secret) + more)
    port = free_port()
    found = shutil.which("prometheus-alertmanager")
    assert found is not None
    words = [
        found,
        f"--config.file={config}",
        f"--storage.path={folder / 'am'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with program(*words, "--cluster.listen-address=", log=folder / "am.log"):
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/-/ready"))
        yield Manager(url)
