"""From files to a verdict, and a verdict to its file: the few steps that gate, run and demo share.

1. A verdict's time has whole seconds, so that the one that is recorded gives the same verdict again.
2. What is shown of a verdict later was given again from the sealed run, its policy copy, and the recorded time and
   version. A verdict.json that is not that, byte for byte, is nobody's: it is refused, not shown.
3. Of what a verdict counts one thing is not sealed, the lines that came late: as many as were counted then may be
   fewer than now.
"""

import re
import shlex
from pathlib import Path

import msgspec

import drillmaster
from drillmaster import strict
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.gates.eviction import Eviction
from drillmaster.intake import read_bytes
from drillmaster.judge import decode_gate, judge, load_policy
from drillmaster.outcomes import Run
from drillmaster.policy import Policy, seconds_text
from drillmaster.reports import form, screened
from drillmaster.timeline.opening import complaint, write_whole
from drillmaster.verdict import Verdict

__all__ = ["again", "gate_command", "judge_bare", "judge_eviction", "keep", "read_policy", "stored"]

_POLICY_CAP_BYTES = 1 << 20
_VERDICT_CAP_BYTES = 16 << 20
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")


def read_policy(path: Path) -> tuple[Policy, Eviction, str]:
    """Read a policy file: itself, its limits for the eviction gate, its digest. Raises Problem."""
    raw, fmt = read_bytes(path, cap_bytes=_POLICY_CAP_BYTES), _format(path)
    policy, digest = load_policy(raw, place=str(path), fmt=fmt)
    gate = decode_gate(policy, "eviction", place=str(path))
    assert isinstance(gate, Eviction)
    return policy, gate, digest


def judge_eviction(run: Run, policy_file: Path, *, now_ns: int, version: str | None = None) -> Verdict:
    """Judge a run folder's evidence by a policy file. `version`: the one to record, None: this one.

    Raises Problem; Refused for a run of another drill, whose phases mean something else.
    """
    manifest = run.manifest
    if manifest is not None and manifest.drill != "eviction":
        raise Refused(
            f"{run.name}: /drill",
            found=repr(manifest.drill[:40]),
            wanted="'eviction', for the eviction gate",
            remedy=f"drillmaster matrix {run.place}"
            if manifest.drill == "matrix"
            else "name a run of an eviction drill",
        )
    policy, gate, digest = read_policy(policy_file)
    now_ns = _whole_second(now_ns)
    verdict = judge(
        gate,
        run,
        name="eviction",
        subject=f"{manifest.service}, run {run.name}" if manifest else run.name,
        stamps=manifest.stamps if manifest else (),
        pin=policy.pin,
        policy_digest=digest,
        policy_expected=manifest.policy_sha256 if manifest else None,
        evidence_digest=run.digest,
        evidence_end_ns=run.started_wall_ns + run.end_ns,
        counts=_counts(run),
        now_ns=now_ns,
        version=drillmaster.__version__ if version is None else version,
    )
    return screened(verdict)


def again(run: Run, run_dir: Path, *, command: str) -> Verdict:
    """Give the verdict of a run folder again, and compare it with verdict.json (rules 2 and 3).

    `command` judges the run. Problem, with that command, where they differ, the seal does not hold, or there is none.
    """
    path = run_dir / "verdict.json"
    if run.seal_problems:
        unsealed = tuple(run.seal_problems) == ("not sealed",)
        raise Refused(
            str(run_dir),
            found=run.seal_problems[0],
            wanted="a run as it was sealed",
            remedy=f"drillmaster seal {shlex.quote(str(run_dir))}" if unsealed else command,
        )
    said = _said(run_dir, command)
    try:
        told: Verdict = form("json").parse(said, place=str(path))
    except Problem as problem:
        raise Problem(problem.place, found=problem.found, wanted=problem.wanted, remedy=command) from None
    if told.evidence_digest != run.digest:
        raise Refused(
            str(path),
            found=f"a verdict on other evidence ({told.evidence_digest[:19] or 'unsealed'})",
            wanted=f"one on this seal ({run.digest[:19] or 'none'})",
            remedy=command,
        )
    now_ns = parse_rfc3339(told.now)
    if now_ns is None or _VERSION.fullmatch(told.version) is None:
        raise Refused(str(path), found="no time and version in it", wanted="a verdict of this gate", remedy=command)
    late = told.counts.get("late", run.late)
    then = msgspec.structs.replace(run, late=late) if 0 <= late <= run.late else run
    verdict = judge_eviction(then, run_dir / "policy.yaml", now_ns=now_ns, version=told.version)
    if form("json").render(verdict).encode() != said:
        raise Refused(
            str(path),
            found=f"a verdict ({told.status}) that this run and its policy do not give ({verdict.status})",
            wanted="the gate's own words on them, byte for byte",
            remedy=command,
        )
    return verdict


def _whole_second(now_ns: int) -> int:
    return now_ns - now_ns % 1_000_000_000


def judge_bare(run: Run, limits: Eviction | None, policy_file: Path | None, *, now_ns: int) -> Verdict:
    """Judge one bare file, by flags or by a policy file. Its heading says UNSEALED, UNPROVEN."""
    pin, digest = None, ""
    if policy_file is not None:
        policy, limits, digest = read_policy(policy_file)
        pin = policy.pin
    assert limits is not None
    now_ns = _whole_second(now_ns)
    lasted_s = round(run.end_ns / 1e9, 1)
    age_s = (now_ns - run.started_wall_ns - run.end_ns) / 1e9
    began = rfc3339(run.started_wall_ns, digits=0)
    subject = f"{run.name}: {seconds_text(lasted_s)} from {began}, {_age(age_s)}"
    verdict = judge(
        limits,
        run,
        name="eviction",
        subject=subject if run.examined.get("lines") else run.name,
        stamps=("UNSEALED", "UNPROVEN"),
        pin=pin,
        policy_digest=digest or strict.digest({"flags": [limits.max_failed_ratio, limits.max_fallback_s]}),
        evidence_digest=run.digest,
        evidence_end_ns=run.started_wall_ns + run.end_ns,
        counts=_counts(run),
        now_ns=now_ns,
        version=drillmaster.__version__,
    )
    return screened(verdict)


def keep(verdict: Verdict, run_dir: Path) -> Path:
    """Write verdict.json into the run folder, whole or not at all. The seal does not cover it."""
    path = run_dir / "verdict.json"
    try:
        write_whole(path, form("json").render(verdict).encode())
    except OSError as error:
        raise Problem(
            str(path),
            found=complaint(error)[0],
            wanted="a folder that can be written",
            remedy="free it, or judge without keeping the verdict: --no-record",
        ) from None
    return path


def gate_command(run_dir: Path) -> str:
    """Say how to judge a run, as one would type it here."""
    return f"drillmaster gate eviction {shlex.quote(str(run_dir))}"


def stored(run_dir: Path) -> Verdict:
    """Read the verdict of a run folder. Raises Problem with the command that makes one.

    It says what the file says. For what the run says use `again`.
    """
    said = _said(run_dir, gate_command(run_dir))
    verdict: Verdict = form("json").parse(said, place=str(run_dir / "verdict.json"))
    return verdict


def _said(run_dir: Path, command: str) -> bytes:
    path = run_dir / "verdict.json"
    try:
        path.lstat()
    except FileNotFoundError:
        raise Problem(str(path), found="nothing", wanted="the verdict", remedy=command) from None
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(str(path), found=found, wanted="the verdict", remedy=remedy) from None
    return read_bytes(path, cap_bytes=_VERDICT_CAP_BYTES)


def _format(path: Path) -> strict.Format:
    suffixes: dict[str, strict.Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
    if path.suffix not in suffixes:
        raise Problem(
            str(path),
            found=f"the suffix {path.suffix!r}" if path.suffix else "no suffix",
            wanted=".yaml, .json or .toml",
            remedy="rename the file by what it holds",
        )
    return suffixes[path.suffix]


def _counts(run: Run) -> dict[str, int]:
    return {
        **run.examined,
        "requests": len(run.requests),
        "attempts": len(run.attempts),
        "windows": len(run.windows),
        "damaged": len(run.defects),
        "late": run.late,
    }


def _age(age_s: float) -> str:
    if age_s < 0:
        return f"ends {seconds_text(round(-age_s))} in the future"
    if age_s < 7200:
        return f"{seconds_text(round(age_s))} old"
    return f"{age_s / 86_400:.1f} days old" if age_s >= 172_800 else f"{age_s / 3600:.1f} h old"
