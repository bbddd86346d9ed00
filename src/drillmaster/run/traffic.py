"""Users, as far as the agent can tell: one request after another at a fixed pace, each from its due time to its end.

1. Open loop: the schedule is blind to what became of the requests before (`pace`).
2. Every request is a user with a connection of their own, as curl's is. No redirect is followed; no cookie is kept.
3. A user gives up `time_limit_s` after the request was due. Whatever happens, exactly one end is written for each start.
4. The address that was connected to decides about permission, before a byte is sent.
5. An answer is one when the plan says so: status, pointer, length, and not a "sorry, try later".
"""

import asyncio
import contextlib
import errno
import json
import random
import re
import shlex
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from drillmaster import http1
from drillmaster.clock import Clock
from drillmaster.errors import Refused, one_line
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.pace import Steady
from drillmaster.plan import Expect, Target
from drillmaster.sanity import is_loopback
from drillmaster.screen import screen_text
from drillmaster.strict import SECRET_NAME

__all__ = [
    "Answer",
    "Asker",
    "Prepared",
    "Tally",
    "Traffic",
    "curl_line",
    "judge_answer",
    "outcome_of",
    "prepare",
    "source_of",
]

MAX_BODY_BYTES = 16 * 1024 * 1024
_MATCHED_CHARS = 200_000
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS)


class Log(Protocol):
    """Where events go. One call, one line."""

    def write(self, event: str, /, **fields: Any) -> object: ...


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ready to be sent. `payload` is its index in the plan's set, None where there is no set."""

    id: str
    trace: str
    nonce: str | None
    payload: int | None
    data: bytes


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a user got. Times are of the monotonic clock; the words are those of `events/traffic.jsonl`."""

    result: str
    status: int | None
    answer: str | None
    why: str
    sent_ns: int
    first_ns: int | None
    end_ns: int
    source: str | None = None
    """`primary` or `fallback` of a good answer, where the plan says how the two are told apart."""


def outcome_of(answer: Answer) -> str:
    """One word for a person who watches: what became of a request."""
    if answer.result != "answered":
        return answer.result
    return answer.answer or f"http {answer.status}"


def prepare(
    target: Target, *, id: str, trace: str, span: str, nonce: str, payload: int | None
) -> Prepared:  # its name on disk
    """Fill the plan's template. In the URL values are percent-encoded; in a JSON body they are escaped as in a string."""
    text = "" if payload is None else target.payloads[payload]
    url, body, used = target.url, target.body, False
    values = {"{nonce}": nonce, "{id}": id}
    text, used_in_text = _fill(text, values, lambda value: value)
    values["{payload}"] = text
    url, used_in_url = _fill(url, values, lambda value: quote(value, safe=""))
    if body is not None:
        as_json = body.lstrip()[:1] in ("{", "[")
        body, used = _fill(body, values, (lambda value: json.dumps(value)[1:-1]) if as_json else (lambda value: value))
    parts = urlsplit(url)
    headers = {
        "Host": parts.netloc,
        "User-Agent": "drillmaster",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "X-Drill-Request": id,
        "traceparent": f"00-{trace}-{span}-01",
    }
    named = {name.lower() for name in target.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in named} | target.headers
    content = b"" if body is None else body.encode()
    if body is not None:
        if "content-type" not in named:
            headers["Content-Type"] = (
                "application/json" if body.lstrip()[:1] in ("{", "[") else "text/plain; charset=utf-8"
            )
        headers["Content-Length"] = str(len(content))
    elif target.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = "0"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{target.method} {quote(path, safe=_PATH_SAFE)} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
    head = "\r\n".join(lines).encode("ascii", "strict") + b"\r\n\r\n"
    nonce_used = (used_in_text and payload is not None) or used_in_url or used
    return Prepared(id=id, trace=trace, nonce=nonce if nonce_used else None, payload=payload, data=head + content)


def curl_line(target: Target) -> str | None:
    """What a person types to ask what users ask; None where that cannot be shown without a secret in it.

    `target` is the plan's own: a `${NAME}` in a header stays one, and the shell fills it in.
    """
    values = {"{nonce}": "dmn0000000000000000", "{id}": "by-hand"}
    values["{payload}"] = _fill(target.payloads[0], values, lambda value: value)[0] if target.payloads else ""
    url = _fill(target.url, values, lambda value: quote(value, safe=""))[0]
    words = ["curl", "-i"]
    if target.method != "GET":
        words += ["-X", target.method]
    for name, value in target.headers.items():
        literal = re.sub(r"\$\{\w+\}", "", value)
        if re.search(r"[\"`\\$]", literal) or _is_secret(literal):
            return None
        words += ["-H", f'"{name}: {value}"']
    if target.body is not None:
        as_json = target.body.lstrip()[:1] in ("{", "[")
        body = _fill(
            target.body, values, (lambda value: json.dumps(value)[1:-1]) if as_json else (lambda value: value)
        )[0]
        if as_json and "content-type" not in {name.lower() for name in target.headers}:
            words += ["-H", '"Content-Type: application/json"']
        words += ["--data", shlex.quote(body)]
    # Field by field: the net over free text takes every query for a secret.
    secret = [name for name, value in parse_qsl(urlsplit(url).query) if SECRET_NAME.search(name) or _is_secret(value)]
    if secret or _is_secret(url.partition("?")[0]) or _is_secret(target.body or ""):
        return None
    return " ".join([*words, shlex.quote(url)])


def _is_secret(text: str) -> bool:
    return screen_text(text) != text


_NAMES, _NAME_CHARS = 5, 30
_SPOKEN_CHARS = 38
"""So much of a fault's words is enough to know them by, and survives an agent that shortens."""
NOTHING_AT = "nothing at "
"""How the reason begins why an answer is none, where the plan's pointer leads nowhere in it."""
_PATH_SAFE = "%/:?#[]@!$&'()*+,;=-._~"


def _fill(text: str, values: Mapping[str, str], escape: Callable[[str], str]) -> tuple[str, bool]:
    """Put values in for their names, in one pass, so that a value never is a template. True: the nonce was used."""
    used = "{nonce}" in text
    for name, value in values.items():
        used = used or (name == "{payload}" and name in text and values["{nonce}"] in value)
    pattern = "|".join(re.escape(name) for name in values)
    return re.sub(pattern, lambda match: escape(values[match[0]]), text), used


def judge_answer(expect: Expect, status: int, body: bytes) -> tuple[str | None, str]:
    """Say whether a whole answer is one: `ok`, `empty`, `degraded`, or None where the status is not expected; and why."""
    if status not in expect.status:
        return None, f"status {status}"
    text = body.decode("utf-8", "replace")
    if expect.pointer is not None:
        try:
            found = _at(json.loads(text), expect.pointer)
        except (ValueError, RecursionError):
            return "degraded", "the body is no JSON"
        except LookupError as missed:
            return "empty", f"{NOTHING_AT}{expect.pointer}; {missed}"
        if found is None:
            return "empty", f"null at {expect.pointer}"
        text = found if isinstance(found, str) else json.dumps(found)
    if len(text.strip()) < expect.min_chars:
        return "empty", f"{len(text.strip())} characters, at least {expect.min_chars} wanted"
    if expect.not_matching is not None and re.search(expect.not_matching, text[:_MATCHED_CHARS]):
        return "degraded", "matches not_matching"
    return "ok", ""


def source_of(expect: Expect, body: bytes, spoken: Sequence[str] = ()) -> str | None:
    """Say by its own text where a good answer came from; None: neither the plan nor the text tells.

    One that holds what a fault `spoke` in the API's place was handed on as the primary's. An answer that holds nothing of it
    may have been worded anew.
    """
    text = body.decode("utf-8", "replace")[:_MATCHED_CHARS]
    said = " ".join(text.replace("\\n", " ").replace("\\u0027", "'").split())
    if any(words[:_SPOKEN_CHARS] in said for words in spoken):
        return "primary"
    if expect.fallback_matching is None:
        return None
    return "fallback" if re.search(expect.fallback_matching, text) else "primary"


def _at(value: Any, pointer: str) -> Any:
    """Follow a JSON pointer (RFC 6901). Raises LookupError where it leads nowhere, which says what is there instead."""
    before = ""
    for raw in pointer.split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", key) and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            raise LookupError(_there(value, before))
        before += f"/{raw}"
    return value


def _there(value: Any, pointer: str) -> str:
    """What a body holds at the place that a pointer still leads to: names, and nothing that stands under them."""
    where = pointer or "the body"
    if isinstance(value, list):
        return f"{where} is a list of {len(value)}"
    if not isinstance(value, dict):
        return f"{where} is {'null' if value is None else type(value).__name__}, with nothing in it"
    if not value:
        return f"{where} is an empty object"
    names = [screen_text(one_line(name[:_NAME_CHARS])) for name in list(value)[:_NAMES]]
    told = [f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}" for name in names]
    return f"there is {', '.join(told)}{' and more' if len(value) > _NAMES else ''}"


class Asker:
    """Sends one prepared request to the target's addresses and reads the answer whole.

    `addresses` were looked up once, before the drill: a name that begins to point elsewhere takes no traffic along.
    """

    def __init__(
        self,
        target: Target,
        addresses: Sequence[str],
        *,
        clock: Clock,
        permitted: bool,
        tls: ssl.SSLContext | None,
        spoken: Sequence[str] = (),
    ) -> None:
        """`spoken`: what the plan's faults say in the API's place."""
        parts = urlsplit(target.url)
        self._target = target
        self._addresses = addresses
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._clock = clock
        self._permitted = permitted
        self._tls = tls
        self._spoken = spoken
        self._heads = http1.HeadReader(response=True)

    async def ask(self, request: Prepared, *, due_ns: int, time_limit_s: float) -> Answer:
        """Send and read.

        Raises Refused for an address without permission, OSError where this machine is out of descriptors: both are faults
        of the drill and no outcome of the agent's.
        """
        seen = _Seen(sent_ns=self._clock.mono_ns())
        try:
            async with asyncio.timeout_at(due_ns / 1e9 + time_limit_s):
                result, why = await self._exchange(request, seen)
        except TimeoutError:
            result, why = (
                "timeout",
                "connecting" if not seen.connected else "no answer" if seen.first_ns is None else "half an answer",
            )
        answer, source = None, None
        if result == "answered" and seen.status is not None:
            answer, why = judge_answer(self._target.expect, seen.status, bytes(seen.body))
            source = source_of(self._target.expect, bytes(seen.body), self._spoken) if answer == "ok" else None
        return Answer(
            result=result,
            status=seen.status,
            answer=answer,
            why=why,
            sent_ns=seen.sent_ns,
            first_ns=seen.first_ns,
            end_ns=self._clock.mono_ns(),
            source=source,
        )

    async def _exchange(self, request: Prepared, seen: "_Seen") -> tuple[str, str]:
        try:
            reader, writer = await self._connect()
        except ConnectionRefusedError:
            return "refused", "connection refused"
        except ssl.SSLError as error:
            return "protocol", f"TLS: {error.reason or 'failed'}"
        except ConnectionError as error:
            return "reset", type(error).__name__
        except TimeoutError:
            raise
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                raise
            return "refused", errno.errorcode.get(error.errno or 0, type(error).__name__)
        seen.connected = True
        try:
            check_peer(writer, self._target.url, permitted=self._permitted)
            with contextlib.suppress(ConnectionError):  # a server may answer and close before it has read everything
                writer.write(request.data)
                await writer.drain()
            return await self._read(reader, seen)
        except http1.Malformed as error:
            return "protocol", error.why
        except ssl.SSLError as error:
            return "protocol", f"TLS: {error.reason or 'failed'}"
        except (ConnectionError, BrokenPipeError) as error:
            return "reset", type(error).__name__
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        problem: OSError | None = None
        for address in self._addresses:
            try:
                return await asyncio.open_connection(
                    address, self._port, ssl=self._tls, server_hostname=self._host if self._tls else None, limit=1 << 18
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    raise
                problem = problem or error
        raise problem or ConnectionRefusedError("no address")

    async def _read(self, reader: asyncio.StreamReader, seen: "_Seen") -> tuple[str, str]:
        data = b""
        while True:
            size = http1.cut_head(data)
            if size:
                head = self._heads.response(data[:size])
                data = data[size:]
                if head.status >= 200 or head.status == 101:
                    break
                continue
            piece = await reader.read(65_536)
            if seen.first_ns is None and piece:
                seen.first_ns = self._clock.mono_ns()
            if not piece:
                return "cut", "closed without an answer" if not data else "closed inside the head"
            data += piece
        seen.status = head.status
        body = http1.response_body(head, self._target.method)
        inflate = http1.inflater(head.content_encoding, MAX_BODY_BYTES)
        while True:
            if data and not body.done:
                piece = body.feed(data)
                seen.body += piece if inflate is None else inflate(piece)
            if body.done:
                return "answered", ""
            if len(seen.body) > MAX_BODY_BYTES:
                return "protocol", f"a body over {MAX_BODY_BYTES} bytes"
            data = await reader.read(65_536)
            if not data:
                return ("answered", "") if body.end() else ("cut", "closed inside the body")


class _Seen:
    """What has been seen of an exchange so far, kept where a time limit cannot lose it."""

    def __init__(self, sent_ns: int) -> None:
        self.sent_ns = sent_ns
        self.connected = False
        self.first_ns: int | None = None
        self.status: int | None = None
        self.body = bytearray()


class Tally:
    """Counts what became of the requests, for the eyes and for the stop conditions."""

    def __init__(self, remember: int) -> None:
        self.sent = 0
        self.done = 0
        self.failed = 0
        self.by_outcome: Counter[str] = Counter()
        self.late_ns = 0
        """The worst lateness of a send."""
        self._last: deque[bool] = deque(maxlen=remember)

    @property
    def in_flight(self) -> int:
        return self.sent - self.done

    def count(self, answer: Answer) -> None:
        word = outcome_of(answer)
        self.done += 1
        self.by_outcome[word] += 1
        self.failed += word != "ok"
        self._last.append(word != "ok")

    def take(self, *, sent: int, counts: Mapping[str, int], late_ns: int) -> None:
        """Take over what somebody else counted, all from the beginning; `counts` by outcome, of which `ok` is the good one."""
        for word, n in counts.items():
            self._last.extend([word != "ok"] * min(n - self.by_outcome[word], self._last.maxlen or 0))
            self.by_outcome[word] = n
        self.sent, self.done = sent, sum(counts.values())
        self.failed = self.done - counts.get("ok", 0)
        self.late_ns = max(self.late_ns, late_ns)

    def recent_failed_ratio(self) -> float | None:
        """Share of failures among the last requests; None until there are as many as are to be remembered."""
        return sum(self._last) / len(self._last) if len(self._last) == self._last.maxlen else None


class Traffic:
    """Keeps users coming until it is told to stop, then waits for those under way."""

    def __init__(
        self,
        target: Target,
        asker: Asker,
        log: Log,
        *,
        pace: Steady,
        time_limit_s: float,
        seed: str,
        clock: Clock,
        mono0_ns: int,
        tally: Tally,
        max_requests: int,
    ) -> None:
        self._target = target
        self._asker = asker
        self._log = log
        self._pace = pace
        self._time_limit_s = time_limit_s
        self._random = random.Random(seed)  # noqa: S311  # a schedule that can be repeated, no secret
        self._clock = clock
        self._mono0_ns = mono0_ns
        self.tally = tally
        self._max_requests = max_requests
        self._no_more = asyncio.Event()
        self._order = list(range(len(target.payloads)))

    def no_more(self) -> None:
        """Start no further request."""
        self._no_more.set()

    async def run(self) -> None:
        """Send until `no_more`, then wait for the ends. Raises what `Asker.ask` and the log raise."""
        async with asyncio.TaskGroup() as users:
            nth = 0
            while nth < self._max_requests and await self._until(self._pace.due_ns(nth)):
                users.create_task(self._user(self._next(nth), self._pace.due_ns(nth)))
                nth += 1

    async def _until(self, due_ns: int) -> bool:
        left_s = (due_ns - self._clock.mono_ns()) / 1e9
        if left_s > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._no_more.wait(), left_s)
        return not self._no_more.is_set()

    def _next(self, nth: int) -> Prepared:
        """Prepare the n-th request: payloads in a new seeded order each time round."""
        payload = None
        if self._order:
            at = nth % len(self._order)
            if at == 0:
                self._random.shuffle(self._order)
            payload = self._order[at]
        bits = self._random.getrandbits
        trace = f"{bits(128) | 1:032x}"
        return prepare(
            self._target,
            id=f"u{nth + 1:06d}",
            trace=trace if not trace.startswith(PROBE_TRACE) else "1" + trace[1:],
            span=f"{bits(64) | 1:016x}",
            nonce=f"dmn{bits(64):016x}",
            payload=payload,
        )

    async def _user(self, request: Prepared, due_ns: int) -> None:
        sent_ns = self._clock.mono_ns()
        self.tally.sent += 1
        self.tally.late_ns = max(self.tally.late_ns, sent_ns - due_ns)
        start: dict[str, Any] = {
            "due_ns": due_ns - self._mono0_ns,
            "sent_ns": sent_ns - self._mono0_ns,
            "trace": request.trace,
        }
        if request.nonce is not None:
            start["nonce"] = request.nonce
        if request.payload is not None:
            start["payload"] = request.payload
        self._log.write("user_request", id=request.id, phase="start", **start)
        answer = await self._asker.ask(request, due_ns=due_ns, time_limit_s=self._time_limit_s)
        told = {} if answer.source is None else {"source": answer.source}
        self._log.write(
            "user_request",
            id=request.id,
            phase="end",
            due_ns=due_ns - self._mono0_ns,
            sent_ns=answer.sent_ns - self._mono0_ns,
            first_ns=None if answer.first_ns is None else answer.first_ns - self._mono0_ns,
            end_ns=answer.end_ns - self._mono0_ns,
            status=answer.status,
            result=answer.result,
            answer=answer.answer,
            why=answer.why,
            ms=round((answer.end_ns - due_ns) / 1e6, 3),
            **told,
        )
        self.tally.count(answer)


def check_peer(writer: asyncio.StreamWriter, url: str, *, permitted: bool) -> None:
    """Look at the address that was connected to. Raises Refused where it is not loopback, and not permitted."""
    peer = writer.get_extra_info("peername")
    address = str(peer[0]) if peer else ""
    if not is_loopback(address) and not permitted:
        raise Refused(
            url,
            found=f"a connection to {address or 'nowhere'}, which is not loopback",
            wanted="loopback, or permission in the plan and --permit-host",
            remedy="point the target at loopback",
        )


async def look_up(host: str, port: int) -> tuple[str, ...]:
    """Look a host up once, as its addresses in the order of the system. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
