"""The stand-in agent as a program: `/answer` over HTTP, models through the real `openai` SDK."""

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import socketserver
import sys
import threading
import urllib.parse
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from drillmaster.clock import SystemClock
from drillmaster.errors import Problem
from drillmaster.standins import check_port, say, watch_parent
from drillmaster.standins.agent import HANDLERS, SWITCH, Agent, Ask, NoAnswer, Settings, Unavailable, agent_class

__all__ = ["base_url", "check_sdk", "serve"]

_BODY_BYTES = 1024 * 1024
_CLIENT_S = 30.0


def check_sdk() -> None:
    """Raise Problem, with the one command that helps, where the `openai` package is not installed."""
    if importlib.util.find_spec("openai") is None:
        raise Problem(
            "standin agent",
            found="no package openai",
            wanted="the SDK that real agents are written with",
            remedy=f"{shlex.quote(sys.executable)} -m pip install 'openai>=2'",
        )


def openai_ask(stream: bool) -> tuple[Ask, Unavailable]:
    """Calls through the real `openai` SDK, one client an endpoint, no retries of its own. Raises Problem without it."""
    check_sdk()
    import openai

    clients: dict[str, openai.OpenAI] = {}
    lock = threading.Lock()
    # Keys of the person at the terminal are none of a stand-in's business, and must not reach a proxy's evidence.
    key = "standin-no-key"

    def client(url: str) -> openai.OpenAI:
        with lock:
            if url not in clients:
                # A proxy that the person's shell names is for the world outside; the stand-ins' models are here.
                here = openai.DefaultHttpxClient(trust_env=False)
                clients[url] = openai.OpenAI(base_url=url, api_key=key, max_retries=0, http_client=here)
            return clients[url]

    def ask(url: str, model: str, prompt: str, *, trace: str | None, timeout_s: float | None) -> str:
        chat = client(url).chat.completions
        headers = {"traceparent": trace} if trace else None
        if stream:
            text, finish = "", None
            events = chat.create(
                model=model,
                messages=[{"role": "user", "content": prompt}],
                stream=True,
                extra_headers=headers,
                timeout=timeout_s,
            )
            for event in events:
                for part in event.choices or ():
                    text += part.delta.content or ""
                    finish = part.finish_reason or finish
            if finish is None:
                raise NoAnswer("the stream ended before the answer did")
        else:
            whole = chat.create(
                model=model, messages=[{"role": "user", "content": prompt}], extra_headers=headers, timeout=timeout_s
            )
            # The SDK hands out whatever came with a 200: an error object has no choices, a portal's page is a str.
            choices = getattr(whole, "choices", None)
            text = (choices[0].message.content or "") if choices else ""
        if not text:
            raise NoAnswer("a 200 without an answer")
        return text

    return ask, Unavailable(openai.APIError, openai.APIStatusError)


def base_url(environ: Mapping[str, str], *names: str) -> str | None:
    """The first of these variables that is set, as the base URL the SDK wants: with `/v1` where no path is given."""
    for name in names:
        value = environ.get(name, "").strip()
        if not value:
            continue
        parts = urllib.parse.urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = value.rpartition("@")[2][:80]
            raise Problem(name, found=repr(shown), wanted="a URL", remedy=f"export {name}=http://127.0.0.1:8081")
        return value if parts.path.strip("/") else f"{value.rstrip('/')}/v1"
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _CLIENT_S
    server: "_Server"

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _BODY_BYTES:
            self.close_connection = True
            self._reply(400 if not length.isdecimal() else 413, {"error": "a body of known length up to 1 MB"})
            return
        self._serve(self.rfile.read(int(length)))

    def _serve(self, body: bytes) -> None:
        target = urllib.parse.urlsplit(self.path)
        if target.path == "/healthz":
            self._reply(200, {"ok": True})
            return
        if target.path != "/answer":
            self._reply(404, {"error": "only /answer?q=... is here"})
            return
        prompt = urllib.parse.parse_qs(target.query).get("q", [""])[0] or _prompt_of(body)
        if not prompt:
            self._reply(400, {"error": 'ask something: /answer?q=... or a body {"q": "..."}'})
            return
        trace = self.headers.get("traceparent")
        request_id = self.headers.get("x-drill-request") or self.headers.get("x-request-id") or uuid.uuid4().hex[:12]
        status, reply = self.server.agent.serve(prompt, request_id, trace)
        self._reply(status, reply)

    def _reply(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what matters is in the timeline."""


def _prompt_of(body: bytes) -> str:
    try:
        value = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return ""
    found = value.get("q") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], agent: Agent) -> None:
        self.agent = agent
        self._handlers = threading.BoundedSemaphore(HANDLERS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer asks the resolver for the machine's name here, which can take seconds, and nothing needs it.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._handlers.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._handlers.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A user who hung up is no error; anything else is said in one line."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"standin agent: {type(error).__name__}: {error}", file=sys.stderr)


def serve(
    host: str,
    port: int,
    *,
    environ: Mapping[str, str],
    timeout_s: float,
    stream: bool,
    die_with_parent: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT. Reads MODEL_BASE_URL (or OPENAI_BASE_URL), FALLBACK_BASE_URL and STANDIN_BUG.

    Prints the address on one line of stdout. Raises Problem when a variable is missing or unusable.
    """
    from drillmaster import mark

    kind = agent_class(environ.get(SWITCH))
    primary_url = base_url(environ, "MODEL_BASE_URL", "OPENAI_BASE_URL")
    if primary_url is None:
        raise Problem(
            "standin agent",
            found="neither MODEL_BASE_URL nor OPENAI_BASE_URL",
            wanted="where the model is",
            remedy="export MODEL_BASE_URL=http://127.0.0.1:8081",
        )
    settings = Settings(
        primary_url=primary_url,
        fallback_url=base_url(environ, "FALLBACK_BASE_URL"),
        timeout_s=timeout_s,
        stream=stream,
    )
    ask, unavailable = openai_ask(stream)
    agent = kind(settings, ask, mark, SystemClock(), unavailable)
    try:
        server = _Server((host, port), agent)
    except OSError as error:
        raise check_port(host, port, error) from None

    def leave(*_: object) -> None:
        # Handlers may be in the middle of a call that never returns; the timeline needs no flush, so nothing is lost.
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    if die_with_parent:
        watch_parent(leave)
    say(f"standin agent listening on http://{host}:{server.server_port}/answer")
    server.serve_forever(poll_interval=0.5)
