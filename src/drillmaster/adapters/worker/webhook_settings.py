"""The file that pins one provider's webhook: `kind: webhook`. Numbers have an owner, keys are named and never written in it.

1. Keys come from the environment or from files, each by the name that the file gives. Each of them has to be there. How a key is
   rotated: name both, and take the old one's name out when the provider has stopped to sign with it.
2. `sha256` lists the digests of production's keys, so that a lab can tell one without having it. Where it is given, production
   starts with these keys and no others.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl, unquote

import msgspec

from drillmaster.adapters.worker.webhook import Endpoint
from drillmaster.adapters.worker.webhook_worker import WorkerLimits
from drillmaster.clock import Clock
from drillmaster.errors import Problem, one_line
from drillmaster.guards.webhook import Webhook
from drillmaster.policy import Pin, pin_problems
from drillmaster.rules.webhook_schemes import MOST_KEYS, SCHEMES, Key, read_key
from drillmaster.strict import load, load_as, nulls

__all__ = [
    "LabSettings",
    "Settings",
    "digest_of_key",
    "endpoint_of",
    "keys_of",
    "lab_endpoint_of",
    "read_settings",
]

_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
_Route = Annotated[str, msgspec.Meta(pattern=r"^/[A-Za-z0-9/_.~-]{0,200}$")]
_Hostname = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=600)]
_MAY_BE_NONE = ("", "/tolerance_s", "/worker", "/lab")
_MOST_KEY_FILE_BYTES = 4_096


class KeySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    env: tuple[_Name, ...] = ()
    files: tuple[str, ...] = ()
    sha256: tuple[Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")], ...] = ()
    """Of each key's text, as the provider hands it out: printf %s "$WEBHOOK_SECRET" | sha256sum."""


class LabSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hostname: _Hostname
    inbox: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["webhook"]
    version: Literal[1]
    source: str
    owner: str
    review_by: str
    provider: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_.-]{0,99}$")]
    """The provider's account, as the inbox calls it."""
    scheme: str
    path: _Route
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1, le=26_214_400)]
    read_within_s: _Seconds
    store_within_s: _Seconds
    tolerance_s: Annotated[int, msgspec.Meta(ge=1, le=86_400)] | None = None
    """Shorter than the scheme's own; left out: the scheme's own."""
    inbox: str
    """The path of an SQLite file, from this file's folder, or postgresql://USER@HOST/DATABASE."""
    keys: KeySettings
    worker: WorkerLimits | None = None
    lab: LabSettings | None = None


def read_settings(path: Path, *, clock: Clock) -> Settings:
    """Read the file. Raises Problem for whatever is wrong with it."""
    place = one_line(str(path))
    data = path.read_bytes()
    _none_blank(data, place)
    settings = load_as(data, Settings, place=place, fmt="yaml")
    pin = Pin(source=settings.source, owner=settings.owner, review_by=settings.review_by)
    for field, found, wanted in pin_problems(pin, now_ns=clock.wall_ns()):
        raise Problem(f"{place}: {field}", found=found, wanted=wanted, remedy="set it in this file")
    if settings.scheme not in SCHEMES:
        from drillmaster.strict import near

        meant = near(settings.scheme, list(SCHEMES))
        raise Problem(
            f"{place}: /scheme",
            found=repr(settings.scheme[:40]),
            wanted=f"one of {', '.join(SCHEMES)}",
            remedy=f"did you mean {meant}?" if meant else "take the provider's own, or generic",
        )
    _limits(settings, place)
    folder = path.absolute().parent
    lab = settings.lab
    if lab is not None and _same_inbox(folder, settings.inbox, lab.inbox):
        raise Problem(
            f"{place}: /lab/inbox",
            found="production's inbox",
            wanted="one of its own: a worker would carry out what nobody signed",
            remedy="name another file or database",
        )
    return msgspec.structs.replace(
        settings,
        inbox=_inbox(folder, settings.inbox),
        lab=None if lab is None else msgspec.structs.replace(lab, inbox=_inbox(folder, lab.inbox)),
    )


def _none_blank(data: bytes, place: str) -> None:
    """Name all that a person left blank at once."""
    open_ = [one for one in nulls(load(data, place=place, fmt="yaml")) if one not in _MAY_BE_NONE]
    if open_:
        raise Problem(
            place,
            found=f"{len(open_)} blank{'s' if len(open_) != 1 else ''}: {', '.join(open_)}",
            wanted="a value behind each colon; limits have no default",
            remedy="fill them in, or take the line out where it may be left out: drillmaster webhook init explains each",
        )


def _limits(settings: Settings, place: str, lane: Literal["production", "lab"] = "production") -> Webhook:
    try:
        return Webhook(
            scheme=settings.scheme,
            max_body_bytes=settings.max_body_bytes,
            read_within_ms=max(1, round(settings.read_within_s * 1_000)),
            tolerance_s=settings.tolerance_s,
            lane=lane,
        )
    except ValueError as error:
        wanted, _, found = str(error).partition(": found ")
        field, _, wanted = wanted.partition(" ")
        raise Problem(f"{place}: /{field}", found=found, wanted=wanted, remedy="set it in this file") from None


def _inbox(folder: Path, named: str) -> str:
    return named if "://" in named else str(folder / named)


def _same_inbox(folder: Path, one: str, other: str) -> bool:
    if "://" in one and "://" in other:
        (here, name), (there, another) = _database(one), _database(other)
        return name == another and bool(here & there)
    if "://" in one or "://" in other:
        return False
    first, second = (folder / one).resolve(), (folder / other).resolve()
    return first == second or (first.exists() and second.exists() and first.samefile(second))


def _database(url: str) -> tuple[set[tuple[str, str]], str]:
    """Say which servers and which database a URL may mean, as libpq reads it; who asks and how is no part of it."""
    rest, _, query = url.partition("://")[2].partition("?")
    asked, _, path = rest.partition("/")
    user, at, served = asked.rpartition("@")
    said = dict(parse_qsl(query))
    places = [place.rpartition(":") if re.search(r":\d*$", place) else (place, "", "") for place in served.split(",")]
    hosts = [unquote(host) for host, _, _ in places]
    ports = [port for _, _, port in places]
    hosts = (said.get("hostaddr") or said.get("host") or ",".join(hosts)).lower().split(",")
    ports = said["port"].split(",") if said.get("port") else ports
    name = said.get("dbname") or unquote(path) or said.get("user") or (unquote(user.partition(":")[0]) if at else "")
    many = ports if len(ports) == len(hosts) else [ports[0]] * len(hosts)
    return {(_host(host), port or "5432") for host, port in zip(hosts, many, strict=True)}, name


def _host(host: str) -> str:
    return "localhost" if not host or host.startswith("/") or host in ("127.0.0.1", "::1", "[::1]") else host


def endpoint_of(settings: Settings, keys: tuple[Key, ...], *, place: str) -> Endpoint:
    return Endpoint(source=settings.provider, path=settings.path, limits=_limits(settings, place), keys=keys)


def lab_endpoint_of(settings: Settings, *, place: str) -> Endpoint:
    """Give the lab's endpoint: the same path, another hostname, no key. Raises Problem where the file has no lab."""
    if settings.lab is None:
        raise Problem(
            f"{place}: /lab",
            found="nothing",
            wanted="the lab's own hostname and inbox",
            remedy="add lab: {hostname: hooks.lab.example.com, inbox: lab.db}",
        )
    limits = _limits(settings, place, "lab")
    return Endpoint(
        source=settings.provider, path=settings.path, limits=limits, keys=(), hostname=settings.lab.hostname
    )


def digest_of_key(text: str) -> str:
    """Name a key by the digest of its text."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def keys_of(settings: Settings, environ: Mapping[str, str], folder: Path, *, place: str) -> tuple[Key, ...]:
    """Read every key that the file names. Raises Problem, which names places and never a key."""
    standard = SCHEMES[settings.scheme].asymmetric
    keys = []
    for where, text in _texts(settings.keys, environ, folder, place):
        keys.append(read_key(text, standard=standard, place=where))
        if settings.keys.sha256 and digest_of_key(text) not in settings.keys.sha256:
            raise Problem(
                where,
                found="a key whose digest is not among those of this file",
                wanted="one that is",
                remedy=f"add it to /keys/sha256 of {place}: printf %s KEY | sha256sum",
            )
    if not 0 < len(keys) <= MOST_KEYS:
        raise Problem(
            f"{place}: /keys",
            found=f"{len(keys)} keys",
            wanted=f"1 to {MOST_KEYS}",
            remedy="name where the signing secret is: keys: {env: [WEBHOOK_SECRET]}",
        )
    return tuple(keys)


def _texts(named: KeySettings, environ: Mapping[str, str], folder: Path, place: str) -> Iterator[tuple[str, str]]:
    for name in named.env:
        text = environ.get(name, "")
        if not text:
            raise Problem(
                name,
                found="no such variable" if name not in environ else "nothing in it",
                wanted=f"the signing secret that {place} names",
                remedy=f"set {name}, from where your secrets are kept",
            )
        yield name, text
    for file in named.files:
        where = one_line(file)
        with (folder / file).open("rb") as opened:
            raw = opened.read(_MOST_KEY_FILE_BYTES + 1)
        if len(raw) > _MOST_KEY_FILE_BYTES:
            raise Problem(where, found="a large file", wanted="one key on one line", remedy="put the key alone there")
        yield where, raw.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
