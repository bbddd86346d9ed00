"""What was recorded from staging: whether it says so, holds a secret, or has grown old."""

from typing import Literal

from drillmaster.changes import FileChange
from drillmaster.errors import Problem
from drillmaster.gates._oracle_evidence import Sorted
from drillmaster.rules.http_fixture import Fixture, read_fixture
from drillmaster.screen import screen_text
from drillmaster.verdict import Check, Cite, Exact, Status

__all__ = ["recorded", "stale", "unredacted"]

_SHOWN = 6
_SKEW_NS = 60 * 10**9


def _touched(told: Sorted) -> list[FileChange]:
    return [
        one
        for one in told.change.diff.files
        if one.how != "deleted" and any(row.source == "staging-record" for row in told.list.of(one.path))
    ]


def recorded(told: Sorted, wanted: Literal["recorded", "any"], hosts: tuple[str, ...]) -> Check:
    """Whether each record that the change adds or alters names its host and time, and its digest holds."""
    bad: list[tuple[str, str]] = []
    files = _touched(told) if wanted == "recorded" else []
    for one in files:
        try:
            fixture, recorded_ns = read_fixture(one.after or b"", place=one.path)
            if hosts and fixture.host.lower() not in {host.lower() for host in hosts}:
                bad.append((one.path, f"it is from {fixture.host}, which the policy does not name"))
            elif recorded_ns > told.change.now_ns + _SKEW_NS:
                bad.append((one.path, f"it is from the future, {fixture.recorded_at}"))
        except Problem as problem:
            bad.append((one.path, f"found {problem.found}, wanted {problem.wanted}"))
    title = (
        "each recording names its host and time, and its digest holds"
        if wanted == "recorded"
        else "recordings of any form are taken"
    )
    return _check(
        "recorded",
        bad,
        title,
        len(files),
        f"drillmaster fixture record URL --by NAME --plan staging.yaml --permit-host HOST --out {bad[0][0] if bad else ''}",
    )


def unredacted(told: Sorted) -> Check:
    """Whether a recording that the change adds or alters holds something that looks like a credential."""
    bad = []
    files = _touched(told)
    for one in files:
        text = (one.after or b"").decode("utf-8", "replace")
        lines = [number for number, line in enumerate(text.splitlines(), 1) if screen_text(line) != line]
        if lines:
            bad.append((one.path, f"line {', '.join(map(str, lines[:_SHOWN]))} holds what looks like a credential"))
    return _check(
        "unredacted",
        bad,
        "no recording holds a credential",
        len(files),
        "record it again with drillmaster fixture record, which screens it, and have the credential replaced",
    )


def stale(told: Sorted, wanted: Literal["recorded", "any"], max_age_s: float) -> Check:
    """Whether the recordings are young enough while an agent works."""
    oldest_s, oldest, unknown = 0.0, "", 0
    for path, data in told.change.fixtures:
        fixture = _read(data, path)
        if fixture is None:
            unknown += 1
            continue
        age_s = (told.change.now_ns - fixture[1]) / 1e9
        if age_s > oldest_s:
            oldest_s, oldest = age_s, path
    agent = told.change.diff.lane.name != "human"
    status: Status = "pass"
    why = ""
    if agent and oldest_s > max_age_s:
        status, why = "fail", f"{oldest} was recorded {oldest_s / 86_400:.1f} days ago"
    elif agent and unknown and wanted == "recorded":
        status, why = "refused", f"{unknown} recordings do not say when they were made"
    return Check(
        id="stale",
        role="judgement",
        status=status,
        title=f"while an agent works, none of {len(told.change.fixtures)} recordings is older than {max_age_s / 86_400:g} days",
        observed=Exact(oldest_s) if oldest else None,
        limit=max_age_s,
        unit="s",
        why=why,
        cites=(Cite(oldest, 0),) if status == "fail" else (),
        remedy=f"drillmaster fixture record URL --by NAME --plan staging.yaml --permit-host HOST --out {oldest or 'FILE'}, "
        "in its owner's own change"
        if why
        else "",
    )


def _read(data: bytes, path: str) -> tuple[Fixture, int] | None:
    try:
        return read_fixture(data, place=path)
    except Problem:
        return None


def _check(id_: str, bad: list[tuple[str, str]], title: str, n: int, remedy: str) -> Check:
    return Check(
        id=id_,
        role="judgement",
        status="fail" if bad else "pass",
        title=f"{title}: {n} in the change",
        observed=Exact(len(bad), n=n),
        cites=tuple(Cite(path, 0) for path, _ in bad[:50]),
        why="; ".join(f"{path}: {what}" for path, what in bad[:_SHOWN]),
        remedy=remedy if bad else "",
    )
