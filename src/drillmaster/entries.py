"""The history's row of a run, from its sealed folder and the verdict beside it."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from drillmaster import strict, timeline
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.evidence import Manifest
from drillmaster.history import Entry, History, Status, figures
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.matrix import open_matrix
from drillmaster.intake.run import open_run
from drillmaster.intake.runs import run_ids, short
from drillmaster.intake.verdicts import stored
from drillmaster.interviews import Level
from drillmaster.load.reading import open_interview_run
from drillmaster.screen import screen_url
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Verdict

__all__ = ["Taken", "entry_of", "take_in"]

_MANIFEST_CAP_BYTES = 16 << 20
_NO_DIRT = hashlib.sha256().hexdigest()
Status3 = Literal["pass", "fail", "refused"]


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a folder of runs."""

    new: tuple[str, ...]
    judged: tuple[str, ...]
    """Known before, and with a later verdict now."""
    left_out: dict[str, str]
    """Run to why it stands in no history: not sealed, not as it was sealed, unreadable."""
    sealed_twice: tuple[str, ...] = ()
    """Runs that the history knows with another seal than their folder has."""


def take_in(history: History, runs: Path) -> Taken:
    """Add each run of a folder that the history does not know, or whose verdict is a later one. Raises Problem."""
    known = history.digests()
    new, judged, twice, left_out = [], [], [], {}
    for run in run_ids(runs):
        folder = runs / run
        if run in known and _head(folder) == known[run][0] and _judged_at(folder) <= known[run][1]:
            continue
        try:
            entry = entry_of(folder)
        except Problem as problem:
            left_out[run] = f"{problem.found}; {problem.remedy}"
            continue
        try:
            how = history.add(entry)
        except Refused as refused:
            twice.append(run)
            left_out[run] = f"{refused.found}; {refused.remedy}"
            continue
        if how == "new":
            new.append(run)
        elif how == "judged":
            judged.append(run)
    return Taken(new=tuple(new), judged=tuple(judged), left_out=left_out, sealed_twice=tuple(twice))


def entry_of(folder: Path) -> Entry:
    """Read the row of one run. Raises Refused where it is not as it was sealed, Problem where it cannot be read."""
    raw = read_bytes(folder / "manifest.json", _MANIFEST_CAP_BYTES)
    said = strict.load(raw, place=str(folder / "manifest.json"), fmt="json")
    drill = said.get("drill") if isinstance(said, dict) else None
    if drill == "friday":
        return _of_a_friday(folder, strict.as_type(said, Manifest, place=str(folder / "manifest.json")))
    return _of_an_interview(folder) if drill == "interview" else _of_a_drill(folder)


def _of_an_interview(folder: Path) -> Entry:
    read = open_interview_run(folder)
    manifest, interview = read.manifest, read.interview
    metrics: dict[str, float] = {"idle_s": manifest.idle_s}
    at_least: list[str] = []
    for level in interview.levels:
        of_level, cut = _figures(level)
        metrics |= of_level
        at_least += cut
    verdict = _verdict(folder, interview.digest)
    return Entry(
        run=manifest.run,
        drill="interview",
        name=manifest.job,
        target=manifest.url,
        ended_at=rfc3339(
            parse_rfc3339(manifest.started_at) or 0 if interview.ended_wall_ns is None else interview.ended_wall_ns
        ),
        stamps=manifest.stamps,
        evidence_digest=interview.digest,
        plan_sha256=manifest.plan_sha256,
        payload_sha256=manifest.payload_sha256,
        metrics=metrics,
        at_least=tuple(at_least),
        **_judged(verdict, completed=read.ended == "completed"),
    )


def _figures(level: Level) -> tuple[dict[str, float], list[str]]:
    """A level's figures by name, and which of them were cut."""
    if not level.n:
        return {}, []
    found = {f"{level.label}.n": float(level.n), f"{level.label}.error_rate": level.failures / level.n}
    cut = []
    for name in ("p50", "p95", "max"):
        measure = level.latency(name)
        if isinstance(measure, Exact | AtLeast):
            found[f"{level.label}.{name}_s"] = measure.value
            cut += [f"{level.label}.{name}_s"] * isinstance(measure, AtLeast)
    return found, cut


def _of_a_drill(folder: Path) -> Entry:
    run = open_run(folder)
    manifest = run.manifest
    assert manifest is not None
    _must_be_sealed(folder, run.seal_problems)
    verdict = _verdict(folder, run.digest)
    metrics, at_least = _judged_figures(verdict)
    if manifest.drill == "matrix":
        proved = _cells(folder)
    else:
        proved = {} if verdict is None else {f"fault/{tag}": verdict.status for tag in _faults(manifest)}
    commit, clean = _code(manifest.code)
    return Entry(
        run=manifest.run,
        drill=manifest.drill,
        name=manifest.service,
        target=screen_url(str(manifest.plan.get("target", {}).get("url", ""))),
        ended_at=rfc3339(run.started_wall_ns + run.end_ns),
        stamps=manifest.stamps,
        evidence_digest=run.digest,
        plan_sha256=manifest.plan_sha256,
        payload_sha256=manifest.payload_sha256,
        metrics=metrics,
        at_least=tuple(at_least),
        proved=proved,
        commit=commit,
        clean=clean,
        **_judged(verdict, completed=run.ended == "completed"),
    )


def _of_a_friday(folder: Path, manifest: Manifest) -> Entry:
    from drillmaster.intake.friday import open_friday  # with alerts and transcripts: only where there is one

    friday = open_friday(folder)
    _must_be_sealed(folder, friday.seal_problems)
    verdict = _verdict(folder, friday.digest)
    metrics: dict[str, float] = {}
    missing: dict[str, str] = {}
    at_least: list[str] = []
    for name, measure in friday.metrics().items():
        match measure:
            case Exact(value=value) | AtMost(value=value):
                metrics[name] = value
            case AtLeast(value=value):
                metrics[name] = value
                at_least.append(name)
            case Absent(why=why):
                missing[name] = why
    judged, cut = _judged_figures(verdict)
    metrics |= judged
    at_least += cut
    proved = {} if verdict is None else _rows(verdict)
    if verdict is not None:
        proved |= {f"flag/{one.flag}": verdict.status for chaos in friday.chaos for one in chaos.flags}
    commit, clean = _code(manifest.code)
    sound, unsound = figures(metrics)
    return Entry(
        run=friday.run,
        drill="friday",
        name=friday.service,
        target=screen_url(str(manifest.plan.get("target", {}).get("url", ""))),
        ended_at=rfc3339(friday.started_wall_ns + friday.end_ns),
        stamps=friday.stamps,
        evidence_digest=friday.digest,
        plan_sha256=manifest.plan_sha256,
        payload_sha256=manifest.payload_sha256,
        metrics=sound,
        at_least=tuple(at_least),
        missing=missing | unsound,
        proved=proved,
        commit=commit,
        clean=clean,
        **_judged(verdict, completed=friday.ended == "completed"),
    )


def _rows(verdict: Verdict) -> dict[str, Status3]:
    """What each row of a drill matrix came to; where the drill was not admitted it showed nothing, whatever its rows say."""
    admitted = all(check.status == "pass" for check in verdict.checks if check.role == "admission")
    return {
        f"row/{check.id.removeprefix('row.')}": check.status if admitted else "refused"
        for check in verdict.checks
        if check.id.startswith("row.")
    }


def _must_be_sealed(folder: Path, problems: Sequence[str]) -> None:
    """Raise Refused for a run that is not sealed, or not as it was sealed."""
    if problems:
        raise Refused(
            one_line(str(folder)),
            found=problems[0],
            wanted="a run as it was sealed",
            remedy=f"drillmaster {'seal' if tuple(problems) == ('not sealed',) else 'verify'} {short(folder)}",
        )


def _judged_figures(verdict: Verdict | None) -> tuple[dict[str, float], list[str]]:
    """What a gate held against limits, by name and unit, and which of it was cut."""
    metrics, at_least = {}, []
    for check in verdict.checks if verdict is not None else ():
        if check.role == "judgement" and isinstance(check.observed, Exact | AtLeast):
            name = f"{check.id}_{check.unit}" if check.unit and check.unit.isalpha() else check.id
            metrics[name] = check.observed.value
            at_least += [name] * isinstance(check.observed, AtLeast)
    return metrics, at_least


def _faults(manifest: Manifest) -> list[str]:
    """The tags of the faults that were injected: those of a plan's rules, or the one for everybody."""
    fault = manifest.plan.get("fault")
    rules = fault.get("rules") if isinstance(fault, dict) else None
    tags = [rule.get("mode") for rule in rules or () if isinstance(rule, dict)] or [manifest.fault.get("tag")]
    return list(dict.fromkeys(str(tag) for tag in tags if tag))


def _cells(folder: Path) -> dict[str, Status3]:
    """What a fault matrix says of each fault: passed where every cell of it that applies did. Nothing of one that was stopped."""
    table = open_matrix(folder)
    if table.problems or table.ended:
        return {}
    said: dict[str, list[bool | None]] = {}
    for result in table.results:
        if result.applies:
            said.setdefault(f"fault/{result.fault}", []).append(result.failed)
    return {
        name: "fail" if True in failed else "refused" if None in failed else "pass" for name, failed in said.items()
    }


def _code(code: Mapping[str, Any] | None) -> tuple[str, bool]:
    """Commit of the code that was drilled, and whether nothing differed from it."""
    told = code or {}
    return str(told.get("commit") or ""), told.get("dirt_sha256") == _NO_DIRT


def _verdict(folder: Path, digest: str) -> Verdict | None:
    """The verdict beside a run, where there is one and it is on this very seal."""
    if not is_there(folder / "verdict.json"):
        return None
    verdict = stored(folder)
    return verdict if verdict.evidence_digest == digest else None


def _judged(verdict: Verdict | None, *, completed: bool) -> dict[str, Any]:
    if verdict is None:
        status: Status = "unjudged" if completed else "aborted"
        return {"status": status}
    return {"status": verdict.status, "judged_at": verdict.now, "policy_digest": verdict.policy_digest}


def _head(folder: Path) -> str:
    """What the seal says that its head is, unproven; empty: there is none that can be read."""
    try:
        return timeline.read_seal(folder).head
    except Problem:
        return ""


def _judged_at(folder: Path) -> str:
    """When the verdict beside a run was given, unproven; empty: there is none that can be read."""
    if not is_there(folder / "verdict.json"):
        return ""
    try:
        return stored(folder).now
    except Problem:
        return ""
