"""From files to a verdict, and a verdict to its file: the few steps that gate, run and demo share."""

import os
from pathlib import Path

import drillmaster
from drillmaster import strict
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.gates.eviction import Eviction
from drillmaster.intake import read_bytes
from drillmaster.judge import decode_gate, judge, load_policy
from drillmaster.outcomes import Run
from drillmaster.policy import Policy, seconds_text
from drillmaster.reports import form
from drillmaster.verdict import Verdict

__all__ = ["judge_bare", "judge_eviction", "keep", "read_policy", "stored"]

_POLICY_CAP_BYTES = 1 << 20


def read_policy(path: Path) -> tuple[Policy, Eviction, str]:
    """Read a policy file: itself, its limits for the eviction gate, its digest. Raises Problem."""
    raw, fmt = read_bytes(path, cap_bytes=_POLICY_CAP_BYTES), _format(path)
    policy, digest = load_policy(raw, place=str(path), fmt=fmt)
    gate = decode_gate(policy, "eviction", place=str(path))
    assert isinstance(gate, Eviction)
    return policy, gate, digest


def judge_eviction(run: Run, policy_file: Path, *, now_ns: int) -> Verdict:
    """Judge a run folder's evidence by a policy file."""
    policy, gate, digest = read_policy(policy_file)
    manifest = run.manifest
    return judge(
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
        version=drillmaster.__version__,
    )


def judge_bare(run: Run, limits: Eviction | None, policy_file: Path | None, *, now_ns: int) -> Verdict:
    """Judge one bare file, by flags or by a policy file. Its heading says UNSEALED, UNPROVEN."""
    pin, digest = None, ""
    if policy_file is not None:
        policy, limits, digest = read_policy(policy_file)
        pin = policy.pin
    assert limits is not None
    lasted_s = round(run.end_ns / 1e9, 1)
    age_s = (now_ns - run.started_wall_ns - run.end_ns) / 1e9
    began = rfc3339(run.started_wall_ns, digits=0)
    subject = f"{run.name}: {seconds_text(lasted_s)} from {began}, {_age(age_s)}"
    return judge(
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


def keep(verdict: Verdict, run_dir: Path) -> Path:
    """Write verdict.json into the run folder, whole or not at all. The seal does not cover it."""
    path = run_dir / "verdict.json"
    draft = run_dir / ".verdict.json.new"
    try:
        draft.write_text(form("json").render(verdict), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise Problem(
            str(path),
            found=os.strerror(error.errno or 0),
            wanted="a folder that can be written",
            remedy="free it, or judge without keeping the verdict: --no-record",
        ) from None
    return path


def stored(run_dir: Path) -> Verdict:
    """Read the verdict of a run folder. Raises Problem with the command that makes one."""
    path = run_dir / "verdict.json"
    if not path.exists():
        raise Problem(str(path), found="nothing", wanted="the verdict", remedy=f"drillmaster gate eviction {run_dir}")
    verdict: Verdict = form("json").parse(read_bytes(path, cap_bytes=16 << 20), place=str(path))
    return verdict


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
