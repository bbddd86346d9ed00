"""A flag server of our own, workers of it, and a wire between them that can be cut."""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.flags.settings import Settings

__all__ = ["REGISTRY", "Lab", "Wire", "Worker", "lab", "until"]

REGISTRY = """
kind: flags
version: 1
service: concierge
flags:
  - {name: toolTimeout, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: timeout, params: {max_s: 20}}
  - {name: toolError, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: error, params: {status: 503}}
  - {name: brief, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 1, kind: latency, params: {delay_s: 0.01}}
  - {name: tenfold, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: wrong-answer,
     params: {change: {at: /amount, multiply: 10}}}
  - {name: refund, owner: o, purpose: p, kind: kill, params: {tools: [issue_refund]}}
  - {name: search, owner: o, purpose: p, kind: kill}
"""
TOKENS = {"lead": "lead-token-0123456789", "kill": "kill-token-0123456789", "read": "read-token-0123456789"}
PROGRAM = """
import json, os, sys, threading, time
from drillmaster.adapters.worker import chaos as chaos_module
from drillmaster.adapters.worker.chaos import chaos

@chaos("toolError", "toolTimeout", "tenfold", capability="refund", limit_s=float(os.environ.get("LIMIT_S", "30")))
def issue(amount, for_s=0.0):
    begun = time.monotonic_ns()
    if for_s:
        time.sleep(for_s)
    return {"amount": amount, "begun": begun}

def tell(**fields):
    sys.stdout.write(json.dumps(fields) + "\\n"); sys.stdout.flush()

def one(amount, for_s=0.0):
    began = time.monotonic_ns()
    try:
        told = issue(amount, for_s)
        tell(amount=told["amount"], began=began, ended=time.monotonic_ns())
    except Exception as error:
        tell(error=type(error).__name__, text=str(error), began=began, ended=time.monotonic_ns())

if __name__ == "__main__":
    try:
        chaos_module.start()
    except Exception as error:
        tell(refused=str(error)); sys.exit(2)
    tell(ready=os.getpid())
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "call":
            one(order["amount"])
        elif order["do"] == "long":
            threading.Thread(target=one, args=(1, order["for_s"])).start()
        elif order["do"] == "spin":
            until = time.monotonic() + order["for_s"]
            last = None; n = 0; refused = None
            while time.monotonic() < until:
                began = time.monotonic_ns()
                try:
                    issue(1); last = began; n += 1
                except Exception:
                    refused = refused or began
                    time.sleep(0.0005)
            tell(last=last, refused=refused, n=n)
        elif order["do"] == "fork":
            pid = os.fork()
            if not pid:
                one(order["amount"]); time.sleep(order.get("for_s", 0)); one(order["amount"]); sys.exit(0)
            os.waitpid(pid, 0)
            tell(forked=True)
        elif order["do"] == "stop":
            break
"""


def until(true: Callable[[], Any], *, within_s: float = 10.0, what: str = "it") -> Any:
    """Wait until something holds; what it gave."""
    give_up_s = time.monotonic() + within_s
    while time.monotonic() < give_up_s:
        found = true()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"{what} did not come about in {within_s} s")


class Lab:
    """One server, which can be killed and started again on its port."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.registry = folder / "flags.yaml"
        if not self.registry.exists():
            self.registry.write_text(REGISTRY)
        for seat, token in TOKENS.items():
            path = folder / f"{seat}.token"
            path.write_text(token + "\n")
            path.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.events = folder / "flags.jsonl"
        self.control = folder / "c.sock"
        given: dict[str, Any] = {
            "registry": str(self.registry),
            "port": self.port,
            "control_path": str(self.control),
            "lead_token_file": str(folder / "lead.token"),
            "kill_token_file": str(folder / "kill.token"),
            "read_token_file": str(folder / "read.token"),
            "kills_path": str(folder / "kills.json"),
            "events": str(self.events),
            "lease_s": 1.0,
            "lost_s": 1.0,
        }
        self.settings = Settings(**{**given, **settings})
        self.log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.workers: list[Worker] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **env: str) -> "Lab":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "drillmaster.flags", msgspec.json.encode(self.settings).decode()],
                stdout=log,
                stderr=log,
                env={**os.environ, **env},
            )
        until(self._answers, what="the server's first answer")
        return self

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.get("/healthz")[0] == 200
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        return False

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(10)

    def ask(
        self, method: str, path: str, body: object = None, *, token: str = "", **fields: str
    ) -> tuple[int, Any, dict[str, str]]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        if token:
            fields["authorization"] = f"Bearer {TOKENS.get(token, token)}"
        content = None
        if body is not None:
            fields["content-type"] = "application/json"
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(line):
            line.request(method, path, content, {name.replace("_", "-"): value for name, value in fields.items()})
            answer = line.getresponse()
            read = answer.read()
            return (
                answer.status,
                json.loads(read) if read else None,
                {name.lower(): value for name, value in answer.getheaders()},
            )

    def get(self, path: str, **more: str) -> tuple[int, Any, dict[str, str]]:
        return self.ask("GET", path, **more)

    def enable(self, name: str, **order: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/enable/{name}", order, token="lead")[:2]

    def disable(self, name: str) -> tuple[int, Any]:
        return self.ask("POST", f"/disable/{name}", token="lead")[:2]

    def kill(self, name: str, **order: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/kill/{name}", order, token="kill")[:2]

    def restore(self, name: str, **order: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/restore/{name}", order, token="kill")[:2]

    def drive(self, path: str, body: object = None) -> tuple[int, Any]:
        """One order on the control socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(10)
            sock.connect(str(self.control))
            content = b"" if body is None else json.dumps(body).encode()
            verb = "GET" if path == "/state" else "POST"
            head = f"{verb} {path} HTTP/1.1\r\nHost: control\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
            sock.sendall(head.encode() + content)
            answer = b""
            while piece := sock.recv(65_536):
                answer += piece
        top, _, rest = answer.partition(b"\r\n\r\n")
        return int(top.split()[1]), json.loads(rest)

    def state(self, name: str) -> str:
        rows = {row["name"]: row["state"] for row in self.get("/flags")[1]["flags"]}
        return str(rows[name])

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        told = [json.loads(line) for line in self.events.read_text().splitlines()]
        return [line for line in told if not event or line["event"] == event]

    def worker(self, url: str | None = None, **env: str) -> "Worker":
        made = Worker(self.folder, {"CHAOS_URL": url or self.url, **env})
        self.workers.append(made)
        return made

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        assert "Traceback" not in self.log.read_text(), self.log.read_text()


class Worker:
    """A process with a tool under flags, that does what it is told."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        program = folder / "worker.py"
        program.write_text(PROGRAM)
        self.errors = folder / f"worker-{time.monotonic_ns()}.log"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **env},
                text=True,
            )
        self._lines: list[bytes] = [b""]
        """What came and was not asked for yet; the last one is not whole."""
        self.first = self.said()

    def tell(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def said(self, *, within_s: float = 20.0) -> dict[str, Any]:
        assert self.process.stdout is not None
        # Its own lines: two that come at once would both be in a file's buffer, of which select knows nothing.
        fd, give_up_s = self.process.stdout.fileno(), time.monotonic() + within_s
        while len(self._lines) < 2:
            left_s = give_up_s - time.monotonic()
            assert left_s > 0 and select.select([fd], [], [], left_s)[0], "the worker said nothing"
            came = os.read(fd, 65_536)
            if not came:
                return {}
            self._lines[-1:] = (self._lines[-1] + came).split(b"\n")
        told: dict[str, Any] = json.loads(self._lines.pop(0))
        return told

    def call(self, amount: int = 5) -> dict[str, Any]:
        self.tell(do="call", amount=amount)
        return self.said()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Wire:
    """A relay that can be cut: connections stay open, and nothing passes."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cut = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _run(self) -> None:
        ends: dict[socket.socket, socket.socket] = {}
        while not self._over.is_set():
            ready, _, _ = select.select([self._listener, *ends], [], [], 0.02)
            for sock in ready:
                if sock is self._listener:
                    one, _ = sock.accept()
                    try:
                        other = socket.create_connection(("127.0.0.1", self._to), timeout=2)
                    except OSError:
                        one.close()
                        continue
                    ends[one], ends[other] = other, one
                    continue
                if sock not in ends:
                    continue
                data = b""
                with contextlib.suppress(OSError):
                    data = sock.recv(65_536)
                other = ends[sock]
                if not data:
                    for end in (sock, other):
                        ends.pop(end, None)
                        end.close()
                elif not self.cut.is_set():
                    with contextlib.suppress(OSError):
                        other.sendall(data)
        for sock in (*ends, self._listener):
            sock.close()

    def close(self) -> None:
        self._over.set()
        self._thread.join(5)


@contextlib.contextmanager
def lab(folder: Path, **settings: Any) -> Iterator[Lab]:
    """A server that is there, and gone at the end."""
    made = Lab(folder, **settings)
    try:
        yield made.start()
    finally:
        made.close()
