"""What the driver of missions is told at its start: one `Settings` as an argument, and the `Book` that it names.

The book is part of the run's evidence: the flows as they were run, with `${NAME}` where keys go. With the seed, any mission is
drawn again from it by its number.
"""

from typing import Literal

import msgspec

from drillmaster.friday.missions import Arrivals, MissionFile

__all__ = ["BOOK", "PAYLOADS", "ArtilleryLoad", "Book", "BookLoad", "LocustLoad", "OwnLoad", "Settings"]

BOOK = "missions.json"
PAYLOADS = "payloads.ndjson"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class OwnLoad(_Part, frozen=True, kw_only=True, tag="missions", tag_field="run"):
    """Missions that this driver sends itself; a translated profile is one."""

    source: str
    sha256: str
    translated: bool = False
    missions: MissionFile
    concurrent: int | None = None
    ramp_s: float = 0.0
    arrivals: tuple[Arrivals, ...] = ()
    max_open: int = 1_000


class LocustLoad(_Part, frozen=True, kw_only=True, tag="locust", tag_field="run"):
    """A Locust file, by its path on this machine."""

    source: str
    sha256: str
    path: str
    cwd: str
    """Where it runs: the plan's folder, as a person would start it there."""
    users: int
    users_per_s: float
    python: str
    stop_s: float


class ArtilleryLoad(_Part, frozen=True, kw_only=True, tag="artillery", tag_field="run"):
    """A profile for the Artillery that is installed, by its path on this machine."""

    source: str
    sha256: str
    path: str
    program: str
    arrivals: int
    """How many users it brings in all."""
    seconds: float


BookLoad = OwnLoad | LocustLoad | ArtilleryLoad


class Book(_Part, frozen=True, kw_only=True):
    """What is run, as it was understood."""

    kind: Literal["missions-run"] = "missions-run"
    loads: tuple[BookLoad, ...]
    time_limit_s: float
    max_body_bytes: int
    max_missions: int
    seed: int
    run: str
    """The run's id; its last four characters are in every mission's name."""


class Settings(_Part, frozen=True, kw_only=True):
    """How one driver runs; `python -m drillmaster.missions` reads it as one JSON object."""

    book: str
    """Path of the `Book`."""
    url: str
    """The agent's base URL; paths of steps follow it."""
    permitted: bool = False
    """Whether the plan permits a host that is not loopback, and the command line repeated it."""
    ca: str | None = None
    """A PEM file to trust besides the system's store."""
    events: str
    payloads: str | None = None
    """Where each mission's requests are written; None: nowhere."""
    scratch: str | None = None
    """A folder for what a foreign load generator writes before it is read; None: the events' own."""
    mono0_ns: int = 0
    """The run's zero on CLOCK_MONOTONIC."""
    control_path: str | None = None
    """Unix socket, made with mode 0600; only this uid and root are heard. None: begin at once, and end by a signal."""
    owner_pid: int | None = None
    """Who started us; once it is gone, no mission is begun any more."""
    longest_s: float = 86_400.0
    """After so many seconds from the start no mission is begun, whatever is ordered."""
    max_per_s: float | None = None
    """At most so many requests a second, by the permission; None: loopback, where nobody set one."""
    max_requests: int | None = None
    """At most so many requests in all; beyond them no mission is begun."""
