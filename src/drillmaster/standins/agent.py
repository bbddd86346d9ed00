"""An agent to stand in for a real one: HTTP `/answer?q=...`, a primary model, a fallback, and the timeline.

The healthy one (`Agent`) does what the playbook asks for: it marks each decision, gives the primary a time limit, takes
anything but an answer as a failure, falls back at once, and after three failures in a row stops asking for a while (one
request in `OPEN_S` seconds goes through to see whether the primary is back).

Each class in `BUGS` is the same agent with one mistake that people really make, one per diagnosis. The switch is the
environment variable `STANDIN_BUG` and not an option: a drill records the command line of the worker that it starts,
and evidence that names the mistake would make a diagnosis out of reading.
"""

import contextlib
import hashlib
import json
import os
import queue
import signal
import socketserver
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Protocol

import msgspec

from drillmaster.clock import Clock, SystemClock
from drillmaster.errors import Problem
from drillmaster.standins import check_port, say, watch_parent
from drillmaster.standins.provider import FALLBACK_MODEL, PRIMARY_MODEL

__all__ = [
    "BUGS",
    "OPEN_S",
    "SWITCH",
    "Agent",
    "Breaker",
    "FallbackFailed",
    "NoAnswer",
    "Settings",
    "agent_class",
    "serve",
]

SWITCH = "STANDIN_BUG"

OPEN_S = 2.0
"""How long an open breaker keeps requests from the primary before it lets one through."""

_FAILURES = 3
_HANDLERS = 256
_BODY_BYTES = 1024 * 1024
_CLIENT_S = 30.0

Mark = Callable[..., None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the models are and how long to wait. `fallback_url` None: a text from a cache is the fallback."""

    primary_url: str
    fallback_url: str | None
    primary_model: str = PRIMARY_MODEL
    fallback_model: str = FALLBACK_MODEL
    timeout_s: float
    stream: bool = False


class NoAnswer(Exception):
    """The model's API said 200 and there was no answer in it."""


class FallbackFailed(Exception):
    """The fallback gave up on this prompt, and knows it."""


class Ask(Protocol):
    """One call to a model: the prompt in, the text out, or an exception."""

    def __call__(self, url: str, model: str, prompt: str, *, trace: str | None, timeout_s: float | None) -> str: ...


class Breaker:
    """Counts failures in a row; open, it lets one request in `open_s` through. Safe for many threads."""

    def __init__(self, failures: int, open_s: float, clock: Clock) -> None:
        self._limit = failures
        self._open_s = open_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failed = 0
        self._next_try_s = 0.0

    @property
    def open(self) -> bool:
        return self._failed >= self._limit

    def admits(self) -> bool:
        """Whether this request may ask the primary."""
        with self._lock:
            if not self.open:
                return True
            now_s = self._clock.mono_ns() / 1e9
            if now_s < self._next_try_s:
                return False
            self._next_try_s = now_s + self._open_s
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._failed = 0

    def failed(self) -> None:
        with self._lock:
            self._failed += 1
            self._next_try_s = self._clock.mono_ns() / 1e9 + self._open_s


class Agent:
    """The healthy one: a time limit, a fallback at once for every failure, a breaker that closes again."""

    def __init__(self, settings: Settings, ask: Ask, mark: Mark, clock: Clock, unavailable: "Unavailable") -> None:
        self.settings = settings
        self.ask = ask
        self.mark = mark
        self.clock = clock
        self.breaker = self.make_breaker()
        self.caught = self.failures(unavailable)

    # What the buggy ones change, one method each.

    def make_breaker(self) -> Breaker:
        return Breaker(_FAILURES, OPEN_S, self.clock)

    def failures(self, unavailable: "Unavailable") -> tuple[type[Exception], ...]:
        """The exceptions after which the fallback is asked."""
        return (unavailable.any, NoAnswer, json.JSONDecodeError)

    def ask_primary(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        url, model = settings.primary_url, settings.primary_model
        return self.ask(url, model, prompt, trace=trace, timeout_s=settings.timeout_s)

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        if settings.fallback_url is None:
            key = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            return f"[{key}] From our notes: we are looking into it and answer within one working day."
        url, model = settings.fallback_url, settings.fallback_model
        return self.ask(url, model, prompt, trace=trace, timeout_s=settings.timeout_s)

    def serve(self, prompt: str, request_id: str, trace: str | None) -> tuple[int, dict[str, Any]]:
        """One user's request from start to end: the status and the JSON that the user gets."""
        return self._bounded(prompt, request_id, trace)

    # What all have in common.

    def answer(self, prompt: str, request_id: str, trace: str | None) -> tuple[str, str]:
        """Text and path; raises what was not caught."""
        if self.breaker.admits():
            try:
                text = self.ask_primary(prompt, trace)
            except self.caught:
                self.breaker.failed()
            else:
                self.breaker.succeeded()
                self.mark("model_ok", id=request_id, path="primary")
                return text, "primary"
        self.mark("fallback_engaged", id=request_id, path="fallback")
        return self.ask_fallback(prompt, trace), "fallback"

    def _bounded(self, prompt: str, request_id: str, trace: str | None) -> tuple[int, dict[str, Any]]:
        started_ns = self.clock.mono_ns()
        self.mark("user_request", id=request_id, phase="start")
        status, reply = 500, {"error": "internal error"}
        try:
            text, path = self.answer(prompt, request_id, trace)
            status, reply = 200, {"text": text, "path": path}
        except FallbackFailed:
            status, reply = 502, {"error": "no model could answer this"}
        except Exception as error:  # noqa: BLE001 # the boundary: the user gets a 500 and the timeline the class
            self.mark("unhandled_exception", id=request_id, kind=type(error).__name__)
        ms = round((self.clock.mono_ns() - started_ns) / 1e6, 3)
        self.mark("user_request", id=request_id, phase="end", status=status, ms=ms)
        return status, reply


class Unavailable(msgspec.Struct, frozen=True):
    """The exception classes of the SDK: any error of it, and an answer with an error status."""

    any: type[Exception]
    status: type[Exception]


class _WrongClass(Agent):
    """The fallback waits for Python's own connection errors, which the SDK never raises: dead code."""

    def failures(self, unavailable: Unavailable) -> tuple[type[Exception], ...]:
        return (ConnectionError, TimeoutError)


class _Choosy(Agent):
    """The fallback knows answers to questions only, and fails on every other prompt."""

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        if "?" not in prompt:
            raise FallbackFailed
        return super().ask_fallback(prompt, trace)


class _Cold(Agent):
    """The fallback is cold: it loads something for over a second on every call."""

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        time.sleep(1.2)
        return super().ask_fallback(prompt, trace)


class _OneLoop(Agent):
    """All requests go through one background loop that nobody restarts; the first exception ends it."""

    def __init__(self, settings: Settings, ask: Ask, mark: Mark, clock: Clock, unavailable: Unavailable) -> None:
        super().__init__(settings, ask, mark, clock, unavailable)
        self._jobs: queue.Queue[tuple[str, str, str | None, queue.Queue[str]]] = queue.Queue(_HANDLERS)
        threading.Thread(target=self._work, name="loop", daemon=True).start()

    def failures(self, unavailable: Unavailable) -> tuple[type[Exception], ...]:
        return ()

    def _work(self) -> None:
        while True:
            prompt, request_id, trace, reply = self._jobs.get()
            self.mark("user_request", id=request_id, phase="start")
            try:
                text, _ = self.answer(prompt, request_id, trace)
            except Exception as error:  # noqa: BLE001 # as people write it: noted, and then the thread is gone
                self.mark("unhandled_exception", id=request_id, kind=type(error).__name__)
                return
            self.mark("user_request", id=request_id, phase="end", status=200)
            reply.put(text)

    def serve(self, prompt: str, request_id: str, trace: str | None) -> tuple[int, dict[str, Any]]:
        reply: queue.Queue[str] = queue.Queue(1)
        self._jobs.put((prompt, request_id, trace, reply))
        return 200, {"text": reply.get(), "path": "primary"}


class _Eager(Agent):
    """Ten tries at the primary for each user, with next to no pause, before the fallback is asked."""

    def make_breaker(self) -> Breaker:
        return Breaker(sys.maxsize, OPEN_S, self.clock)

    def ask_primary(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        each_s = settings.timeout_s / 4
        for _ in range(9):
            try:
                return self.ask(settings.primary_url, settings.primary_model, prompt, trace=trace, timeout_s=each_s)
            except self.caught:
                time.sleep(0.01)
        return self.ask(settings.primary_url, settings.primary_model, prompt, trace=trace, timeout_s=each_s)


class _OneWay(Agent):
    """The breaker has no way back: once open, the primary is never asked again."""

    def make_breaker(self) -> Breaker:
        return Breaker(_FAILURES, float("inf"), self.clock)


class _EmptyHanded(Agent):
    """The fallback is noted in the timeline and returns nothing: the user gets a 200 with no text."""

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        return ""


class _Patient(Agent):
    """The fallback starts only after 60 failures in a row; until then users get errors."""

    def make_breaker(self) -> Breaker:
        return Breaker(60, OPEN_S, self.clock)

    def answer(self, prompt: str, request_id: str, trace: str | None) -> tuple[str, str]:
        if self.breaker.open:
            return super().answer(prompt, request_id, trace)
        try:
            text = self.ask_primary(prompt, trace)
        except self.caught:
            self.breaker.failed()
            raise FallbackFailed from None
        self.breaker.succeeded()
        self.mark("model_ok", id=request_id, path="primary")
        return text, "primary"


class _StatusOnly(Agent):
    """Only error statuses lead to the fallback; a broken connection is nobody's business."""

    def failures(self, unavailable: Unavailable) -> tuple[type[Exception], ...]:
        return (unavailable.status,)


class _NoLimit(Agent):
    """No time limit on the call: fine on errors, and on a hang it waits as long as the provider does."""

    def ask_primary(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        return self.ask(settings.primary_url, settings.primary_model, prompt, trace=trace, timeout_s=None)


BUGS: Mapping[str, type[Agent]] = {
    "wrong-except": _WrongClass,
    "choosy-fallback": _Choosy,
    "cold-start": _Cold,
    "one-loop": _OneLoop,
    "eager-retries": _Eager,
    "one-way-switch": _OneWay,
    "empty-hands": _EmptyHanded,
    "slow-counter": _Patient,
    "status-only": _StatusOnly,
    "no-client-timeout": _NoLimit,
}
"""The switch and the agent it selects; the docstring of the class says what is wrong with it."""


def agent_class(name: str | None) -> type[Agent]:
    """The agent that `STANDIN_BUG` asks for; None or nothing is the healthy one. Raises Problem for an unknown name."""
    if not name:
        return Agent
    if name not in BUGS:
        raise Problem(
            SWITCH,
            found=repr(name[:40]),
            wanted=f"one of {', '.join(BUGS)}",
            remedy="see: drillmaster standin agent --list-bugs",
        )
    return BUGS[name]


def openai_ask(stream: bool) -> tuple[Ask, Unavailable]:
    """Calls through the real `openai` SDK, one client an endpoint, no retries of its own. Raises Problem without it."""
    try:
        import openai
    except ImportError:
        raise Problem(
            "standin agent",
            found="no package openai",
            wanted="the SDK that real agents use",
            remedy="pip install 'drillmaster[demo]'",
        ) from None
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
        self._handlers = threading.BoundedSemaphore(_HANDLERS)
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
