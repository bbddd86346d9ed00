"""The keys of a cache for the gate `cache-keys`: a file that somebody listed, or Redis, asked key by key.

1. A file `.json` has `kind: cache-keys`, when it was taken, whether it is whole, and lists. Any other file has one key a line, as
   `redis-cli --scan` writes them; when it was taken says the command line. A last line without an end is a listing that broke
   off.
2. Redis is only read: SCAN over one database, and which channels and streams there are. One node of a cluster is no whole
   listing. It lies on this machine, or the
   policy names its host and the command line repeats it; the connected address counts. No password stands in a URL: it comes
   from REDIS_PASSWORD. One listing takes at most a minute.
3. Names of locks and topics are those whose prefix the policy says is theirs, Redis's channels and streams, and what is
   handed in.
4. A key that is no UTF-8 is kept as it can be, and is none of ours.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.gates.cache_keys import CacheKeys, Keys, Use
from drillmaster.intake import read_bytes
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.sanity.permission import is_loopback
from drillmaster.screen import screen_url

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = ["PASSWORD", "KeysIntake", "read_lines", "scan"]

CAP_BYTES = 1 << 30
_JSON_CAP_BYTES = 64 << 20
PASSWORD = "REDIS_PASSWORD"  # noqa: S105 - the name of a variable
TIME_LIMIT_S = 60.0
_WITHIN_S = 5.0
_MISSING = "pip install 'drillmaster[redis]'"


class _Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["cache-keys"]
    version: Literal[1]
    source: str
    taken_at: str
    """RFC 3339."""
    complete: bool
    keys: tuple[str, ...]
    etags: tuple[str, ...] | None = None
    locks: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None


class KeysIntake:
    """What the command line named."""

    def __init__(
        self,
        file: Path | None,
        url: str | None,
        *,
        permit_host: str | None = None,
        taken_at: str | None = None,
        names: Mapping[Use, tuple[Path, ...]] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if (file is None) == (url is None):
            raise Problem(
                "gate cache-keys",
                found="neither a file nor Redis" if file is None else "a file and Redis",
                wanted="one of them",
                remedy="redis-cli --scan > keys.txt, then drillmaster gate cache-keys keys.txt --taken-at TIME",
            )
        self._file, self._url, self._permit_host, self._taken_at = file, url, permit_host, taken_at
        self._names, self._environ = names or {}, environ

    def gather(self, gate: Any, asked: Asked, authority: "Authority | None") -> Gathered:
        """List the keys. Raises Problem."""
        if self._url is not None:
            dump = self._asked(gate, asked)
        else:
            assert self._file is not None
            dump = self._read(self._file, asked)
        names: dict[Use, tuple[str, ...]] = dict(dump.names)
        for use, paths in self._names.items():
            names[use] = (*names.get(use, ()), *(name for path in paths for name in read_lines(path)[0]))
        for one in gate.others:
            if one.what != "other":
                found = tuple(key for key in dump.keys if key.startswith(one.prefix))
                if found:
                    names[one.what] = (*names.get(one.what, ()), *found)
        dump = msgspec.structs.replace(dump, names=names)
        return Gathered(
            evidence=dump,
            subject=dump.source,
            digest=_digest(dump),
            counts={"keys": len(dump.keys), **{f"{use}s": len(of) for use, of in sorted(names.items())}},
            end_ns=dump.taken_ns,
        )

    def _read(self, path: Path, asked: Asked) -> Keys:
        place = one_line(str(path))
        if path.suffix.lower() != ".json":
            keys, cut = read_lines(path)
            return Keys(
                source=place,
                file=place,
                keys=keys,
                cut=cut,
                taken_ns=None if self._taken_at is None else _time(self._taken_at, "--taken-at"),
                now_ns=asked.now_ns,
            )
        if self._taken_at is not None:
            raise Problem(
                "--taken-at",
                found="a time of a listing that has its own",
                wanted="it with a list of lines alone",
                remedy="leave --taken-at out",
            )
        listing = strict.load_as(
            read_bytes(path, _JSON_CAP_BYTES), _Listing, place=place, fmt="json", cap_bytes=_JSON_CAP_BYTES
        )
        named: tuple[tuple[Use, tuple[str, ...] | None], ...] = (
            ("etag", listing.etags),
            ("lock", listing.locks),
            ("topic", listing.topics),
        )
        return Keys(
            source=one_line(listing.source)[:200],
            keys=listing.keys,
            taken_ns=_time(listing.taken_at, f"{place}: /taken_at"),
            cut="" if listing.complete else "it says of itself that it is not complete",
            names={use: of for use, of in named if of is not None},
            now_ns=asked.now_ns,
        )

    def _asked(self, gate: CacheKeys, asked: Asked) -> Keys:
        assert self._url is not None
        if self._taken_at is not None:
            raise Problem(
                "--taken-at", found="a time of keys that are listed now", wanted="none", remedy="leave --taken-at out"
            )
        keys, topics, cut = scan(
            self._url,
            hosts=gate.hosts,
            permit_host=self._permit_host,
            most=gate.max_keys,
            password=self._environ.get(PASSWORD) or None,
        )
        return Keys(
            source=screen_url(self._url),
            keys=keys,
            taken_ns=asked.now_ns,
            cut=cut,
            names={"topic": topics},
            now_ns=asked.now_ns,
        )


def read_lines(path: Path) -> tuple[tuple[str, ...], str]:
    """Read one name a line; and where it broke off, "" where it did not. Raises Problem."""
    data = read_bytes(path, CAP_BYTES)
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    if last:
        lines.append(last)
    return tuple(line.removesuffix("\r") for line in lines), "its last line has no end: it broke off" if last else ""


def scan(
    url: str, *, hosts: tuple[str, ...], permit_host: str | None, most: int, password: str | None
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """List keys, topics and where the listing stopped before its end ("" else). Raises Problem."""
    outside = _permitted(url, hosts, permit_host)
    try:
        import redis
    except ImportError:
        raise Problem(screen_url(url), found="no driver for Redis", wanted="redis-py", remedy=_MISSING) from None
    place = screen_url(url)
    options: dict[str, Any] = {"socket_timeout": _WITHIN_S, "socket_connect_timeout": _WITHIN_S}
    if password is not None:
        options["password"] = password
    try:
        client = redis.Redis.from_url(url, decode_responses=False, **options)
        try:
            if not outside:
                _here(client, place)
            return _listed(client, most, time.monotonic() + TIME_LIMIT_S)
        finally:
            client.close()
    except (redis.RedisError, OSError, ValueError) as error:
        raise Problem(
            place,
            found=f"no answer ({type(error).__name__})",
            wanted="a Redis that may be read: SCAN, PUBSUB CHANNELS, INFO",
            remedy=f"look whether it runs and who may read it; a password goes into ${PASSWORD}",
        ) from None


def _listed(client: Any, most: int, ends: float) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    keys: set[bytes] = set()  # SCAN may tell one twice
    cursor = 0
    while True:
        cursor, found = client.scan(cursor=cursor, count=1_000)
        keys.update(found)
        if len(keys) > most:
            return _texts(keys), (), f"more than {most:,} keys"
        if time.monotonic() > ends:
            return _texts(keys), (), f"it took longer than {TIME_LIMIT_S:g} s"
        if not cursor:
            break
    if client.info("cluster").get("cluster_enabled"):
        return _texts(keys), (), "it is one node of a cluster, and the others have keys of their own"
    channels, streams = set(client.pubsub_channels()), set()
    cursor = 0
    while True:
        cursor, found = client.scan(cursor=cursor, count=1_000, _type="stream")
        streams.update(found)
        if not cursor or time.monotonic() > ends:
            # A channel takes no key away: whoever listens on a name would hide the key of that name.
            return (
                _texts(keys - streams),
                _texts(channels | streams),
                "" if not cursor else f"it took longer than {TIME_LIMIT_S:g} s",
            )


def _texts(names: set[bytes]) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", "surrogateescape") for name in sorted(names))


def _permitted(url: str, hosts: tuple[str, ...], permit_host: str | None) -> bool:
    """Whether another machine is meant, and may be asked. Raises Problem, before anything is sent."""
    try:
        parts = urlsplit(url)
        host, secret = parts.hostname or "", parts.password
    except ValueError:
        parts, host, secret = urlsplit(""), "", None
    if parts.scheme not in ("redis", "rediss", "unix") or (parts.scheme != "unix" and not host):
        raise Problem("--redis", found="no URL of Redis", wanted="redis://HOST:PORT/DATABASE", remedy="name it so")
    if secret is not None or "password=" in parts.query:
        raise Problem(
            "--redis",
            found="a password in a URL, which every listing of processes shows",
            wanted="a URL without one",
            remedy=f"put it into ${PASSWORD}",
        )
    if parts.scheme == "unix" or is_loopback(host):
        return False
    if host not in hosts or permit_host != host:
        raise Refused(
            "--redis",
            found=f"{host}, another machine",
            wanted="this one, or a host that the policy names and --permit-host repeats",
            remedy=f"have the policy's owner write hosts: [{host}], and add --permit-host {host}",
        )
    return True


def _here(client: Any, place: str) -> None:
    """Make sure that what answers is this machine: a name can lead anywhere."""
    connection = client.connection_pool.get_connection()
    try:
        peer = getattr(connection, "_sock", None)
        address = peer.getpeername() if peer is not None else None
        if not (isinstance(address, str | bytes) or (address and is_loopback(address[0]))):
            raise Refused(
                place,
                found="an address that is another machine's",
                wanted="this machine's",
                remedy="name the address itself: redis://127.0.0.1:6379/0",
            )
    finally:
        client.connection_pool.release(connection)


def _time(text: str, place: str) -> int:
    ns = parse_rfc3339(text)
    if ns is None:
        raise Problem(
            place, found=strict.shown(text), wanted="RFC 3339 with a zone", remedy="write it as 2026-11-30T15:30:00Z"
        )
    return ns


def _digest(dump: Keys) -> str:
    names = sorted((use, sorted(of)) for use, of in dump.names.items())
    # Written as Python writes them: a key of Redis may have any byte in it, and none may end it.
    text = "\n".join(ascii(one) for one in (*sorted(dump.keys), *names, [dump.cut]))
    return strict.digest_bytes(text.encode())
