"""A fixture from staging: one exchange with a permitted host, screened, dated, with a digest; a person commits it.

1. Loopback, or a host that a plan names with its owner and the command line repeats; the connected address counts. No
   redirect is followed, no proxy asked, and nothing is sent again.
2. A token comes from the variable that the command line names, goes over no open wire to another machine, and into no file:
   where the answer repeats it, it is taken out.
3. Kept are host, method, path, status, chosen header fields and the body: JSON as it is meant, other text as it is. What looks
   like a credential, or stands under a name of one, is taken out, field by field, and counted.
4. A file that is there is not replaced. git is not asked, and nothing is added to it.
"""

import hashlib
import json
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.intake import is_there, read_bytes, read_strict
from drillmaster.intake.written import write_new
from drillmaster.plan import Permit
from drillmaster.rules.http_fixture import CAP_BYTES, Fixture, fixture_digest, read_fixture
from drillmaster.rules.lanes import told_bot
from drillmaster.sanity.permission import header_problems, is_loopback, permission_problems, split_url
from drillmaster.screen import MARK, screen_headers, screen_text, screen_url

__all__ = ["ALWAYS_KEPT", "Order", "StagingPlan", "check", "order", "read_plan", "record"]

TIME_LIMIT_S = 30.0
ALWAYS_KEPT = ("content-type", "retry-after", "allow", "location")
"""Header fields of the answer that are kept whether or not they are asked for."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEEP = 100


class _Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    permit: Permit


class StagingPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which host may be recorded from, and who allowed it."""

    kind: Literal["staging"]
    version: Literal[1]
    target: _Target


class Order(NamedTuple):
    """What is asked of whom, once it may be. `token` never leaves this process but to the host."""

    parts: SplitResult
    outside: bool
    method: str
    headers: dict[str, str]
    body: bytes | None
    token: str | None


def read_plan(path: Path) -> StagingPlan:
    """Read who permitted what. Raises Problem."""
    return read_strict(path, StagingPlan)


def order(
    url: str,
    plan: StagingPlan | None,
    *,
    place: str,
    permit_host: str | None,
    method: str,
    headers: Sequence[str],
    body: bytes | None,
    token_env: str | None,
    token_header: str,
    environ: Mapping[str, str],
    now_ns: int,
) -> Order:
    """Say whether a URL may be asked, and how. Raises Problem, before anything is sent."""
    parts = split_url(url)
    if parts is None or parts.fragment or parts.username is not None or parts.password is not None:
        raise Problem(
            "URL",
            found=repr(screen_url(url))[:100],
            wanted="http(s)://HOST/PATH, without user info and fragment",
            remedy="a credential goes into a variable: --token-env STAGING_TOKEN",
        )
    host = (parts.hostname or "").lower()
    permit = plan.target.permit if plan is not None else None
    if permit is None and not is_loopback(host):
        raise Refused(
            "URL",
            found=f"{host}, which is not loopback",
            wanted="permission: another host is recorded from with its owner's leave",
            remedy="write a plan (kind: staging, version: 1, target: {url, permit: {host, owner, until, max_per_s, "
            f"max_requests}}}}), then: --plan staging.yaml --permit-host {host}",
        )
    if plan is not None:
        named = split_url(plan.target.url)
        if named is None or (named.scheme, named.hostname, named.port) != (parts.scheme, parts.hostname, parts.port):
            raise Refused(
                f"{place}: /target/url",
                found=screen_url(plan.target.url)[:100],
                wanted=f"{parts.scheme}://{parts.netloc}, which is to be recorded",
                remedy="name the same scheme, host and port in both",
            )
    problems = permission_problems(
        url,
        permit,
        place=place,
        wall_ns=now_ns,
        permit_host=permit_host,
        total_s=TIME_LIMIT_S,
        per_s=1,
        requests=1,
        calmer="ask the owner for one request in one second",
    )
    for problem in problems:
        raise problem
    if method not in _METHODS:
        raise Problem("--method", found=repr(method)[:40], wanted=f"one of {', '.join(_METHODS)}", remedy="write POST")
    token = _token(token_env, environ)
    if token is not None and parts.scheme == "http" and not is_loopback(host):
        raise Refused(
            "--token-env",
            found=f"a token for {host} over an open wire",
            wanted="https, where a token goes to another machine",
            remedy="name its https URL",
        )
    sent = _headers(headers)
    if token is not None:
        if _FIELD.fullmatch(token_header) is None:
            raise Problem("--token-header", found=repr(token_header)[:40], wanted="a field's name", remedy="X-Api-Key")
        bearer = token_header.lower() == "authorization"
        sent[token_header.lower()] = f"Bearer {token}" if bearer else token
    return Order(parts, permit is not None and not is_loopback(host), method, sent, body, token)


def _token(name: str | None, environ: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    if _VARIABLE.fullmatch(name) is None:  # perhaps the token itself: it is not shown
        raise Problem(
            "--token-env",
            found=f"{len(name)} characters that name no variable",
            wanted="the name of a variable, never its value",
            remedy="--token-env STAGING_TOKEN",
        )
    value = environ.get(name, "")
    if not value:
        raise Problem(
            "--token-env", found=f"{name}, which is not set", wanted="a token in it", remedy=f"export {name}=..."
        )
    if not value.isascii() or not value.isprintable() or len(value) < 8:
        raise Problem(
            f"${name}", found="what is no token", wanted="8 or more printable characters", remedy=f"export {name}=..."
        )
    return value


def _headers(lines: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or _FIELD.fullmatch(name) is None or name.lower() in found:
            raise Problem(
                "--header", found=repr(screen_text(line))[:60], wanted="NAME: VALUE, once a name", remedy="correct it"
            )
        found[name.lower()] = value.strip()
    for problem in header_problems(found, place="--header", pointer=""):
        raise problem
    if any(screen_headers([(name, value)])[0][1] != value for name, value in found.items()):
        raise Problem(
            "--header",
            found="a credential on the command line, where every process sees it",
            wanted="the name of a variable that holds it",
            remedy="--token-env NAME --token-header FIELD",
        )
    return found


def record(wanted: Order, out: Path, *, kept: Sequence[str], by: str, now_ns: int) -> Fixture:
    """Make the exchange and write the fixture. Raises Problem; then nothing is written."""
    if not by.strip() or told_bot(by) or re.search(r"[\x00-\x1f\x7f]", by):
        raise Problem(
            "--by", found=repr(by)[:40], wanted="the person who records and will answer for it", remedy='--by "Ada"'
        )
    if is_there(out):
        raise Refused(
            str(out),
            found="a file that is there",
            wanted="a new one: what was recorded is not replaced unread",
            remedy=f"record beside it, compare, and let its owner replace it: --out {out.with_suffix('.new.json')}",
        )
    if out.suffix != ".json":
        raise Problem(str(out), found=out.suffix or "no suffix", wanted="a file NAME.json", remedy=f"--out {out}.json")
    status, fields, body = _exchange(wanted)
    text = _written(wanted, status, fields, body, kept=kept, by=by, now_ns=now_ns)
    fixture, _ = read_fixture(text.encode(), place=str(out))
    if not write_new(out, text):
        raise Refused(str(out), found="a file that came meanwhile", wanted="a new one", remedy="record again")
    return fixture


def _exchange(wanted: Order) -> tuple[int, list[tuple[str, str]], bytes]:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = wanted.parts
    place = screen_url(parts.geturl())
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIME_LIMIT_S)
    headers = {"accept": "application/json, */*;q=0.5", "user-agent": f"drillmaster/{drillmaster.__version__}"}
    headers |= wanted.headers | {"accept-encoding": "identity"}
    try:
        connection.connect()
        peer = connection.sock.getpeername()[0] if isinstance(connection.sock, socket.socket) else ""
        if not wanted.outside and not is_loopback(peer):
            raise Refused(
                place,
                found=f"the address {peer}, which is not loopback",
                wanted="loopback: the connected address counts",
                remedy=f"write a plan with `permit:`, then: --plan staging.yaml --permit-host {parts.hostname}",
            )
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(wanted.method, path, body=wanted.body, headers=headers)
        answer = connection.getresponse()
        body = answer.read(CAP_BYTES + 1)
        status, fields = answer.status, answer.getheaders()
    except (OSError, HTTPException, ValueError) as error:
        raise Problem(
            place,
            found=one_line(getattr(error, "strerror", None) or type(error).__name__).lower(),
            wanted="a host that answers",
            remedy="see that it runs there: curl -sS URL",
        ) from None
    finally:
        connection.close()
    if len(body) > CAP_BYTES // 2:
        raise Problem(place, found=f"{len(body):,} bytes", wanted="at most 4 MiB", remedy="ask for less of it")
    coding = {name.lower(): value for name, value in fields}.get("content-encoding", "identity").lower()
    if coding not in ("", "identity"):
        raise Problem(
            place, found=f"a body in {coding}", wanted="one that is not compressed", remedy="ask the host's owner"
        )
    return status, fields, body


def _written(
    wanted: Order,
    status: int,
    fields: Sequence[tuple[str, str]],
    body: bytes,
    *,
    kept: Sequence[str],
    by: str,
    now_ns: int,
) -> str:
    cleaner = _Cleaner(wanted.token)
    names = {name.lower() for name in (*ALWAYS_KEPT, *kept)}
    headers: dict[str, str] = {}
    for name, value in fields:
        if name.lower() in names:
            shown = screen_url(value) if name.lower() == "location" else screen_headers([(name, value)])[0][1]
            headers[name.lower()] = cleaner.text(shown, was=value)
    response: dict[str, Any] = {"status": status, "headers": dict(sorted(headers.items()))}
    response |= _body(body, cleaner, wanted)
    path = screen_url((wanted.parts.path or "/") + (f"?{wanted.parts.query}" if wanted.parts.query else ""))
    told: dict[str, Any] = {
        "kind": "http-fixture",
        "version": 1,
        "host": (wanted.parts.hostname or "").lower(),
        "recorded_at": rfc3339(now_ns, digits=0),
        "recorded_by": by.strip(),
        "request": {
            "method": wanted.method,
            "path": cleaner.text(path, was=path),
            "body_sha256": None if wanted.body is None else f"sha256:{hashlib.sha256(wanted.body).hexdigest()}",
        },
        "response": response,
        "screened": 0,
    }
    told["screened"] = cleaner.taken
    text = json.dumps({**told, "sha256": fixture_digest(told)}, indent=2, ensure_ascii=False) + "\n"
    left = [number for number, line in enumerate(text.splitlines(), 1) if screen_text(line) != line]
    if left or (wanted.token is not None and wanted.token in text):
        raise Problem(
            screen_url(wanted.parts.geturl()),
            found=f"what looks like a credential in a part of the answer that cannot be taken out (line {left[:3]})",
            wanted="an answer without one",
            remedy="record an exchange that gives no credential",
        )
    return text


def _body(body: bytes, cleaner: "_Cleaner", wanted: Order) -> dict[str, Any]:
    if not body:
        return {}
    try:
        return {"json": cleaner.value(strict.load(body, place="body", fmt="json", cap_bytes=CAP_BYTES), "")}
    except Problem:
        pass  # no JSON, or none that two readers take for the same: kept as text
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(
            screen_url(wanted.parts.geturl()),
            found=f"{len(body):,} bytes that are no text",
            wanted="JSON or UTF-8 text, which can be screened",
            remedy="record an exchange whose answer is text",
        ) from None
    return {"text": "\n".join(cleaner.text(screen_text(line), was=line) for line in text.split("\n"))}


class _Cleaner:
    """Takes credentials out, and counts."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self.taken = 0

    def text(self, screened: str, *, was: str) -> str:
        if self._token is not None and self._token in screened:
            screened = screened.replace(self._token, MARK)
        self.taken += screened != was
        return screened

    def value(self, value: Any, name: str, depth: int = 0) -> Any:
        """Screen a value of JSON; what stands under a telling name goes whole."""
        if depth > _DEEP:
            raise Problem("body", found="JSON over 100 levels deep", wanted="less", remedy="ask for less of it")
        if isinstance(value, dict):
            return {self.text(screen_text(key), was=key): self.value(one, key, depth + 1) for key, one in value.items()}
        if isinstance(value, list):
            return [self.value(one, name, depth + 1) for one in value]
        if not isinstance(value, str):
            return value
        if value and strict.SECRET_NAME.search(name):
            return self.text(MARK, was=value)
        line = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        said = screen_text(value)
        return self.text(said if screen_text(line) == line or said != value else MARK, was=value)


def check(paths: Sequence[Path]) -> list[tuple[Path, Fixture | Problem]]:
    """Read fixtures again, each with what is wrong with it."""
    found: list[tuple[Path, Fixture | Problem]] = []
    for path in paths:
        try:
            found.append((path, read_fixture(read_bytes(path, CAP_BYTES), place=str(path))[0]))
        except Problem as problem:
            found.append((path, problem))
    return found
