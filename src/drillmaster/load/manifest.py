"""What a run of an interview says of itself before it begins, and the names of its files."""

from typing import Any, Literal

import msgspec

__all__ = ["COLD", "EVENTS", "LADDER", "InterviewManifest", "ladder_files", "part"]

EVENTS = "events/load.jsonl"
COLD = ("samples.cold.bin", "gaps.cold.bin")
LADDER = ("samples.bin", "gaps.bin")


def part(name: str, engine: int, engines: int) -> str:
    """A file's name where several engines write one each, counted from 0: `samples.2.bin` is the second one's."""
    stem, _, ending = name.rpartition(".")
    return name if engines == 1 else f"{stem}.{engine + 1}.{ending}"


class InterviewManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`manifest.json` of a load interview, written first of all."""

    kind: Literal["run"] = "run"
    version: Literal[1] = 1
    run: str
    drill: Literal["interview"] = "interview"
    job: str
    started_at: str
    """The run's zero on the wall clock, RFC 3339 with nine digits."""
    mono0_ns: str
    """CLOCK_MONOTONIC at the same instant, in decimal."""
    seed: int
    plan: dict[str, Any]
    """The plan as it was run, compression applied; values of headers stay out, the rest is screened."""
    plan_sha256: str
    url: str
    """Without user info and query."""
    addresses: tuple[str, ...]
    """What the host's name led to, looked up once; the first that took a connection was used."""
    payload_sha256: str
    """Digest of method, path, names of headers and all bodies."""
    payloads: int
    """How many bodies were sent in turn."""
    payload: str
    """The first of them, screened."""
    steps: tuple[dict[str, Any], ...]
    """`label`, `kind`, `callers`, `calls` of each step, in order; `seconds` of a level that is as long at most."""
    engines: dict[str, Any] = {}
    """Where several shared the load: `kind` (`processes`, `locust`), `size`, and what is known of each (`members`)."""
    shares: tuple[dict[str, Any], ...] = ()
    """Then of each step `label`, and engine by engine `callers` and `calls`; an engine without callers sat it out."""
    idle_s: float
    time_limit_s: float
    versions: dict[str, str]
    seats: dict[str, str]
    """`driver`, `reader`, `recorder` by name."""
    stamps: tuple[str, ...] = ()
    """REHEARSAL, COMPRESSED 30x."""
    code: dict[str, Any] | None = None
    """Commit and dirt of the folder that the plan lies in; null where none is known."""
    authors: tuple[str, ...] | None = None
    """Who git says wrote the plan and its payloads, as `Name <address>`; null where that is not known."""
    permission: dict[str, Any] = {}


def ladder_files(manifest: InterviewManifest) -> list[tuple[str, str]]:
    """Names of samples and gaps of all steps but the cold call, engine by engine."""
    engines = int(manifest.engines.get("size", 1))
    return [(part(LADDER[0], engine, engines), part(LADDER[1], engine, engines)) for engine in range(engines)]
