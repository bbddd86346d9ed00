"""An API that fails as it is told, and writes down what was sent to it and when."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from drillmaster.guards.retry import Retry

__all__ = ["LIMITS", "Api", "Sent", "api"]

LIMITS = Retry(max_calls=3, deadline_ms=20_000, base_ms=4, cap_ms=2_000, budget_tokens=50, refund=0.1)
CHAT = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
}  # fmt: skip  # one answer
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None,
    "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip  # one answer


@dataclass
class Sent:
    at_s: float
    method: str
    path: str
    fields: dict[str, str]
    body: bytes


@dataclass
class Api:
    """`answers` are used up one by one: (status, fields, body), "cut" for a reset, seconds for a late 200; then it is 200."""

    url: str = ""
    answers: list[Any] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, *answers: Any) -> None:
        with self.lock:
            self.answers, self.sent = list(answers), []

    def gaps(self) -> list[float]:
        return [two.at_s - one.at_s for one, two in zip(self.sent, self.sent[1:], strict=False)]


@contextlib.contextmanager
def api() -> Iterator[Api]:
    one = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fields = {name.lower(): value for name, value in self.headers.items()}
            with one.lock:
                one.sent.append(Sent(time.monotonic(), self.command, self.path, fields, body))
                planned = one.answers.pop(0) if one.answers else (200, {}, None)
            if planned == "cut":
                self.close_connection = True
                self.connection.close()
                return
            if isinstance(planned, float):
                time.sleep(planned)
                planned = 200, {}, None
            status, more, text = planned
            if text is None:
                good = MESSAGE if self.path.endswith("/messages") else CHAT
                text = json.dumps(good if status == 200 else {"error": {"message": "try again in 20s"}}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

        def log_message(self, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    one.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
