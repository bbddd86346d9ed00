"""Card and page of a Friday drill, from its folder: what `gate` left there is given again first, and only that is shown."""

import os
import shlex
from pathlib import Path

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.evidence import Manifest
from drillmaster.intake import format_of, read_bytes, read_strict
from drillmaster.intake.friday import judge_seen, open_friday, tools_of
from drillmaster.intake.written import write_whole
from drillmaster.reports import form
from drillmaster.reports._friday_view import FridayView, friday_view
from drillmaster.slo import load_matrix
from drillmaster.verdict import Verdict

__all__ = ["friday_pages", "is_friday", "judged_friday"]

_CAP_BYTES = 16 << 20


def is_friday(run_dir: Path) -> bool:
    """Say by its manifest whether a run is a Friday drill; of one that cannot be read, whoever opens it says what is wrong."""
    try:
        return bool(read_strict(run_dir / "manifest.json", dict).get("drill") == "friday")
    except (Problem, AttributeError):
        return False


def judged_friday(run_dir: Path) -> tuple[Verdict, FridayView]:
    """Read a run folder and give its verdict again. Raises Problem, with the one command, where verdict.json is not that."""
    command = f"drillmaster gate matrix {shlex.quote(_short(run_dir))}"
    path, policy = run_dir / "verdict.json", run_dir / "policy.yaml"
    if not path.is_file():
        raise Refused(str(run_dir), found="no verdict.json", wanted="a run that was judged", remedy=command)
    said = read_bytes(path, _CAP_BYTES)
    told: Verdict = form("json").parse(said, place=str(path))
    now_ns = parse_rfc3339(told.now)
    if told.gate != "matrix" or now_ns is None:
        raise Refused(str(path), found=f"a verdict of {told.gate}", wanted="one of gate matrix", remedy=command)
    matrix, digest = load_matrix(read_bytes(policy, _CAP_BYTES), place=str(policy), fmt=format_of(str(policy)))
    seen = open_friday(run_dir, tools=tools_of(matrix))
    verdict = judge_seen(run_dir, seen, matrix, digest, now_ns=now_ns, version=told.version)
    # Where the Verifier judged by another matrix than the sealed copy, only that one's words are shown.
    if told.policy_digest == digest and form("json").render(verdict).encode() != said:
        raise Refused(
            str(path),
            found=f"a verdict ({told.status}) that this run and its matrix do not give ({verdict.status})",
            wanted="the gate's own words on them, byte for byte",
            remedy=command,
        )
    if told.policy_digest != digest:
        raise Refused(
            str(path), found="a verdict by another matrix", wanted="one by the run's own copy", remedy=command
        )
    manifest = read_strict(run_dir / "manifest.json", Manifest)
    owners = {str(name): str(who) for name, who in (manifest.plan.get("owners") or {}).items()}
    view = friday_view(seen, verdict, matrix.rows, seats=manifest.seats, owners=owners, gate_command=command)
    return verdict, view


def friday_pages(run_dir: Path) -> dict[str, Path]:
    """Write card.md and report.html of a judged run; which were written, by form. Raises Problem."""
    verdict, view = judged_friday(run_dir)
    return {
        "card": write_whole(run_dir / "card.md", form("friday_card").render(verdict, view)),
        "report": write_whole(run_dir / "report.html", form("friday_html").render(verdict, view)),
    }


def _short(path: Path) -> str:
    absolute, here = path.absolute(), Path.cwd()
    return os.fspath(absolute.relative_to(here)) if absolute.is_relative_to(here) and absolute != here else str(path)
