"""What a proxy is told at its start: where to listen, where the real endpoint is, and the bound of every hold."""

from typing import Any, Literal
from urllib.parse import quote, urlsplit

import msgspec

from drillmaster.errors import Problem

__all__ = ["Limits", "Settings", "Upstream"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every hold has a bound. Seconds, unless the name says otherwise."""

    head_s: float = 10.0
    """From the connection, or the first byte of a request, to the end of its head."""
    idle_s: float = 300.0
    """A kept-alive client connection without a request."""
    connect_s: float = 10.0
    """Connecting to the upstream, TLS included."""
    answer_s: float = 900.0
    """Silence of the upstream before and within an answer; more than the 600 s that SDKs wait."""
    body_s: float = 120.0
    """Silence of a client that owes a body."""
    hold_s: float = 3_600.0
    """The longest single hold of a script."""
    pool_idle_s: float = 50.0
    pool_size: int = 256
    """Idle upstream connections that are kept."""


class Upstream(msgspec.Struct, frozen=True):
    """Where the real endpoint is, from its URL."""

    tls: bool
    host: str
    port: int
    prefix: bytes
    authority: bytes
    """What the Host field says."""

    @classmethod
    def parse(cls, url: str) -> "Upstream":
        """Read `http(s)://host[:port][/prefix]`. Raises Problem."""
        remedy = "write it as https://api.example.com or http://127.0.0.1:8000/prefix"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Problem("--upstream", found=str(error), wanted="a URL", remedy=remedy) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Problem("--upstream", found=repr(url[:80]), wanted="an http or https URL with a host", remedy=remedy)
        if parts.username is not None or parts.query or parts.fragment:
            raise Problem(
                "--upstream",
                found="user info, a query or a fragment",
                wanted="scheme, host, port and path alone",
                remedy="keys go into the agent's own environment, not into this URL",
            )
        tls = parts.scheme == "https"
        host = parts.hostname
        try:
            ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
        except UnicodeError:
            raise Problem("--upstream", found=repr(host[:80]), wanted="a host name", remedy=remedy) from None
        name = f"[{host}]" if ":" in host else ascii_host
        authority = name if port is None or port == (443 if tls else 80) else f"{name}:{port}"
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=-._~")
        return cls(tls, ascii_host, port or (443 if tls else 80), prefix.encode("ascii"), authority.encode("ascii"))


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one proxy process runs; `python -m drillmaster.proxy` reads it as one JSON object on stdin."""

    host: str = "127.0.0.1"
    port: int = 8081
    """0: any free port; `proxy_started` and `GET /state` say which."""
    listen_fd: int | None = None
    """An inherited, bound and listening socket. It wins over `host` and `port`, and outlives the proxy in its owner."""
    upstream: str | None = None
    """None: dead from the start, with `mode`."""
    upstream_ca: str | None = None
    """A PEM file to trust besides the system's store."""
    mode: str = "503"
    params: dict[str, Any] = {}
    dialect: str = "auto"
    control_path: str | None = None
    """Unix socket, made with mode 0600; only this uid and root are heard."""
    control_port: int | None = None
    """TCP on loopback, 0 for any free port; needs `token_file`."""
    token_file: str | None = None
    """Its first line is the bearer token. With it the Unix socket asks for it too."""
    events: str | None = None
    """The file of evidence; None: none is kept."""
    transcripts: str | None = None
    """The file that exchanges of missions are recorded in, such as `transcripts/proxy.ndjson` of the run; None: none are."""
    run: str = ""
    """The run's id, which recorded lines say."""
    mono0_ns: int = 0
    """The run's zero on CLOCK_MONOTONIC."""
    seed: int = 1
    max_requests: int | None = None
    """How many requests may go to the upstream, in all; beyond that they are refused here, and a fault that is on is lifted."""
    max_tokens: int | None = None
    """The same of what its answers cost."""
    purse_fd: int | None = None
    """An inherited file of `purse.LEDGER_BYTES`: what was spent already stands there. None: this proxy begins anew."""
    owner_pid: int | None = None
    """Who started us. Once it is gone the proxy passes through until it was idle for `orphan_grace_s`, then ends."""
    orphan_grace_s: float = 600.0
    say: Literal["quiet", "lines"] = "quiet"
    """Whether each fault that met a request is told on stderr, for a person at a terminal."""
    limits: Limits = Limits()
