"""What a master and its workers compare before anything is sent: versions, code, machine, clocks. Imports no Locust."""

import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

import drillmaster
from drillmaster.errors import Problem, Refused

__all__ = ["Clocks", "Meeting", "Relation", "Where", "need_locust", "parse_address", "versions", "wrong_versions"]

PORT = 5557
"""Locust's own."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Where(_Part, frozen=True, kw_only=True):
    """Which kernel, network and clock a process has; equal ones are the same."""

    boot: str
    network: str
    clock: str

    @classmethod
    def here(cls) -> "Where":
        return cls(boot=_read("/proc/sys/kernel/random/boot_id"), network=_link("net"), clock=_link("time"))


class Meeting(_Part, frozen=True, kw_only=True):
    """What a worker is asked, before it is given anything to do."""

    versions: dict[str, str]
    where: Where
    url: str
    host: str
    port: int
    tls: bool
    loopback: bool
    """Whether the master found the host to be loopback."""
    permit: dict[str, str | int | float] | None
    headers: dict[str, str]
    """`${NAME}` in a value stands for a variable of the worker's own environment."""
    callers: int
    """The most that it will have at once."""
    total_s: float
    per_s: float
    requests: int
    time_limit_s: float


def need_locust(place: str) -> None:
    """Raises Refused where Locust is not installed."""
    if importlib.util.find_spec("locust") is None:
        raise Refused(
            place,
            found="no Locust beside this drillmaster",
            wanted="the package locust, which the base install does not bring",
            remedy="pip install 'drillmaster[locust]'",
        )


def versions() -> dict[str, str]:
    """What has to be the same on both sides."""
    found = {"code": _code()}
    for name in ("drillmaster", "locust"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def wrong_versions(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, str, str] | None:
    """What differs first: its name, our version, theirs; None: nothing."""
    for name in ("drillmaster", "locust", "code"):
        if ours.get(name) != theirs.get(name):
            return name, ours.get(name, "none"), theirs.get(name, "none")
    return None


def parse_address(text: str, *, place: str) -> tuple[str, int]:
    """Read `HOST:PORT`, or `HOST` with Locust's own port. Raises Problem."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        host, port = text, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise Problem(
            place,
            found=repr(text)[:60],
            wanted="HOST:PORT",
            remedy=f"write it as 192.0.2.7:{PORT}, or [2001:db8::7]:{PORT}",
        )
    return host, int(port)


def _code() -> str:
    """A digest of all code of ours: two checkouts may have one version."""
    root = Path(drillmaster.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _read(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except OSError:
        return ""


def _link(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")  # noqa: PTH115 - no path of a file, but a name
    except OSError:
        return ""


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's CLOCK_MONOTONIC less the master's, and within which bound that is certain."""

    offset_ns: int
    bound_ns: int
    rounds: int


class Clocks:
    """Relates two clocks from round trips, as Cristian (1989) does: the other's stamp was taken between our two.

    Each round trip bounds the offset on both sides; what all of them allow is kept. What they all exclude (a clock that was set
    between them) cannot be, and the last one alone is believed.
    """

    def __init__(self) -> None:
        self._least: int | None = None
        self._most: int | None = None
        self._rounds = 0

    def heard(self, sent_ns: int, theirs_ns: int, back_ns: int) -> None:
        """One round trip: sent and back on our clock, theirs in between on theirs."""
        least, most = theirs_ns - back_ns, theirs_ns - sent_ns
        if self._least is not None and self._most is not None:
            narrower = max(least, self._least), min(most, self._most)
            least, most = narrower if narrower[0] <= narrower[1] else (least, most)
        self._least, self._most = least, most
        self._rounds += 1

    @property
    def relation(self) -> Relation | None:
        """None: no round trip came back."""
        if self._least is None or self._most is None:
            return None
        return Relation(
            offset_ns=(self._least + self._most) // 2,
            bound_ns=-((self._least - self._most) // 2),
            rounds=self._rounds,
        )
