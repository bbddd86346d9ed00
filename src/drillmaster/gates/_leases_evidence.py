"""What the leases gate looks at: a lab host as it said of itself, images, and what the repository's paths hold."""

import ipaddress
from collections.abc import Iterable
from typing import Literal

import msgspec

from drillmaster.gates._leases_words import Hit

__all__ = ["Environment", "Hit", "Image", "Lab", "Leases", "Path", "Route", "network", "way_to"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Names of one process's environment; no value is ever kept."""

    of: str
    names: tuple[str, ...]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a routing table. `to` is a network, `0.0.0.0/0` the default; `via` "": whoever it leads to is on the link."""

    to: str
    via: str = ""
    dev: str = ""
    metric: int = 0
    rejects: bool = False
    """What goes there is thrown away: blackhole, unreachable, prohibit."""
    table: str = "main"


class Lab(msgspec.Struct, frozen=True, kw_only=True):
    """One lab host. `tables`: whether only the main table was read, or all."""

    host: str
    produced_ns: int
    environments: tuple[Environment, ...]
    routes: tuple[Route, ...]
    tables: Literal["main", "all", "none"]
    revision: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """Names of an image's environment. `kind`: as it was inspected, or as its Dockerfile says, which has not the base's."""

    place: str
    kind: Literal["inspected", "dockerfile"]
    names: tuple[str, ...]


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """One path of the repository, searched. `missing`: why there is nothing of that name."""

    path: str
    role: Literal["locks", "prompts"]
    missing: str = ""
    files: int = 0
    unread: tuple[str, ...] = ()
    """Files that are no text, too large, or links."""
    hits: tuple[Hit, ...] = ()


class Leases(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    lab: Lab
    images: tuple[Image, ...]
    paths: tuple[Path, ...]
    now_ns: int


_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


def network(text: str) -> Network | None:
    """Read an address or a network; None: it is neither, such as a name. One of IPv4 that is written as IPv6 is one of IPv4."""
    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    if found.version == 6 and found.prefixlen >= _MAPPED.prefixlen and found.network_address in _MAPPED:
        return ipaddress.IPv4Network((int(found.network_address) & 0xFFFFFFFF, found.prefixlen - _MAPPED.prefixlen))
    return found


def way_to(target: Network, routes: Iterable[Route], *, default_counts: bool) -> tuple[Route, ...]:
    """Give the rows by which packets to a network, or to part of it, leave; none where there is none.

    In each table the longest prefix that covers the target decides, among equals the smallest metric, as in the kernel. Rows for
    a part of the target count as well. A row that throws away is no way. Which table is asked first is not looked at: each counts.
    """
    found: list[Route] = []
    tables: dict[str, list[tuple[Network, Route]]] = {}
    for route in routes:
        to = network(route.to)
        if to is not None and to.version == target.version:
            tables.setdefault(route.table, []).append((to, route))
    for rows in tables.values():
        covering = [(to, route) for to, route in rows if _within(target, to)]
        if covering:
            longest = max(to.prefixlen for to, _ in covering)
            best = [route for to, route in covering if to.prefixlen == longest]
            least = min(route.metric for route in best)
            found += [one for one in best if one.metric == least and not one.rejects and (longest or default_counts)]
        found += [route for to, route in rows if to != target and _within(to, target) and not route.rejects]
    return tuple(found)


def _within(inner: Network, outer: Network) -> bool:
    return (
        inner.prefixlen >= outer.prefixlen
        and inner.supernet(new_prefix=outer.prefixlen).network_address == outer.network_address
    )
