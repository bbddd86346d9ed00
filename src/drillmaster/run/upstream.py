"""The real endpoint as the plan writes it: is it there, does it speak what its URL says, and is it who it says.

1. It is looked at as the proxy will: the same trust, the same name, no detour.
2. A URL of the wrong scheme is told by trying the other one, and only where the plan's own gave no good answer.
3. What a certificate lacks is told by what the verification said; the names it has instead are read from it only once it
   is known to be of an authority that is trusted.
"""

import asyncio
import os
import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from drillmaster.errors import Problem, Refused
from drillmaster.intake import read_bytes
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.plan import Plan
from drillmaster.run.crew import Line
from drillmaster.screen import screen_url

__all__ = [
    "PROXY_PROBE_TRACE",
    "Detour",
    "detour",
    "past_proxies",
    "probe_proxy",
    "reach_upstream",
    "see_through",
    "tls_to",
]

PROXY_PROBE_TRACE = PROBE_TRACE + "70726f78"
"""How the trace of a probe begins that is the proxy's alone, and not the agent's."""
_CONNECT_S = 10.0
_TRY_S = 3.0
_CA_FILE_BYTES = 16 << 20
_MAX_NAMES = 4
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# OpenSSL's own numbers, X509_V_ERR_*.
_SELF_SIGNED = 18
_NO_ISSUER = frozenset({2, 19, 20, 21})
_NOT_ITS_TIME = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})


def tls_to(scheme: str, ca: Path | None) -> ssl.SSLContext | None:
    """The TLS of one peer; None for plain http. Raises Problem for a CA file that is none."""
    if scheme != "https":
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca is not None:
        read_bytes(ca, _CA_FILE_BYTES)  # only a regular file: a FIFO would be waited for
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            raise Problem(
                str(ca), found=str(error), wanted="a PEM file of certificates", remedy="mend /proxy/upstream_ca"
            ) from None
    return context


async def reach_upstream(plan: Plan, *, ca: Path | None, environ: Mapping[str, str] = os.environ) -> Line:
    """Connect to the real endpoint as the proxy will, TLS and certificate included. Raises Refused."""
    parts = urlsplit(plan.proxy.upstream or "")
    host, port = _address(parts)
    place = f"upstream_reachable {host}:{port}"
    context = tls_to(parts.scheme, ca)
    try:
        await _connect(host, port, context, within_s=_CONNECT_S)
    except ssl.SSLCertVerificationError as error:
        raise await _not_trusted(error, place, parts, ca) from None
    except ssl.SSLError as error:
        raise _no_tls(error, place, parts) from None
    except (OSError, TimeoutError) as error:
        why = f"nothing in {_CONNECT_S:g} s" if isinstance(error, TimeoutError) else _os_words(error)
        remedy = f"see that this machine reaches it: curl -v {parts.scheme}://{_netloc(parts)}/"
        other = detour(environ, f"{parts.scheme}://{_netloc(parts)}")
        if other is not None:
            remedy = (
                f"{other.variable} is set here, and the drill's proxy goes through no other: give this machine a way of its "
                f"own to {host}, or name a gateway that it reaches in /proxy/upstream"
            )
        raise Refused(place, found=why, wanted="a connection", remedy=remedy) from None
    if parts.scheme == "http" and port == 443:
        await _see_scheme(place, parts)
    return Line(check="upstream_reachable", status="pass", why=f"{parts.scheme}://{host}:{port}")


async def see_through(plan: Plan, status: int | None, seen: str, location: str, *, own: bool) -> Line:
    """Judge what a probe of the proxy got: an answer of the real endpoint, in its own place. Raises Refused.

    `own`: the answer was one of the proxy's own, since it got none.
    """
    parts = urlsplit(plan.proxy.upstream or "")
    if parts.scheme == "http" and (own or status in (None, 400)):
        await _see_scheme("proxy_passes", parts)
    elsewhere = urlsplit(location)
    if parts.scheme == "http" and elsewhere.scheme == "https" and elsewhere.hostname == parts.hostname:
        raise Refused(
            "proxy_passes",
            found=f"{seen}, which sends everybody on to {screen_url(location)[:120]}",
            wanted="the endpoint itself: an agent that follows it goes past the proxy",
            remedy=f"write https://{elsewhere.netloc}{parts.path} in /proxy/upstream",
        )
    if status is None or own:
        raise Refused(
            "proxy_passes",
            found=f"{seen} of the proxy's own: it got no answer" if own else seen,
            wanted="an answer of the real endpoint",
            remedy=f"see that it answers by itself: curl -i --max-time 10 {screen_url(plan.proxy.upstream or '')}",
        )
    return Line(check="proxy_passes", status="pass", why=f"the real endpoint said {seen}")


async def probe_proxy(url: str, *, within_s: float) -> tuple[int | None, str, str]:
    """Send one GET through the proxy, as nobody's request: the status, what was seen, and where it sends one on to.

    The status is None where no answer came, and the second value says what did instead.
    """
    parts = urlsplit(url)
    trace = PROXY_PROBE_TRACE + secrets.token_hex(4)
    head = (
        f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: drillmaster-probe\r\nAccept: */*\r\n"
        f"traceparent: 00-{trace}-{secrets.token_hex(8)}-01\r\nConnection: close\r\n\r\n"
    )
    fields: list[bytes] = []
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(head.encode())
                line = await reader.readline()
                while len(fields) < 100 and (field := await reader.readline()).strip():
                    fields.append(field)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return None, f"no answer in {within_s:g} s", ""
    except (OSError, ValueError) as error:
        return None, type(error).__name__, ""
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        return None, "no HTTP" if line else "closed without an answer", ""
    named = (field.partition(b":") for field in fields)
    location = next((value for name, _, value in named if name.strip().lower() == b"location"), b"")
    return int(words[1]), f"status {words[1].decode()}", location.decode("ascii", "replace").strip()


class Detour(msgspec.Struct, frozen=True):
    """A variable that sends a client through another proxy, and what has to be set so that it does not."""

    variable: str
    host: str
    bypass: str
    """`NO_PROXY=...`, as it would have to be; spelled as the one that is there."""

    def said(self, *, own_worker: bool) -> str:
        where = "for it" if own_worker else "here, and so perhaps where it runs"
        return f"{self.variable} is set {where}, and {self.bypass.partition('=')[0]} does not name {self.host}"

    def remedy(self, *, own_worker: bool) -> str:
        name, _, value = self.bypass.partition("=")
        return (
            f'write `env: {{{name}: "{value}"}}` under /worker in the plan'
            if own_worker
            else f"export {self.bypass} where the agent runs"
        )


def detour(environ: Mapping[str, str], url: str) -> Detour | None:
    """What of an environment would lead a client that heeds it to another proxy than `url`; None where nothing does.

    Exactly the host, or a suffix of it, is what all clients agree on: networks and wildcards of NO_PROXY are some clients'.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    names = (f"{parts.scheme}_proxy", "all_proxy")
    variable = next((n for name in names for n in (name, name.upper()) if environ.get(n, "").strip()), None)
    if variable is None:
        return None
    bypass = next((n for n in ("no_proxy", "NO_PROXY") if environ.get(n, "").strip()), "NO_PROXY")
    set_to = environ.get(bypass, "").strip()
    for entry in set_to.replace(" ", ",").split(","):
        word = entry.strip().lower().lstrip(".")
        if word == "*" or (word and (word in (host, f"{host}:{parts.port}") or host.endswith(f".{word}"))):
            return None
    return Detour(variable, host, f"{bypass}={f'{set_to},' if set_to else ''}{host}")


def past_proxies(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """An environment in which no proxy of the person's own takes the agent past ours at `url`.

    Clients heed one spelling of NO_PROXY or the other, and most the small one first: both say all that either said.
    """
    said = environ.get("no_proxy", "").strip() or environ.get("NO_PROXY", "").strip()
    ours = dict.fromkeys([*_LOOPBACK, urlsplit(url).hostname or ""])
    both = ",".join(word for word in (said, *ours) if word)
    return {**environ, "no_proxy": both, "NO_PROXY": both}


async def _connect(host: str, port: int, context: ssl.SSLContext | None, *, within_s: float) -> ssl.SSLObject | None:
    """Connect and hang up; the TLS of it, where there was one."""
    async with asyncio.timeout(within_s):
        _, writer = await asyncio.open_connection(host, port, ssl=context)
        tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        writer.transport.abort()
    return tls


async def _see_scheme(place: str, parts: SplitResult) -> None:
    """Refuse `http://` for an endpoint that speaks TLS on that port."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: whether it is TLS at all is the question
    host, port = _address(parts)
    try:
        await _connect(host, port, context, within_s=_TRY_S)
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return  # no TLS
    except (OSError, TimeoutError):
        return
    raise Refused(
        place,
        found=f"an endpoint that speaks TLS on port {port}, and http:// in the plan",
        wanted="its own scheme",
        remedy=f"write https://{_netloc(parts)}{parts.path} in /proxy/upstream",
    )


async def _not_trusted(error: ssl.SSLCertVerificationError, place: str, parts: SplitResult, ca: Path | None) -> Refused:
    """Say what a certificate lacks, and what to do about that."""
    host, port = _address(parts)
    wanted = f"one that is trusted, for {host}"
    if error.verify_code in _OTHER_NAME:
        names = await _names(host, port, ca)
        found = f"a certificate for {', '.join(names) or 'no name at all'}, and not for {host}"
        usable = next((name for name in names if "*" not in name), None)
        at = "" if parts.port is None else f":{port}"
        remedy = (
            f"write https://{f'[{usable}]' if ':' in usable else usable}{at}{parts.path} in /proxy/upstream, if that leads there"
            if usable
            else "write a host in /proxy/upstream that it is for"
        )
    elif error.verify_code == _SELF_SIGNED:
        found = "a certificate that signed itself"
        remedy = "if the endpoint is your own, name that certificate's PEM file in /proxy/upstream_ca"
    elif error.verify_code in _NO_ISSUER:
        found = "a certificate of an authority that is not known here"
        remedy = (
            "if the authority is your own, name its PEM file in /proxy/upstream_ca; else have the server send its chain"
        )
        if ca is not None:
            found = f"a certificate that neither the system nor {ca} vouches for"
            remedy = "name the PEM file of the authority that signed it in /proxy/upstream_ca"
    elif error.verify_code in _NOT_ITS_TIME:
        found = f"a certificate whose time is not now ({error.verify_message})"
        remedy = "see the clock of this machine (date -u); else have whoever runs the endpoint renew it"
    else:
        found = f"a certificate that does not verify: {error.verify_message}"
        remedy = f"see it: openssl s_client -connect {_netloc(parts, port)} -servername {host}"
    return Refused(place, found=found, wanted=wanted, remedy=remedy)


async def _names(host: str, port: int, ca: Path | None) -> list[str]:
    """The names of a certificate that is trusted; none where it cannot be had a second time."""
    context = tls_to("https", ca)
    assert context is not None
    context.check_hostname = False
    try:
        tls = await _connect(host, port, context, within_s=_CONNECT_S)
    except (OSError, TimeoutError):
        return []
    said = tls.getpeercert() if tls is not None else None
    names = [str(pair[1])[:80] for pair in (said or {}).get("subjectAltName", ()) if len(pair) == 2]
    return [*names[:_MAX_NAMES], *(["..."] if len(names) > _MAX_NAMES else [])]


def _no_tls(error: ssl.SSLError, place: str, parts: SplitResult) -> Refused:
    reason = error.reason or "an error"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"):
        return Refused(
            place,
            found="an answer that is no TLS",
            wanted="TLS, as https:// says",
            remedy=f"if it speaks plain http, write http://{_netloc(parts)}{parts.path} in /proxy/upstream",
        )
    host, port = _address(parts)
    return Refused(
        place,
        found=f"a TLS handshake that failed: {reason.replace('_', ' ').lower()}",
        wanted="TLS that both sides know, and no certificate of ours",
        remedy=f"see what it wants: openssl s_client -connect {_netloc(parts, port)} -servername {host}",
    )


def _address(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _netloc(parts: SplitResult, port: int | None = None) -> str:
    """Host and port as a URL has them, without the user info that a plan must not hold anyway."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port if port is None else port
    return f"{host}" if port is None else f"{host}:{port}"


def _os_words(error: OSError) -> str:
    # asyncio writes a sentence of its own into strerror; a resolver's errors have numbers of their own, below 0.
    own_words = error.strerror or type(error).__name__
    return (os.strerror(error.errno) if error.errno is not None and error.errno > 0 else own_words).lower()
