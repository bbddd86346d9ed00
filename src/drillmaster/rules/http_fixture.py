"""A recorded exchange with an HTTP API: what it has to say of itself, and whether its digest holds.

1. It names the host it came from, when, by whom it was recorded, what was asked, and what came back: status, chosen header
   fields, body. A body that is JSON is kept as such, any other as text.
2. `sha256` is over the canonical bytes (RFC 8785) of everything beside it. One changed character, and it does not hold.
3. A recording is from a time that has been.
"""

from typing import Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem

__all__ = ["CAP_BYTES", "Asked", "Fixture", "Recorded", "fixture_digest", "read_fixture"]

CAP_BYTES = 8 << 20


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was sent. `path` holds no values of a query."""

    method: str
    path: str
    body_sha256: str | None = None


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came back, screened. Exactly one of `json` and `text` is the body; neither: it was empty."""

    status: int
    headers: dict[str, str] = {}
    json: Any = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET


class Fixture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind: http-fixture`. `recorded_at` is RFC 3339 with a zone; `screened` counts what was taken out."""

    kind: Literal["http-fixture"]
    version: Literal[1]
    host: str
    recorded_at: str
    recorded_by: str
    request: Asked
    response: Recorded
    screened: int
    sha256: str


def fixture_digest(fixture: Any) -> str:
    """Give the digest of a fixture as plain values, or of one that is to be written, over all but `sha256`."""
    return strict.digest({key: value for key, value in fixture.items() if key != "sha256"})


def read_fixture(data: bytes, *, place: str) -> tuple[Fixture, int]:
    """Read a fixture, with its time in ns. Raises Problem where it is none, or its digest does not hold."""
    fixture = strict.load_as(data, Fixture, place=place, fmt="json", cap_bytes=CAP_BYTES)
    recorded_ns = parse_rfc3339(fixture.recorded_at)
    again = f"drillmaster fixture record URL --by NAME --plan staging.yaml --permit-host {fixture.host or 'HOST'} --out {place}"
    if recorded_ns is None:
        raise Problem(
            f"{place}: /recorded_at", found=repr(fixture.recorded_at[:40]), wanted="RFC 3339 with a zone", remedy=again
        )
    if not fixture.host.strip() or not fixture.recorded_by.strip():
        field = "host" if not fixture.host.strip() else "recorded_by"
        raise Problem(f"{place}: /{field}", found="nothing", wanted="a name", remedy=again)
    wanted = fixture_digest(strict.load(data, place=place, fmt="json", cap_bytes=CAP_BYTES))
    if wanted != fixture.sha256:
        raise Problem(
            f"{place}: /sha256",
            found=fixture.sha256[:20] or "nothing",
            wanted=f"{wanted[:20]}, of what it holds",
            remedy=again,
        )
    return fixture, recorded_ns
