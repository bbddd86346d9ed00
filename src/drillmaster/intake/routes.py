"""A host's routing table, read and never tried: from /proc, and from `ip -json`, which knows all tables.

1. Broadcast and multicast are left out. A row that throws packets away stays, as that. So does, of `ip`, an address of the host's
   own: who holds a lock host's address is that host.
2. `throw` is no row: the search then goes on elsewhere, and what is found there counts. Nor is one that throws away only what has
   a mark (`tos`) or comes from somewhere (`from`).
3. Of several next hops the first stands for all.
4. Only what is up counts, in /proc; `ip` shows no other.
5. Which rule leads to a table (`ip rule`) is not read: every table counts, so that a rule could only take a finding off.
"""

import ipaddress
import json
import struct
from typing import Any

from drillmaster.errors import Problem
from drillmaster.gates._leases_evidence import Route
from drillmaster.strict import shown

__all__ = ["of_ip", "of_proc_ipv4", "of_proc_ipv6"]

_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200
_LOCAL = 0x80000000
_THROWS = frozenset({"blackhole", "unreachable", "prohibit"})
_NOT_OURS = frozenset({"broadcast", "anycast", "multicast", "throw", "nat"})


def of_proc_ipv4(text: str) -> tuple[Route, ...]:
    """Read /proc/net/route. Raises Problem."""
    found = []
    for number, line in enumerate(text.splitlines()[1:], 2):
        if not line.strip():
            continue
        try:
            dev, to, via, flags, _, _, metric, mask, *_ = line.split()
            bits = int(flags, 16)
            wide = ipaddress.IPv4Network((_native(to), bin(int(mask, 16)).count("1")), strict=False)
            gateway = str(ipaddress.IPv4Address(_native(via))) if bits & _GATEWAY else ""
            row = Route(to=str(wide), via=gateway, dev=dev, metric=int(metric), rejects=bool(bits & _REJECT))
        except ValueError:
            raise _none("/proc/net/route", number, line) from None
        if bits & (_UP | _REJECT):
            found.append(row)
    return tuple(found)


def of_proc_ipv6(text: str) -> tuple[Route, ...]:
    """Read /proc/net/ipv6_route. Raises Problem."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            to, length, _, _, via, metric, _, _, flags, dev = line.split()
            bits = int(flags, 16)
            wide = ipaddress.IPv6Network((bytes.fromhex(to), int(length, 16)), strict=False)
            gateway = str(ipaddress.IPv6Address(bytes.fromhex(via))) if int(via, 16) else ""
            row = Route(to=str(wide), via=gateway, dev=dev, metric=int(metric, 16), rejects=bool(bits & _REJECT))
        except ValueError:
            raise _none("/proc/net/ipv6_route", number, line) from None
        if not bits & _LOCAL and bits & (_UP | _REJECT) and not wide.is_multicast:
            found.append(row)
    return tuple(found)


def of_ip(text: str, version: int) -> tuple[Route, ...]:
    """Read what `ip -json -4 route show table all` (or -6) printed. Raises Problem."""
    try:
        rows = json.loads(text or "[]")
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise Problem(
            "ip -json route", found=shown(text[:40]), wanted="a list, as iproute2 prints it", remedy="update iproute2"
        )
    found = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise _none("ip -json route", number, row)
        kind = row.get("type", "unicast")
        hops = row.get("nexthops")
        hop = hops[0] if isinstance(hops, list) and hops and isinstance(hops[0], dict) else row
        only_some = kind in _THROWS and (row.get("tos") or row.get("from"))
        if kind in _NOT_OURS or only_some:
            continue
        try:
            to = str(row.get("dst"))
            wide = ipaddress.ip_network(
                ("0.0.0.0/0" if version == 4 else "::/0") if to == "default" else to, strict=False
            )
            said = hop.get("gateway") or (hop.get("via") or {}).get("host") or ""
            found.append(
                Route(
                    to=str(wide),
                    via=str(ipaddress.ip_address(said)) if said else "",
                    dev=str(hop.get("dev") or "")[:40],
                    metric=int(row.get("metric") or 0),
                    rejects=kind in _THROWS,
                    table=str(row.get("table") or "main")[:40],
                )
            )
        except (ValueError, TypeError, AttributeError):
            raise _none("ip -json route", number, row) from None
    return tuple(one for one in found if not ipaddress.ip_network(one.to).is_multicast)


def _native(word: str) -> bytes:
    """Give the bytes of an address that the kernel printed as one number of this machine's own order."""
    return struct.pack("=I", int(word, 16))


def _none(place: str, number: int, found: Any) -> Problem:
    return Problem(
        f"{place}:{number}",
        found=shown(found),
        wanted="a row of a routing table",
        remedy="look at it by hand, and tell us which kernel wrote it",
    )
