"""Faults of connection, time, status, quota, money and credentials as a plain socket client sees them, byte by byte.

What a client received is kept in `tests/golden/faults/TAG.txt`, ids, dates and waits made equal. `python -m
tests.e2e.test_faults_wire` writes them anew; read the difference before you keep it.
"""

import errno
import json
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from drillmaster import faults
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e

GOLDEN = Path(__file__).parents[1] / "golden" / "faults"
SILENCE_S = 0.4
BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":40}'
KEY = b"Authorization: Bearer sk-old-key-0123456789"
NEW_KEY = b"Authorization: Bearer sk-new-key-0123456789"

OPENAI = post(BODY, KEY)
ANTHROPIC = post(BODY, b"x-api-key: sk-old-key-0123456789", b"anthropic-version: 2023-06-01", path=b"/v1/messages")
GEMINI = post(BODY, b"x-goog-api-key: sk-old-key-0123456789", path=b"/v1beta/models/m:generateContent")
AZURE = post(BODY, b"api-key: sk-old-key-0123456789", path=b"/openai/deployments/d/chat/completions?api-version=1")


def at_host(host: bytes, path: bytes) -> bytes:
    return post(BODY, KEY, path=path).replace(b"Host: x", b"Host: " + host)


GROQ = at_host(b"api.groq.com", b"/openai/v1/chat/completions")
MISTRAL = at_host(b"api.mistral.ai", b"/v1/chat/completions")
OPENROUTER = at_host(b"openrouter.ai", b"/api/v1/chat/completions")
EVERY = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "azure": AZURE,
    "groq": GROQ,
    "mistral": MISTRAL,
    "openrouter": OPENROUTER,
}


@dataclass
class Shot:
    """One connection: what is sent, one request after the other, each once the answer before it is here."""

    name: str
    sends: tuple[bytes, ...]
    params: dict[str, Any] = field(default_factory=dict)


def shots(sends: dict[str, bytes], **params: Any) -> list[Shot]:
    return [Shot(name, (request,), params) for name, request in sends.items()]


CASES: dict[str, list[Shot]] = {
    "reset": [Shot("one request", (OPENAI,))],
    "503": shots(EVERY),
    "hang": [Shot("one request", (OPENAI,))],
    "refused": [Shot("connect", ())],
    "rst-on-accept": [Shot("one request", (OPENAI,))],
    "syn-black-hole": [Shot("connect", ())],
    "fin-before-headers": [Shot("one request", (OPENAI,))],
    "cut-body": [
        Shot("by RST", (OPENAI,), {"after_bytes": 7}),
        Shot("by FIN", (OPENAI,), {"after_bytes": 7, "how": "fin"}),
        Shot("longer than the answer", (OPENAI,), {"after_bytes": 100_000}),
    ],
    "stale-keep-alive": [
        Shot("the second request", (OPENAI, OPENAI)),
        Shot("the third request", (OPENAI, OPENAI, OPENAI), {"nth": 3}),
    ],
    "first-byte-delay": [Shot("one request", (OPENAI,), {"delay_ms": 100, "jitter_ms": 20})],
    "throttle": [Shot("one request", (OPENAI,), {"bytes_per_s": 1000})],
    "header-drip": [Shot("one request", (OPENAI,), {"bytes_per_s": 500})],
    "body-drip": [Shot("one request", (OPENAI,), {"bytes_per_s": 1000})],
    "hang-after-headers": [Shot("one request", (OPENAI,))],
    "slow-close": [Shot("one request", (OPENAI,), {"delay_ms": 100})],
    "status": [
        *(Shot(f"openai {status}", (OPENAI,), {"status": status}) for status in (400, 408, 409, 413, 422, 425, 429)),
        *(Shot(f"openai {status}", (OPENAI,), {"status": status}) for status in (498, 500, 502, 503, 504, 529)),
        Shot("openai 400 context", (OPENAI,), {"status": 400, "condition": "context"}),
        Shot("anthropic 504", (ANTHROPIC,), {"status": 504}),
        Shot("502 of a gateway", (OPENAI,), {"status": 502, "html": True}),
        Shot("599, which nobody registered", (OPENAI,), {"status": 599, "html": True}),
        Shot("429 not to be retried", (OPENAI,), {"status": 429, "should_retry": False}),
    ],
    "overloaded": [*shots(EVERY), Shot("openai, in a minute", (OPENAI,), {"retry_after_s": 60})],
    "rate-limit": [
        *shots(EVERY, retry_after_s=60),
        *(
            Shot(f"openai, {form}", (OPENAI,), {"retry_after_s": 60, "form": form})
            for form in ("seconds", "ms", "date", "body")
        ),
        Shot("openai, none", (OPENAI,), {"form": "none"}),
    ],
    "quota-spent": [
        *shots(EVERY),
        Shot("anthropic, its 429", (ANTHROPIC,), {"status": 429}),
        Shot("openai, a project's limit", (OPENAI,), {"condition": "money-project"}),
    ],
    "requests-per-minute": [
        Shot(name, (EVERY[name],) * 2, {"requests": 1}) for name in ("openai", "anthropic", "gemini", "azure", "groq")
    ],
    "tokens-per-minute": [Shot(name, (EVERY[name],) * 2, {"tokens": 70}) for name in ("openai", "anthropic", "groq")],
    "daily-quota": [Shot(name, (EVERY[name],) * 2, {"requests": 1}) for name in ("openai", "gemini", "groq")],
    "key-expired": [
        *shots(EVERY),
        Shot("openai, a new key", (post(BODY, NEW_KEY),)),
        Shot("openai, the old key once more", (OPENAI,)),
        Shot("openai, no key", (post(BODY),)),
    ],
}


def received(sock: socket.socket) -> tuple[bytes, str]:
    """All that comes until the end, or until it is silent."""
    got = b""
    sock.settimeout(SILENCE_S)
    while True:
        try:
            data = sock.recv(65_536)
        except TimeoutError:
            return got, "<open>"
        except ConnectionResetError:
            return got, "<RST>"
        if not data:
            return got, "<FIN>"
        got += data


def shoot(ours: ProxyProcess, sends: tuple[bytes, ...], *, flowing: bool = False) -> str:
    """Play one connection; what came of it, as text."""
    sock = socket.socket()
    sock.settimeout(SILENCE_S)
    with sock:
        try:
            sock.connect(("127.0.0.1", ours.port))
        except TimeoutError:
            return "<connect: no answer>\n"
        except ConnectionResetError:  # so early that connect itself is told
            return "<RST>\n"
        except OSError as error:
            return f"<connect: {errno.errorcode[error.errno or 0]}>\n"
        text = ""
        for request in sends:
            try:
                sock.sendall(request)
            except ConnectionError:
                return text + "<RST>\n"
            got, end = received(sock)
            text += equal(got, flowing=flowing) + end + "\n"
            if end != "<open>":
                break
        return text


_VOLATILE = (
    (re.compile(rb"req_[0-9a-f]{24}"), b"req_<id>"),
    (re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), b"<uuid>"),
    (re.compile(rb"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"), b"<date>"),
    (re.compile(rb"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"), b"<stamp>"),
    # A wait that is told to the millisecond differs from run to run by what passed before.
    (re.compile(rb"\b(?:[0-9]+h)?(?:[0-9]+m)?[0-9]+\.[0-9]{1,9}s\b"), b"<wait>"),
    (re.compile(rb"\b(?:[0-9]+h)?[0-9]+m[0-9]+s\b"), b"<wait>"),
    (re.compile(rb"(retry-after-ms: )[0-9]{4,}"), rb"\1<ms>"),
)
# What a bucket says depends on the instant.
_FLOWING = (
    (re.compile(rb"(retry-after: )[0-9]+"), rb"\1<s>"),
    (re.compile(rb"(reset-requests: )[0-9]+\b"), rb"\1<s>"),
    (re.compile(rb"(remaining: |remaining-tokens: )[1-9][0-9]*"), rb"\1<n>"),
)
_BUCKETS = ("requests-per-minute", "tokens-per-minute", "daily-quota")


def equal(got: bytes, *, flowing: bool) -> str:
    for pattern, same in (*_VOLATILE, *(_FLOWING if flowing else ())):
        got = pattern.sub(same, got)
    if flowing:
        head, _, body = got.partition(b"\r\n\r\n")
        if b"<wait>" in body:
            head = re.sub(rb"(content-length: )[0-9]+", rb"\1<length>", head)
        got = head + b"\r\n\r\n" + body
    text = got.decode("latin-1").replace("\r\n", "\\r\\n\n")
    return text if not text or text.endswith("\n") else text + "\n"


def capture(ours: ProxyProcess, tag: str) -> str:
    """All shots of a tag; shots that follow each other with the same parameters share a window, and with it its state."""
    text, window, params = "", 0, None
    for shot in CASES[tag]:
        if params != shot.params or tag in _BUCKETS:
            if params is not None:
                ours.lift(f"{tag}-{window}")
            window, params = window + 1, shot.params
            ours.inject(tag, f"{tag}-{window}", **params)
            if faults.load(tag).scope == "port":  # the proxy's own probe comes first
                ours.until(lambda state: state["met"] > 0)
        said = json.dumps(shot.params) if shot.params else ""
        text += f"== {shot.name} {said}".rstrip() + "\n" + shoot(ours, shot.sends, flowing=tag in _BUCKETS)
    ours.lift(f"{tag}-{window}")
    return text


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    one = Origin(plain_answer)
    yield one
    one.close()


@pytest.fixture(scope="module")
def ours(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with proxy(tmp_path_factory.mktemp("wire"), upstream=origin.url) as one:
        yield one


@pytest.mark.parametrize("tag", CASES)
def test_the_bytes_on_the_wire_are_those_on_disk_and_the_fault_is_met_and_says_so(ours: ProxyProcess, tag: str) -> None:
    assert capture(ours, tag) == (GOLDEN / f"{tag}.txt").read_text(encoding="utf-8")
    windows = {row["window"] for row in ours.rows("fault_met")}
    assert any(window.startswith(f"{tag}-") for window in windows), tag


def test_after_all_of_them_the_proxy_passes_through(ours: ProxyProcess) -> None:
    with ours.connect() as sock:
        sock.sendall(OPENAI)
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.body == CHAT
    assert ours.state()["counts"]["script_errors"] == 0


def test_every_tag_of_these_groups_has_its_capture() -> None:
    here = {tag for tag in faults.names() if faults.load(tag).__module__.startswith("drillmaster.faults.")}
    assert set(CASES) <= here
    for tag in CASES:
        assert (GOLDEN / f"{tag}.txt").stat().st_size > 0


if __name__ == "__main__":
    main_origin = Origin(plain_answer)
    with tempfile.TemporaryDirectory() as folder, proxy(Path(folder), upstream=main_origin.url) as main_proxy:
        for wanted in sys.argv[1:] or CASES:
            (GOLDEN / f"{wanted}.txt").write_text(capture(main_proxy, wanted), encoding="utf-8")
    main_origin.close()
