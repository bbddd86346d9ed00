"""A job's time on a free tier, from a folder of sealed interviews and a ledger, for the free-tier gate.

1. All interviews of the job at the endpoint that were begun in the span are looked at, whoever ran them and however they
   ended. One that cannot be read as it was sealed is told as that and never left out.
2. One that did not come to its end, or whose client could not hold the level, measured nothing and is told as that; nor is a
   cold call that may not have been cold a measurement.
3. A folder whose manifest nobody can read may be one of them, and so may one that says it is of another job, or too old, in
   a manifest that is not the one that was sealed. Both are told too.
4. With a base ref the ledger goes on where the base's ends: what a chain cannot show, that its last lines were cut off, git does.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, one_line
from drillmaster.gates import Gate
from drillmaster.gates.free_tier import FreeTier, Interviewed, Stay
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.authority import Authority
from drillmaster.intake.judging import Asked, Gathered
from drillmaster.intake.ledger import LEDGER_CAP_BYTES, Ledger, read_ledger
from drillmaster.interviews import Level
from drillmaster.load.reading import InterviewRun, open_interview_run
from drillmaster.timeline.folder import read_seal
from drillmaster.verdict import Absent, AtLeast, Exact, Measure

__all__ = ["StayIntake", "open_stay"]

_MANIFEST_CAP_BYTES = 16 << 20
_MOST_RUNS = 1000


class StayIntake:
    """What `intake.judging` asks for: what gathers the evidence."""

    def __init__(self, runs: Path, ledger: Path) -> None:
        self._runs = runs
        self._ledger = ledger

    def gather(self, gate: Gate[Any], asked: Asked, authority: Authority | None) -> Gathered:
        """Read the evidence for a gate. Raises Problem."""
        assert isinstance(gate, FreeTier)
        stay, stamps, seals = open_stay(self._runs, self._ledger, gate, now_ns=asked.now_ns)
        lost = "" if authority is None or stay.ledger else _cut_off(self._ledger, authority)
        if lost:
            stay = msgspec.structs.replace(stay, ledger=lost)
        dates = [one.ended_ns for one in stay.runs if one.ended_ns > 0]
        return Gathered(
            evidence=stay,
            subject=f"{gate.job} at {gate.url}",
            digest=strict.digest(seals),
            counts={
                "interviews": len(stay.runs),
                "calls": sum(one.calls for one in stay.runs),
                "incidents": len(stay.incidents),
                "notes of hours": len(stay.spent),
            },
            end_ns=max(dates, default=None),
            stamps=stamps,
        )


def open_stay(runs: Path, ledger: Path, gate: FreeTier, *, now_ns: int) -> tuple[Stay, tuple[str, ...], dict[str, Any]]:
    """Read all that is known; with stamps of the runs, and the seals and the ledger by digest. Raises Problem."""
    if not is_there(runs) or not runs.is_dir():
        raise Problem(
            str(runs),
            found="no folder",
            wanted="the folder in which the job's interviews lie, each in one of its own",
            remedy=f"drillmaster interview {gate.url} --runs {runs}, with the plan of the job",
        )
    found: list[Interviewed] = []
    unreadable: list[str] = []
    stamps: set[str] = set()
    for folder in _folders(runs):
        try:
            said = _said(folder)
        except Problem as problem:
            unreadable.append(f"{one_line(folder.name)}: {problem.found}")
            continue
        started_ns = parse_rfc3339(str(said.get("started_at", ""))) or 0
        ours = said.get("drill") == "interview" and (said.get("job"), said.get("url")) == (gate.job, gate.url)
        if not ours or 0 < started_ns < now_ns - gate.span_s * 1e9:
            if not _as_sealed(folder):
                unreadable.append(f"{one_line(folder.name)}: its manifest is another one than was sealed")
            continue
        stamps.update(one for one in said.get("stamps", ()) if isinstance(one, str))
        found.append(_interviewed(folder, gate.level, started_ns))
    found.sort(key=lambda one: (one.ended_ns, one.run))
    why, book = "", None
    try:
        book = read_ledger(ledger)
    except Problem as problem:
        why = f"{problem.place}: {problem.found}"
    stay = Stay(
        job=gate.job,
        url=gate.url,
        runs=tuple(found),
        unreadable=tuple(unreadable),
        ledger=why,
        now_ns=now_ns,
        **_booked(book),
    )
    seals = {"runs": [[one.run, one.digest, one.unusable] for one in found], "unreadable": unreadable}
    return stay, tuple(sorted(stamps)), seals | {"ledger": book.digest if book else why}


def _cut_off(ledger: Path, authority: Authority) -> str:
    """Say whether the ledger lacks lines that the base has; empty: it does not, or the base has none."""
    written, top = Path(os.path.normpath(Path.cwd().resolve() / ledger)), authority.repo.path.resolve()
    if not written.is_relative_to(top):
        return ""
    inside = written.relative_to(top).as_posix()
    before = authority.repo.read(authority.base, inside, cap_bytes=LEDGER_CAP_BYTES)
    if before is None or read_bytes(ledger, LEDGER_CAP_BYTES).startswith(before):
        return ""
    return f"{inside}: lines that it has at {authority.base[:12]} are not there, or are others"


def _booked(book: Ledger | None) -> dict[str, Any]:
    if book is None:
        return {}
    return {
        "ledger_job": book.job,
        "ledger_kept_ns": book.kept_ns,
        "incidents": book.incidents(),
        "spent": book.spent(),
        "flags": book.flags(),
    }


def _folders(runs: Path) -> list[Path]:
    """Every folder that is, or may have been, a run."""
    try:
        found = sorted(entry for entry in runs.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise Problem(
            str(runs), found=str(error.strerror), wanted="a folder that can be read", remedy=f"ls {runs}"
        ) from None
    found = [one for one in found if is_there(one / "manifest.json") or is_there(one / "seal.json")]
    if len(found) > _MOST_RUNS:
        raise Problem(
            str(runs),
            found=f"{len(found):,} runs",
            wanted=f"at most {_MOST_RUNS:,}",
            remedy="move the oldest elsewhere",
        )
    return found


def _said(folder: Path) -> dict[str, Any]:
    """What a run says of itself, unproven."""
    path = folder / "manifest.json"
    said = strict.load(read_bytes(path, _MANIFEST_CAP_BYTES), place=str(path), fmt="json")
    if not isinstance(said, dict) or not isinstance(said.get("drill"), str):
        raise Problem(str(path), found="no manifest of a run", wanted="one", remedy=f"drillmaster verify {folder}")
    stamps = said.get("stamps", [])
    return said if isinstance(stamps, list) else {**said, "stamps": []}


def _as_sealed(folder: Path) -> bool:
    """Whether a manifest that says it is none of these is the one that was sealed; one of a run that was never sealed is."""
    if not is_there(folder / "seal.json"):
        return True
    try:
        sealed = read_seal(folder).files.get("manifest.json")
        data = read_bytes(folder / "manifest.json", _MANIFEST_CAP_BYTES)
    except Problem:
        return False
    return sealed is not None and sealed.sha256 == hashlib.sha256(data).hexdigest()


def _interviewed(folder: Path, label: str, started_ns: int) -> Interviewed:
    try:
        read = open_interview_run(folder)
    except Problem as problem:
        return Interviewed(run=one_line(folder.name), ended_ns=started_ns, unusable=problem.found)
    interview, manifest = read.interview, read.manifest
    level, cold, drain = interview.level(label), interview.level("cold"), interview.level("drain")
    told = Interviewed(
        run=manifest.run,
        ended_ns=interview.ended_wall_ns or 0,
        digest=interview.digest,
        unusable=_why_not(read, level, label),
        lost=_lost(read, level, label),
        idle_s=interview.idle_s,
        max_attempts=_attempts(manifest.plan),
        payload_sha256=interview.payload_sha256,
    )
    if level is not None and level.n:
        told = msgspec.structs.replace(
            told,
            calls=level.n,
            p50_s=level.latency("p50"),
            p95_s=level.latency("p95"),
            error_ratio=Exact(level.failures / level.n, n=level.n),
        )
    if cold is not None and not cold.void and not cold.failures:
        told = msgspec.structs.replace(told, cold_s=cold.latency("max"))
    return msgspec.structs.replace(told, drain_s=_drain(drain))


def _why_not(read: InterviewRun, level: Level | None, label: str) -> str:
    if any(stamp.startswith(("COMPRESSED", "DEMO")) for stamp in read.manifest.stamps):
        return f"it is stamped {', '.join(read.manifest.stamps)}"
    return f"it has no level {label}" if read.ended == "completed" and (level is None or not level.n) else ""


def _lost(read: InterviewRun, level: Level | None, label: str) -> str:
    if read.ended != "completed":
        return f"it did not come to its end ({read.ended or 'whoever ran it was killed'})"
    return f"{label} is the client's own: {'; '.join(level.void)}" if level is not None and level.void else ""


def _drain(drain: Level | None) -> Measure:
    if drain is None or drain.kind != "drain" or drain.seconds is None:
        return Absent("no batch was worked off")
    if drain.void:
        return Absent(f"the drain is the client's own: {'; '.join(drain.void)}")
    return AtLeast(drain.seconds, drain.n) if drain.cut_s else Exact(drain.seconds, drain.n)


def _attempts(plan: dict[str, Any]) -> int:
    retry = plan.get("retry")
    most = retry.get("max_attempts", 1) if isinstance(retry, dict) and retry.get("policy") == "honour" else 1
    return most if isinstance(most, int) and not isinstance(most, bool) else 1
