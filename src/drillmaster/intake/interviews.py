"""Interviews and thresholds from files: the article's `interview.json` and `gate.json` as they are, and a policy of ours.

1. The article's thresholds hold no owner and no date, and do not say of which endpoint and payload an interview has to be, nor how
   old: that is not looked at, and the verdict is stamped so. Owner and date lie beside them in `FILE.pin.yaml` (source, owner,
   review_by, sha256 of the file's bytes); without it the verdict is stamped UNPINNED.
2. The article's file says no sample and no time. What it says is judged; what it does not say is stamped: UNSEALED,
   UNPROVEN. A file of ours (`--out`) says more, in the same places, and is held to it.
3. `BREACH: none` is printed with exit 0 and never else.
"""

import hashlib
import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.gates.interview import InterviewGate
from drillmaster.intake import read_bytes
from drillmaster.intake.blanks import left_open, none_left_open
from drillmaster.intake.pins import pin_beside
from drillmaster.interviews import Interview, Level, counted
from drillmaster.judge import decode_gate, judge, load_policy
from drillmaster.policy import Pin
from drillmaster.reports import screened
from drillmaster.verdict import Verdict

__all__ = ["Thresholds", "judge_interview_file", "open_interview_file", "read_thresholds", "with_breaches"]

UNBOUND = "AGE AND TARGET NOT CHECKED"
_CAP_BYTES = 1 << 20
_SUCH_AS = 'thresholds such as {"warm_c1": {"p95_s": 20, "error_rate": 0.0}, "cold_max_s": 90}'
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: str
    n: Annotated[int, msgspec.Meta(ge=1)]
    p50_s: _Seconds
    p95_s: _Seconds
    max_s: _Seconds
    error_rate: Annotated[float, msgspec.Meta(ge=0, le=1)]
    requests: Annotated[int, msgspec.Meta(ge=0)] | None = None
    waits: Annotated[int, msgspec.Meta(ge=0)] | None = None
    waited_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    made_again: Annotated[int, msgspec.Meta(ge=0)] | None = None
    unsent_turns: Annotated[int, msgspec.Meta(ge=0)] | None = None
    first_turns_p50_s: _Seconds | None = None
    later_turns_p50_s: _Seconds | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    levels: str
    results: tuple[_Row, ...]
    time_limit_s: float | None = None
    idle_s: float | None = None
    ended_at: str | None = None
    payload_sha256: str | None = None
    run: str | None = None


class _Cap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    p95_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    error_rate: Annotated[float, msgspec.Meta(ge=0, lt=1)]


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, and who answers for them. `pin` None: nobody does."""

    gate: InterviewGate
    pin: Pin | None
    digest: str
    place: str
    stamps: tuple[str, ...] = ()
    """What a verdict by them says of itself: what their format has no field for."""


def open_interview_file(path: Path) -> Interview:
    """Read an `interview.json`, the article's or one of ours. Raises Problem."""
    place = str(path)
    raw = read_bytes(path, cap_bytes=_CAP_BYTES)
    file = strict.load_as(raw, _File, place=place, fmt="json")
    declared = [text.strip() for text in file.levels.split(",")]
    for text in declared:
        if not (text.isascii() and text.isdigit()) or text.startswith("0"):
            raise Problem(
                f"{place}: /levels",
                found=repr(file.levels[:60]),
                wanted="whole numbers of callers, from 1, such as 1,4,8",
                remedy="run the interview again with --levels 1,4,8",
            )
    ended_ns = None
    if file.ended_at is not None:
        ended_ns = parse_rfc3339(file.ended_at)
        if ended_ns is None:
            raise Problem(
                f"{place}: /ended_at",
                found=repr(file.ended_at[:60]),
                wanted="RFC 3339 with a zone",
                remedy="run it again",
            )
    levels = tuple(_level(row, at, place) for at, row in enumerate(file.results))
    return Interview(
        name=path.name,
        url=_bare_url(file.url),
        declared=("cold", *(f"warm_c{text}" for text in declared)),
        levels=levels,
        time_limit_s=file.time_limit_s,
        idle_s=file.idle_s,
        bare=True,
        digest=f"sha256:{hashlib.sha256(raw).hexdigest()}",
        payload_sha256=file.payload_sha256 or "",
        ended_wall_ns=ended_ns,
        examined=counted(levels),
    )


def _level(row: _Row, at: int, place: str) -> Level:
    failures = row.error_rate * row.n
    if abs(failures - round(failures)) > 0.0006 * row.n:  # the article rounds to three digits
        raise Problem(
            f"{place}: /results/{at}/error_rate",
            found=f"{row.error_rate} of {row.n} calls, which is {failures:.4g} failures",
            wanted="a whole number of failed calls",
            remedy="take the file as the interview wrote it",
        )
    return Level(
        label=row.label,
        kind="cold" if row.label == "cold" else "closed",
        n=row.n,
        failed={"failed": round(failures)} if round(failures) else {},
        known={"p50": row.p50_s, "p95": row.p95_s, "max": row.max_s},
        made_again=row.made_again or 0,
    )


def read_thresholds(path: Path) -> Thresholds:
    """Read `gate.json` as the article writes it, or a policy of ours. Raises Problem."""
    place = str(path)
    try:
        raw = read_bytes(path, cap_bytes=_CAP_BYTES)
    except Problem as problem:
        if os.path.lexists(path):
            raise
        raise Problem(
            place,
            found=problem.found,
            wanted=_SUCH_AS,
            remedy=f"{problem.remedy}; where none are written yet, fill in the form of: drillmaster init interview",
        ) from None
    if path.suffix != ".json" or _is_ours(raw, place):
        fmt: dict[str, strict.Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
        if path.suffix not in fmt:
            raise Problem(
                place,
                found=f"the suffix {path.suffix!r}",
                wanted=".json, .yaml or .toml",
                remedy="rename it by what it holds",
            )
        loaded = strict.load(raw, place=place, fmt=fmt[path.suffix])
        if isinstance(loaded, dict):
            none_left_open({path: left_open(loaded, "interview", "policy")}, lambda _: None)
        policy, digest = load_policy(raw, place=place, fmt=fmt[path.suffix])
        gate = decode_gate(policy, "interview", place=place)
        assert isinstance(gate, InterviewGate)
        return Thresholds(gate=gate, pin=policy.pin, digest=digest, place=path.name)
    loaded = strict.load(raw, place=place, fmt="json")
    return Thresholds(
        gate=_article(loaded, place),
        pin=pin_beside(path, raw),
        digest=strict.digest(loaded),
        place=path.name,
        stamps=(UNBOUND,),
    )


def _is_ours(raw: bytes, place: str) -> bool:
    loaded = strict.load(raw, place=place, fmt="json")
    return isinstance(loaded, dict) and "kind" in loaded


def _article(loaded: Any, place: str) -> InterviewGate:
    if not isinstance(loaded, dict) or "cold_max_s" not in loaded:
        raise Problem(
            place,
            found="no cold_max_s" if isinstance(loaded, dict) else strict.shown(loaded),
            wanted=_SUCH_AS,
            remedy="add cold_max_s; a threshold that is not written judges nothing",
        )
    levels = {}
    for label, given in loaded.items():
        if label == "cold_max_s":
            continue
        cap: _Cap = strict.as_type(given, _Cap, place=place, path=(label,))
        levels[label] = {"p95_s": cap.p95_s, "error_rate": cap.error_rate}
    if not levels:
        raise Problem(
            place,
            found="a threshold for the cold call alone",
            wanted=_SUCH_AS,
            remedy="add one for each level that is run",
        )
    limits = {"gate": "interview", "decide": "observed", "cold_max_s": loaded["cold_max_s"], "levels": {}}
    checked: InterviewGate = strict.as_type(
        {**limits, "levels": levels},
        InterviewGate,
        place=place,
        path=(),
    )
    return checked


def judge_interview_file(interview: Interview, thresholds: Thresholds, *, now_ns: int) -> Verdict:
    """Judge a bare file. Its heading says UNSEALED, UNPROVEN; where it has no date, UNDATED."""
    now_ns -= now_ns % 1_000_000_000
    undated = interview.ended_wall_ns is None
    interview = interview.as_of(now_ns)
    verdict = judge(
        thresholds.gate,
        interview,
        name="interview",
        subject=f"{interview.name}: {interview.url}",
        stamps=("UNSEALED", "UNPROVEN", *(("UNDATED",) if undated else ()), *thresholds.stamps),
        pin=thresholds.pin,
        policy_digest=thresholds.digest,
        evidence_digest=interview.digest,
        evidence_end_ns=now_ns if interview.ended_wall_ns is None else interview.ended_wall_ns,
        counts=dict(interview.examined),
        now_ns=now_ns,
        version=drillmaster.__version__,
        limits_from=thresholds.place,
    )
    return screened(with_breaches(verdict, thresholds.gate, interview))


def with_breaches(verdict: Verdict, gate: InterviewGate, interview: Interview) -> Verdict:
    """The verdict with the article's line on top: `BREACH: none`, or what is over its limit. None where it was refused."""
    if verdict.status == "refused":
        first = next(check.id for check in verdict.checks if check.status == "refused")
        line = f"REFUSED: {first}; nothing can be said of breaches"
    else:
        line = "BREACH: " + ("; ".join(gate.breaches(interview)) or "none")
    return msgspec.structs.replace(verdict, headline=(*verdict.headline, line))


def _bare_url(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        return url.partition("?")[0][:200]
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"[:200]
