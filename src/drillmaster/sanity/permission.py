"""Who may send what where, by a plan of any kind: URLs, loopback, permission, headers without keys, and seats.

Rules 1 and 2 of `sanity`.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import date
from urllib.parse import SplitResult, urlsplit

from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.plan import Permit
from drillmaster.sanity.shapes import wrong

__all__ = [
    "empty_seats",
    "fill_in",
    "header_problems",
    "is_loopback",
    "parse_listen",
    "permission_problems",
    "seat_problems",
    "split_url",
]


_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "x-goog-api-key"}
)
_LONGEST_S = 1e9
"""What is longer is refused elsewhere, and no number of nanoseconds."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "traceparent", "x-drill-request", "accept-encoding"}
)


def split_url(url: str) -> SplitResult | None:
    """Split a URL; None where it is not an absolute http(s) URL with a host and a valid port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.port == 0
        or re.search(r"[\x00-\x20\x7f]", url)
    ):
        return None
    return parts


def parse_listen(text: str) -> tuple[str, int] | None:
    """Read `ADDRESS:PORT` or `[v6]:PORT`; None when it is neither. An IP or `localhost`; port 0 is any."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):(\d{1,5})", text)
    if match is None or int(match[3]) > 65_535:
        return None
    host = match[1] or match[2]
    if host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return None
    return host, int(match[3])


def is_loopback(host: str) -> bool:
    """Whether a host as written is this machine: a loopback IP, or `localhost`."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def header_problems(headers: Mapping[str, str], *, place: str, pointer: str) -> Iterator[Problem]:
    """What is wrong with headers that a plan names: each is one line of ASCII, none holds a key, none is ours to set."""
    for name, value in headers.items():
        if (
            not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
            or re.search(r"[\r\n\0]", value)
            or not value.isascii()
        ):
            yield wrong(place, pointer, repr(name)[:40], "a header name, and a value of one ASCII line", "mend it")
        elif name.lower() in _SECRET_HEADERS and not _REFERENCE.search(value):
            yield wrong(
                place,
                f"{pointer}/{name}",
                "a credential in the plan",
                "its name: a plan is evidence",
                f"write `{name}: ${{AGENT_KEY}}`",
            )
        elif name.lower() in _OURS:
            yield wrong(place, pointer, repr(name), "none of ours", f"remove {name}: the drill sets it")


def fill_in(values: Mapping[str, str], environ: Mapping[str, str], *, place: str) -> dict[str, str]:
    """Put values of the environment in for `${NAME}`: keys come from there, never from a plan. Raises Problem."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise Problem(
                place,
                found=f"${{{match[1]}}}, which is not set",
                wanted="a variable of the environment",
                remedy=f"export {match[1]}=...",
            )
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text) for name, text in values.items()}


def _until_ns(text: str) -> int | None:
    try:
        return parse_rfc3339(f"{date.fromisoformat(text).isoformat()}T23:59:59Z")
    except ValueError:
        return parse_rfc3339(text)


def permission_problems(
    url: str,
    permit: Permit | None,
    *,
    place: str,
    wall_ns: int,
    permit_host: str | None,
    total_s: float,
    per_s: float,
    requests: int,
    calmer: str,
) -> Iterator[Problem]:
    """Whether load may go to a URL: to loopback, or with the plan's permission that the command line repeats.

    `total_s`, `per_s` and `requests` are what is planned; `calmer` is what to do where that is more than is permitted.
    """
    parts = split_url(url)
    if parts is None:
        return
    host = parts.hostname or ""
    if permit is None:
        if not is_loopback(host):
            yield Refused(
                f"{place}: /target/url",
                found=f"{host}, which is not loopback",
                wanted="permission: load and faults go to loopback unless an owner allowed more",
                remedy=f"add `permit:` with its owner to target, and run with --permit-host {host}",
            )
        return
    at = f"{place}: /target/permit"
    if permit.host.lower() != host.lower():
        yield Refused(
            at,
            found=f"permission for {permit.host}",
            wanted=f"permission for {host}",
            remedy=f"set host to {host}, if its owner agrees",
        )
    if not permit.owner.strip():
        yield Refused(at, found="no owner", wanted="who allowed it", remedy="fill in owner")
    until_ns = _until_ns(permit.until)
    if until_ns is None:
        yield Refused(
            f"{at}/until",
            found=repr(permit.until)[:40],
            wanted="RFC 3339 time or date",
            remedy="write `until: 2026-12-31`",
        )
    elif until_ns < wall_ns + round(min(total_s, _LONGEST_S) * 1e9):
        yield Refused(
            f"{at}/until",
            found=f"{permit.until}, which is over before this drill would be ({rfc3339(wall_ns, digits=0)} now)",
            wanted="permission that holds until its end",
            remedy=f"ask {permit.owner or 'the owner'} for a new date",
        )
    if per_s > permit.max_per_s:
        yield Refused(
            f"{at}/max_per_s",
            found=f"{per_s:g} requests a second planned",
            wanted=f"at most {permit.max_per_s:g}",
            remedy=calmer,
        )
    if requests > permit.max_requests:
        yield Refused(
            f"{at}/max_requests",
            found=f"{requests} requests planned",
            wanted=f"at most {permit.max_requests}",
            remedy=calmer,
        )
    if not is_loopback(host) and (permit_host or "").lower() != host.lower():
        yield Refused(
            "--permit-host",
            found=permit_host or "nothing",
            wanted=f"{host}: permission is given twice, in the plan and on the command line",
            remedy=f"add --permit-host {host}",
        )


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def empty_seats(names: Mapping[str, str]) -> tuple[str, ...]:
    """The seats without a name."""
    return tuple(seat for seat, name in names.items() if not _folded(name))


def seat_problems(names: Mapping[str, str], *, place: str, rehearsal: bool) -> Iterator[Problem]:
    """What is wrong with who sits where, by seat: one person, one seat, but in a rehearsal."""
    held: dict[str, str] = {}
    for seat, name in names.items():
        if re.search(r"[\x00-\x1f\x7f]", name) or len(name) > 100:
            yield wrong(
                place, f"/seats/{seat}", "control characters, or over 100 of them", "a name", "write the person's name"
            )
        other = held.setdefault(_folded(name), seat)
        if other != seat and _folded(name) and not rehearsal:
            yield Refused(
                f"{place}: /seats/{seat}",
                found=f"{name.strip()}, who is the {other.capitalize()} already",
                wanted="another person: who injects does not judge, and one person holds one seat",
                remedy="name a third person, or rehearse alone with --rehearsal",
            )
