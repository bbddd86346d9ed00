"""Everything that can make an interview worthless, looked at before anything is sent: keys, payloads, files, permission, room."""

import os
import shlex
import shutil
import socket
import string
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.engines import Patience, Shot, WebSocket
from drillmaster.errors import Problem, Refused
from drillmaster.evidence.samples import LONG_RECORD
from drillmaster.http1 import CODINGS
from drillmaster.intake import read_bytes
from drillmaster.ladder import Asked, Honour, InterviewPlan, Messages, Step, steps
from drillmaster.ladder.bodies import Frozen, fixed_headers, frozen, payload_sha256
from drillmaster.ladder.checking import Place
from drillmaster.ladder.payloads import read_payloads
from drillmaster.proxy.means import raise_descriptors
from drillmaster.run.progress import Progress, Silent
from drillmaster.run.seats import Lock, take_lock
from drillmaster.sanity import empty_seats, fill_in, is_loopback, split_url

__all__ = ["LoadOptions", "Ready", "look_up", "reach", "ready_for", "room_for", "target_lock"]

PAYLOADS_CAP_BYTES = 64 << 20
OWN_DESCRIPTORS = 40


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is no part of the plan."""

    runs: Path = Path("runs")
    out: Path | None = None
    """The article's file; it must not be there. None: `interview.json`, or where that is there one with the run's id."""
    base: Path = Path()
    """Where the plan's relative paths begin."""
    plan_file: Path | None = None
    """Where the plan was read; None: it is a command line."""
    rehearsal: bool = False
    permit_host: str | None = None
    stamps: tuple[str, ...] = ()
    more_headers: Mapping[str, str] = {}
    """Secrets that stand in no plan."""
    progress: Progress = Silent()
    say: Callable[[str], None] | None = None
    """Is given each row as it ends, and what the article's script prints."""
    confirm: Callable[[], None] | None = None
    """Asks a person, when all has been said and before anything is sent; raises Problem for a no."""
    wanted: Mapping[str, tuple[int, float]] | None = None
    """Level by level the calls and seconds that bounds of the signed thresholds take; None: nobody named thresholds."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known before a socket is opened."""

    plan: InterviewPlan
    shot: Shot
    patience: Patience | None = None
    """None: 429 and 503 are failures as they come."""
    tls: bool
    host: str
    port: int
    ca_file: str | None
    payload_sha256: str
    url: str
    steps: tuple[Step, ...]
    stamps: tuple[str, ...]


def _can_be_undone(accepted: str) -> bool:
    """Whether each coding that an Accept-Encoding asks for can be looked into."""
    asked = (one.partition(";") for one in accepted.lower().split(","))
    wanted = {name.strip() for name, _, weight in asked if weight.replace(" ", "") not in ("q=0", "q=0.0")}
    return wanted <= {"", "identity", *(coding.decode() for coding in CODINGS)}


def ready_for(plan: InterviewPlan, place: Place, options: LoadOptions, environ: Mapping[str, str]) -> Ready:
    target = plan.target
    parts = split_url(target.http_url)
    assert parts is not None and parts.hostname is not None
    payloads = None
    if target.payloads is not None:
        file = options.base / target.payloads
        payloads = read_payloads(read_bytes(file, PAYLOADS_CAP_BYTES), place=str(file))
    sent = frozen(target, payloads, place=place.at("/target/dialect"))
    _sessions_fit(plan, sent, place)
    headers = fill_in(target.headers, environ, place=place.at("/target/headers"))
    for name, value in headers.items():
        if not value.strip() or not value.isascii() or not value.isprintable():
            raise Problem(
                place.at("/target/headers"),
                found=f"{name}: a value that is empty or not one line of ASCII",
                wanted="the key itself",
                remedy="look at the variable of the environment: no line end, no quotes",
            )
        if name.lower() == "accept-encoding" and not _can_be_undone(value):
            raise Problem(
                place.at("/target/headers"),
                found=f"{name}: {value[:60]}",
                wanted="gzip, deflate, identity: an answer in another coding cannot be looked into",
                remedy=f"leave {name} out, or have it say gzip",
            )
    ca_file = None if target.ca_file is None else options.base / target.ca_file
    if ca_file is not None:
        read_bytes(ca_file, 1 << 20)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    tls = parts.scheme == "https"
    rehearsal = options.rehearsal or bool(empty_seats(plan.seats.names()))
    return Ready(
        plan=plan,
        shot=Shot(
            method=target.method,
            target=path + (f"?{quote(parts.query, safe=string.punctuation)}" if parts.query else ""),
            authority=parts.netloc.rpartition("@")[2],
            headers={**fixed_headers(target), **headers, **options.more_headers},
            payloads=sent.bodies,
            turns=sent.turns,
            shuffled=target.order == "shuffled",
            dialect=target.dialect,
            websocket=_websocket(target),
        ),
        patience=Patience(max_attempts=plan.retry.max_attempts, max_wait_s=plan.retry.max_wait_s)
        if isinstance(plan.retry, Honour)
        else None,
        tls=tls,
        host=parts.hostname,
        port=parts.port or (443 if tls else 80),
        ca_file=None if ca_file is None else str(ca_file.absolute()),
        payload_sha256=payload_sha256(target, sent, path=path),
        url=f"{target.url.partition(':')[0].lower()}://{parts.netloc.rpartition('@')[2]}{parts.path}",
        steps=steps(plan),
        stamps=(*options.stamps, *(("REHEARSAL",) if rehearsal else ())),
    )


def _websocket(target: Asked) -> WebSocket | None:
    if not target.is_websocket:
        return None
    said = target.websocket or Messages()
    return WebSocket(until=said.until, failed=said.failed, subprotocol=said.subprotocol)


def _sessions_fit(plan: InterviewPlan, sent: Frozen, place: Place) -> None:
    """Refuse sessions that could not keep all callers busy, and pauses that would never come. Raises Problem."""
    if not sent.turns:
        if plan.think.turn_s and not plan.think.session_s:
            raise Problem(
                place.at("/think/turn_s"),
                found="a pause between turns, and no sessions",
                wanted="session_s, the pause between two calls, or payloads that are sessions",
                remedy="write think: {session_s: 2}",
            )
        return
    longest, most = max(sent.turns), max(plan.levels)
    if plan.warm < most * longest:
        raise Problem(
            place.at("/warm"),
            found=f"{plan.warm} calls for a level of {most} callers, each with sessions of up to {longest} turns",
            wanted=f"at least {most * longest}: a whole session a caller",
            remedy=f"give {place.at('/warm')} {most * longest} or more, or lower the level",
        )


def room_for(ready: Ready, options: LoadOptions, *, engines: int = 1) -> None:
    """Where results go, descriptors of each engine, disk: looked at before anything is sent. Raises Problem."""
    out = options.out
    if out is not None:
        if out.absolute() in (options.runs.absolute(), *options.runs.absolute().parents):
            raise Problem(
                "--out",
                found=f"{out}, where run folders go",
                wanted="a name of its own for the file",
                remedy="--out interview.json",
            )
        if os.path.lexists(out):
            raise Problem(
                "--out",
                found=f"{out}, which is there already",
                wanted="a new file: no measurement is written over",
                remedy=f"--out {out.stem}-{rfc3339(time.time_ns(), digits=0)[:10]}{out.suffix or '.json'}",
            )
        if not out.absolute().parent.is_dir() or not os.access(out.absolute().parent, os.W_OK):
            raise Problem(
                "--out",
                found=f"no folder {out.absolute().parent} that can be written",
                wanted="a folder that is there",
                remedy=f"mkdir -p {shlex.quote(str(out.parent))}",
            )
    most = max(-(-step.callers // engines) for step in ready.steps)
    limit = raise_descriptors()
    if most + OWN_DESCRIPTORS > limit:
        raise Refused(
            "descriptors",
            found=f"{limit} allowed",
            wanted=f"{most + OWN_DESCRIPTORS}: one for each call that may be in flight",
            remedy=f"run `ulimit -n {most + OWN_DESCRIPTORS}` first, take fewer callers, or share them among --processes",
        )
    there = next(path for path in (options.runs.absolute(), *options.runs.absolute().parents) if path.is_dir())
    need_mb = ready.plan.stop.min_free_mb + LONG_RECORD.size * sum(step.calls for step in ready.steps) // 1_000_000
    free_mb = shutil.disk_usage(there).free // 1_000_000
    if free_mb < need_mb:
        raise Refused(
            "disk_space",
            found=f"{free_mb} MB free at {there}",
            wanted=f"at least {need_mb} MB: what the samples take, and stop.min_free_mb",
            remedy="free some, or choose another disk with --runs DIR",
        )


def look_up(ready: Ready) -> tuple[str, ...]:
    """All addresses of the host, once for the whole run; the connected address is what permission is about. Raises Refused."""
    try:
        found = socket.getaddrinfo(ready.host, ready.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(
            f"target {ready.host}",
            found=getattr(error, "strerror", None) or "a name that is none",
            wanted="a name that is known",
            remedy="mend the URL",
        ) from None
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    outside = [address for address in addresses if not is_loopback(address)]
    if outside and ready.plan.target.permit is None:
        raise Refused(
            f"target {ready.host}",
            found=f"{outside[0]}, which is not loopback",
            wanted="loopback: load goes nowhere else without permission",
            remedy="write a loopback address, or a plan with `permit:`",
        )
    return addresses


def target_lock(ready: Ready, addresses: tuple[str, ...]) -> Lock:
    thing = f"target {addresses[0]}:{ready.port}"
    try:
        lock, _ = take_lock([thing])
    except Refused as refused:
        raise Refused(
            refused.place,
            found=refused.found,
            wanted="one drill or interview at a time on a target",
            remedy="wait for it, or end it by Ctrl-C where it runs",
        ) from None
    return lock


def reach(ready: Ready, addresses: tuple[str, ...]) -> tuple[str, int]:
    """The first address that takes a connection, on which nothing is sent, and our port of it. Raises Refused for none."""
    said = ""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(min(10.0, ready.plan.timeout_s))
            try:
                sock.connect((address, ready.port))
            except OSError as error:
                said = (error.strerror or "no answer").lower()
                continue
            return address, sock.getsockname()[1]
    raise Refused(
        f"target {ready.host}:{ready.port}",
        found=f"{said} at {', '.join(addresses)}",
        wanted="an endpoint that takes a connection",
        remedy="start it, or mend the URL",
    )
