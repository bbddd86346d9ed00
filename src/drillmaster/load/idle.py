"""Whether an endpoint was left alone: who was connected to it, as far as this machine can see.

The kernel lists its own TCP connections in /proc/net/tcp and tcp6, ended ones for a minute more. Of an endpoint on another
machine, or behind another network namespace, it shows our side alone: then idleness cannot be proven, and that is said. Nor
does the list say whether a connection that was there already carried anything.
"""

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = ["Neighbours", "Seen", "is_here"]

_LISTEN = 0x0A
_ESTABLISHED = 0x01
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class _Entry(NamedTuple):
    local: tuple[str, int]
    remote: tuple[str, int]
    state: int


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of others in the idle time."""

    proven: bool | None
    """True: nobody was connected. False: somebody connected. None: it cannot be told."""
    why: str
    new: int
    """Connections that came."""
    standing: int
    """Connections that were there at the start."""


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's (of this network namespace)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((address, 0))
        except OSError:
            return False
    return True


class Neighbours:
    """Looks at the connections to one endpoint, again and again."""

    def __init__(
        self, address: str, port: int, *, ours: int = 0, tables: Sequence[Path] = _TABLES, here: bool | None = None
    ) -> None:
        """`ours`: our own port of a connection that was tried before.

        `here`: whether the address is one of this machine's; None: ask.
        """
        self._ours = ours
        self._tables = tables
        self._to = (str(_plain(ipaddress.ip_address(address))), port)
        self._here = is_here(address) if here is None else here
        self._readable = True
        first = self._look()
        self._known = set(first)
        self._standing = {other for other, state in first.items() if state == _ESTABLISHED}
        self._new: set[tuple[str, int]] = set()

    def look(self) -> None:
        now = self._look()
        self._new |= set(now) - self._known

    def seen(self) -> Seen:
        new, standing = len(self._new), len(self._standing)
        proven: bool | None
        if not self._here:
            proven, why = None, "the endpoint is not on this machine: who else calls it cannot be seen from here"
        elif not self._readable:
            proven, why = None, "the kernel's list of connections cannot be read"
        elif new:
            proven, why = False, f"{new} connections came to the endpoint that are not ours"
        elif standing:
            proven, why = (
                None,
                f"{standing} connections were there already: whether they carried anything cannot be told",
            )
        else:
            proven, why = True, "nobody was connected to the endpoint"
        return Seen(proven=proven, why=why, new=new, standing=standing)

    def _look(self) -> dict[tuple[str, int], int]:
        """Who is at the other end of each connection to the endpoint, and the connection's state."""
        found: dict[tuple[str, int], int] = {}
        for entry in self._entries():
            if entry.state == _LISTEN:
                continue
            if self._ours in (entry.local[1], entry.remote[1]):
                continue
            if entry.local == self._to:
                found[entry.remote] = entry.state
            elif entry.remote == self._to:
                found.setdefault(entry.local, entry.state)
        return found

    def _entries(self) -> Iterator[_Entry]:
        for table in self._tables:
            try:
                lines = table.read_text("ascii").splitlines()[1:]
            except (OSError, ValueError):
                self._readable = self._readable and table != self._tables[0]
                continue
            for line in lines:
                words = line.split()
                if len(words) > 3:
                    yield _Entry(_end(words[1]), _end(words[2]), int(words[3], 16))


def _end(text: str) -> tuple[str, int]:
    """Read `0100007F:1F90`: the address as words of the host's order, the port in hex."""
    digits, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    return str(_plain(ipaddress.ip_address(raw))), int(port, 16)


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
